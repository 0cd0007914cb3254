package check

import (
	"bytes"
	"encoding/json"
	"regexp"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/measurement"
)

// frameBytes is the length of a schema registry's frame.
const frameBytes = 5

// object is one event of a sample, or an object in it.
type object = map[string]any

// encodings counts how the records of a sample are encoded.
type encodings struct {
	records  int // with a value
	bson     int
	framed   int // JSON behind a schema registry's frame
	extended int // JSON with names of Extended JSON
	// strange counts the records that are neither JSON nor BSON as they stand, by what they look like.
	strange map[*strangeForm]int
	odd     int // the sum of strange
}

func newEncodings() encodings { return encodings{strange: map[*strangeForm]int{}} }

// read reads the events of a record's value, as far as it has any.
func (e *encodings) read(value []byte) []object {
	if value == nil {
		return nil
	}
	e.records++
	if o, ok := readDocument(value); ok {
		e.bson++
		return []object{o}
	}
	text := value
	if len(value) > frameBytes && value[0] == 0 {
		text = value[frameBytes:]
	}
	list, ok := readJSON(text)
	if !ok {
		form := formOf(value)
		e.strange[form]++
		e.odd++
		if form.trim != nil {
			list, _ = readJSON(form.trim(value)) // what can be known of its fields
		}
		return list
	}
	if len(text) < len(value) {
		e.framed++
	}
	if bytes.Contains(text, []byte(`"$`)) {
		e.extended++
	}
	return list
}

// framing is what stands before most events.
func (e *encodings) framing() measurement.Framing {
	if e.framed*2 > e.records {
		return measurement.Confluent
	}
	return measurement.NoFraming
}

// format is the format of most events.
func (e *encodings) format() measurement.Format {
	switch {
	case e.bson*2 > e.records:
		return measurement.BSON
	case e.extended*2 > e.records:
		return measurement.ExtJSON
	}
	return measurement.JSON
}

// readDocument reads a BSON document, as its Extended JSON.
func readDocument(value []byte) (object, bool) {
	if len(value) < 5 || bson.Raw(value).Validate() != nil {
		return nil, false
	}
	text, err := bson.MarshalExtJSON(bson.Raw(value), false, false)
	if err != nil {
		return nil, false
	}
	list, ok := readJSON(text)
	if !ok {
		return nil, false
	}
	return list[0], true
}

// readJSON reads a JSON object, or the objects of an array. False: it is something else, or more than one JSON text.
func readJSON(text []byte) (list []object, ok bool) {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil || decoder.InputOffset() < int64(len(text)) {
		return nil, false
	}
	switch v := value.(type) {
	case object:
		list = append(list, v)
	case []any:
		for _, element := range v {
			if o, isObject := element.(object); isObject {
				list = append(list, o)
			}
		}
	}
	return list, len(list) > 0
}

// strangeForm is a form of records that are not read.
type strangeForm struct {
	name, wayOut string
	is           func(value []byte) bool
	trim         func(value []byte) []byte // what is left is JSON
}

var (
	linePattern  = regexp.MustCompile(`^[^\s,={}\[\]"]([^\s,={}"]|\\.)*(,([^\s,={}"]|\\.)+=([^\s,={}"]|\\.)+)* ([^\s,={}"]|\\.)+=("([^"]|\\")*"|[^\s,"]+)(,([^\s,={}"]|\\.)+=("([^"]|\\")*"|[^\s,"]+))*( -?\d+)?\s*(\n|$)`)
	barePattern  = regexp.MustCompile(`^\s*(-?\d[\d.eE+-]*|true|false|null|"[^"]*")\s*$`)
	commaPattern = regexp.MustCompile(`^[^{}\[\]<>\n]*([,;\t][^{}\[\]<>\n]*){2,}\s*(\n|$)`)
	nanPattern   = regexp.MustCompile(`[:,\[]\s*-?(NaN|nan|Infinity|inf|Inf)\b`)
	singlePatt   = regexp.MustCompile(`^\s*\{\s*('|[a-zA-Z_]\w*\s*:)`)
)

// strangeForms are the forms that are known, the most particular first. The last takes everything.
var strangeForms = []strangeForm{
	{"begin with a byte order mark", "send UTF-8 without a byte order mark", begins("\xef\xbb\xbf"), func(v []byte) []byte { return v[3:] }},
	{"are UTF-16", "send UTF-8", func(v []byte) bool {
		return bytes.HasPrefix(v, []byte("\xff\xfe")) || bytes.HasPrefix(v, []byte("\xfe\xff")) || bytes.HasPrefix(v, []byte("{\x00\"\x00"))
	}, nil},
	{"are JSON with zero bytes behind it", "send no zero byte behind the JSON: a C program may count the end of its string", func(v []byte) bool {
		return bytes.HasSuffix(v, []byte{0}) && json.Valid(bytes.TrimRight(v, "\x00"))
	}, func(v []byte) []byte { return bytes.TrimRight(v, "\x00") }},
	{"are compressed by their producer (gzip)", "switch that off, and set Kafka's compression.type instead", begins("\x1f\x8b"), nil},
	{"are compressed by their producer (zstd)", "switch that off, and set Kafka's compression.type instead", begins("\x28\xb5\x2f\xfd"), nil},
	{"are Avro files, with a schema in each", "send JSON: Avro is not read", begins("Obj\x01"), nil},
	{"are JSON behind a frame of nine bytes, whose schema id has eight", "let the serializer write ids of four bytes, as Confluent's does", func(v []byte) bool {
		_, ok := readJSON(v[min(len(v), frameBytes+4):])
		return len(v) > frameBytes+4 && v[0] == 0 && ok
	}, nil},
	{"begin with the frame of a schema registry, but no JSON follows", "send JSON: Avro and Protobuf are not read", func(v []byte) bool { return len(v) >= frameBytes && v[0] == 0 }, nil},
	{"are JSON texts written one after another in a record", "put the events of a record into an array", severalTexts, nil},
	{"are JSON but for NaN or Infinity, which JSON does not have", "send null, or leave the field out", func(v []byte) bool { return isBraced(v) && nanPattern.Match(v) }, nil},
	{"are no JSON, but the notation of a program: names without quotes, or in single ones", "let the producer write JSON, as json.dumps does in Python", singlePatt.Match, nil},
	{"begin like JSON and are broken", "look at the reasons above", isBraced, nil},
	{"are XML", "send JSON", begins("<"), nil},
	{"are base64 of JSON", "send the JSON itself", begins("eyJ"), nil},
	{"are InfluxDB line protocol, which Telegraf writes unless told otherwise", `set data_format = "json" in Telegraf's Kafka output`, linePattern.Match, nil},
	{"are bare values without a name, a time or a source", "send a JSON object with the value and its time", barePattern.Match, nil},
	{"are lines of values between commas (CSV)", "send a JSON object: the names of columns are not in the records", commaPattern.Match, nil},
	{"are text, and neither JSON nor BSON", "send JSON", func(v []byte) bool { return utf8.Valid(v) && bytes.IndexByte(v, 0) < 0 }, nil},
	{"are bytes, and neither JSON nor BSON", "send JSON: MessagePack, CBOR, Avro and Protobuf are not read", func([]byte) bool { return true }, nil},
}

// formOf is what a value looks like that is neither JSON nor BSON.
func formOf(value []byte) *strangeForm {
	for i := range strangeForms {
		if strangeForms[i].is(value) {
			return &strangeForms[i]
		}
	}
	return nil // never: the last takes everything
}

func begins(with string) func([]byte) bool {
	return func(v []byte) bool { return bytes.HasPrefix(v, []byte(with)) }
}

// isBraced reports whether a value begins as a JSON object or an array does.
func isBraced(value []byte) bool {
	value = bytes.TrimSpace(value)
	return len(value) > 0 && (value[0] == '{' || value[0] == '[')
}

// severalTexts reports whether a value is more than one JSON text.
func severalTexts(value []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(value))
	texts := 0
	for ; texts < 2; texts++ {
		var text json.RawMessage
		if decoder.Decode(&text) != nil || !isBraced(text) {
			return false
		}
	}
	return true
}
