package check

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

// frameBytes is the length of a schema registry's frame.
const frameBytes = 5

// object is one event of a sample, or an object in it.
type object = map[string]any

// encodings counts how the records of a sample are encoded.
type encodings struct {
	records  int // records with a value
	bson     int
	framed   int // JSON after a schema registry's frame
	plain    int // JSON without one
	extended int // JSON with names of Extended JSON
	// compressed counts the records that their producer compressed, by compression.
	compressed map[measurement.Compression]int
	inflater   *measurement.Inflater
	// readers are decoders of formats that are neither JSON nor BSON. byFormat counts their records.
	readers map[measurement.Format]*measurement.Decoder
	// known are the formats whose schemas the settings or their registry have. byID are those of them whose records name their
	// schema.
	known, byID []measurement.Format
	byFormat    map[measurement.Format]int
	// strange counts records that are neither JSON nor BSON as they are, by what they look like.
	strange map[*measurement.Form]int
	// noSchema counts records whose schema the registry does not have.
	noSchema int
	odd      int // the sum of strange and noSchema
}

// mostInflated bounds the decompressed size of a value in a sample. It is the highest EVENT_MAX_BYTES.
const mostInflated = 64 << 20

func newEncodings() encodings {
	e := encodings{
		strange: map[*measurement.Form]int{}, compressed: map[measurement.Compression]int{}, inflater: measurement.NewInflater(mostInflated),
		readers: map[measurement.Format]*measurement.Decoder{}, byFormat: map[measurement.Format]int{},
	}
	for _, format := range []measurement.Format{measurement.Influx, measurement.OTLP, measurement.OTLPJSON} {
		reader, err := measurement.New(measurement.Options{Format: format, MetaFrom: measurement.MetaFromNone, MaxBytes: mostInflated})
		if err != nil {
			panic("waterwheel: options that are constant: " + err.Error())
		}
		e.readers[format] = reader
	}
	return e
}

// readBy adds readers of Avro or Protobuf with the schema of the settings, or of both with the schemas of the registry. Only a
// schema tells what the bytes mean.
func (e *encodings) readBy(o measurement.Options) {
	for _, format := range []measurement.Format{measurement.Avro, measurement.Protobuf} {
		of := measurement.Options{Format: format, Decimals: o.Decimals, MetaFrom: measurement.MetaFromNone, MaxBytes: mostInflated, Ask: o.Ask}
		if o.Format == format {
			of.Schema, of.Descriptors, of.Message = o.Schema, o.Descriptors, o.Message
		}
		if of.NeedsRegistry() {
			of.Framing = measurement.Confluent
		}
		reader, err := measurement.New(of)
		if err != nil || of.NeedsRegistry() && of.Ask == nil {
			continue
		}
		e.readers[format] = reader
		if e.known = append(e.known, format); of.NeedsRegistry() {
			e.byID = append(e.byID, format)
		}
	}
}

// read returns the events of a record, if it has any.
func (e *encodings) read(r *record.Record) []object {
	value := r.Value
	if value == nil {
		return nil
	}
	e.records++
	var by measurement.Compression
	if value, by = e.inflater.Text(value); by != measurement.NoCompression {
		e.compressed[by]++
	}
	for _, format := range e.known {
		if list := e.events(format, value, r); len(list) > 0 {
			return list
		}
		e.byFormat[format]--
	}
	if o, ok := readDocument(value); ok {
		e.bson++
		return []object{o}
	}
	text := value
	if len(value) > frameBytes && value[0] == 0 {
		text = value[frameBytes:]
	}
	list, ok := readJSON(bytes.TrimPrefix(text, []byte("\ufeff")))
	switch {
	case ok && isRequest(list):
		return e.events(measurement.OTLPJSON, value, r)
	case !ok && measurement.IsLines(value):
		return e.events(measurement.Influx, value, r)
	case !ok && measurement.IsRequest(value):
		return e.events(measurement.OTLP, value, r)
	}
	if !ok {
		e.odd++
		form := measurement.FormOf(value)
		if !form.IsCertain() && e.lacksSchema(value, r) {
			e.noSchema++
			return nil
		}
		e.strange[form]++
		list, _ = readJSON(measurement.Trim(value)) // what can be learnt about its fields
		return list
	}
	if len(text) < len(value) {
		e.framed++
	} else {
		e.plain++
	}
	if bytes.Contains(text, []byte(`"$`)) {
		e.extended++
	}
	return list
}

// events returns the events of a record in a format, as objects. value is the record's value after decompression.
func (e *encodings) events(format measurement.Format, value []byte, r *record.Record) (list []object) {
	e.byFormat[format]++
	for _, event := range e.readers[format].Events(record.Record{Timestamp: r.Timestamp, Value: value, Headers: r.Headers}) {
		if o, ok := readDocument(event); ok {
			list = append(list, o)
		}
	}
	return list
}

// lacksSchema reports whether a record names a schema that the registry does not have.
func (e *encodings) lacksSchema(value []byte, r *record.Record) bool {
	if len(e.byID) == 0 {
		return false
	}
	_, err := e.readers[e.byID[0]].TryDecode(record.Record{Timestamp: r.Timestamp, Value: value, Headers: r.Headers})
	wrong, ok := errors.AsType[*measurement.DecodeError](err)
	return ok && wrong.Reason == measurement.UnknownSchema
}

// isRequest reports whether a record is a request of OpenTelemetry's protocol with metrics.
func isRequest(list []object) bool {
	_, ok := list[0]["resourceMetrics"].([]any)
	return ok && len(list) == 1
}

// framing returns the framing of most events.
func (e *encodings) framing() measurement.Framing {
	switch {
	case slices.Contains(e.byID, e.format()):
		return measurement.Confluent
	case e.framed == 0:
		return measurement.NoFraming
	case e.plain > 0:
		return measurement.AutoFrame
	}
	return measurement.Confluent
}

// compression returns the compression of the records. It is auto if it differs between records.
func (e *encodings) compression() measurement.Compression {
	for by, n := range e.compressed {
		if n == e.records {
			return by
		}
	}
	if len(e.compressed) > 0 {
		return measurement.AutoCompression
	}
	return measurement.NoCompression
}

// format returns the format of most events.
func (e *encodings) format() measurement.Format {
	for format, n := range e.byFormat {
		if n*2 > e.records {
			return format
		}
	}
	switch {
	case e.bson*2 > e.records:
		return measurement.BSON
	case e.extended*2 > e.records:
		return measurement.ExtJSON
	}
	return measurement.JSON
}

// readDocument reads a BSON document through its Extended JSON.
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

// readJSON returns JSON objects, and the objects in arrays, of one or several JSON texts. False means that the text is something
// else.
func readJSON(text []byte) (list []object, ok bool) {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	for decoder.InputOffset() < int64(len(text)) {
		var value any
		if decoder.Decode(&value) != nil {
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
		default:
			return nil, false
		}
	}
	return list, len(list) > 0
}

var (
	numeralPattern = regexp.MustCompile(`^[+-]?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$|^[+-]?\.\d+$|^[+-]?\d+\.$|^(NaN|[+-]Inf(inity)?)$`)
	commaNumber    = regexp.MustCompile(`^[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+$|^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$`)
	unitNumber     = regexp.MustCompile(`^[+-]?\d+([.,]\d+)? ?(°C|°F|C|F|K|%|V|A|W|kW|kWh|Wh|Hz|Pa|hPa|kPa|bar|mbar|ppm|ppb|m|mm|cm|km|l|L|m3|m³|lx|dB|dBm|s|ms|rpm|kg|g)$`)
	finePattern    = regexp.MustCompile(`[.,]\d{3}\d*[1-9]\d*`)
)

// longestNumber is the maximum length of a text that is a number or a time.
const longestNumber = 40

// inText counts what a text of a field looks like.
func (f *field) inText(text string) {
	if holdsJSON(text) {
		f.documents++
	}
	if text == "" || len(text) > longestNumber || !strings.ContainsAny(text, "0123456789NI=") {
		return
	}
	switch {
	case numeralPattern.MatchString(text):
		f.numerals++
		if strings.ContainsAny(text, ".eENI") {
			f.pointed++
		}
	case commaNumber.MatchString(text):
		f.commas++
	case unitNumber.MatchString(text):
		f.units++
	case len(text) <= 24 && len(text)%4 == 0 && strings.HasSuffix(text, "=") && isBase64(text):
		f.encoded++
	}
	if isFine(text) {
		f.fine++
	}
}

// inNumbers returns how many texts of a field are numbers.
func (f *field) inNumbers() int { return f.numerals + f.commas + f.units }

// isFine reports whether a time has digits below the millisecond, as a text or as a number of micro- or nanoseconds.
func isFine(text string) bool {
	if digits := strings.TrimLeft(text, "0123456789"); digits == "" {
		return len(text) == 16 && !strings.HasSuffix(text, "000") || len(text) == 19 && !strings.HasSuffix(text, "000000")
	}
	return len(text) > 20 && strings.Contains(text, ":") && finePattern.MatchString(text)
}

func isBase64(text string) bool {
	_, err := base64.StdEncoding.DecodeString(text)
	return err == nil
}

// decimal is a field that is a decimal according to the schema in its own record. It comes as the bytes of its digits.
type decimal struct {
	scale    int
	variable bool // an object of scale and value
}

// schemasRead bounds how many schemas of one sample are read. Most records have the same schema.
const schemasRead = 200

// addSchema reads the schema that Kafka Connect's converter writes into each record.
func (e *evidence) addSchema(value any) {
	schema, ok := value.(object)
	if !ok || e.schemas == schemasRead {
		return
	}
	e.schemas++
	e.schemaOf(schema, "payload", 1)
}

func (e *evidence) schemaOf(schema object, path string, depth int) {
	list, _ := schema["fields"].([]any)
	for _, one := range list {
		of, ok := one.(object)
		if !ok || depth > deepest {
			continue
		}
		name, _ := of["field"].(string)
		below := path + "." + name
		switch logical, _ := of["name"].(string); {
		case strings.HasSuffix(logical, "connect.data.Decimal"):
			scale := 0
			if parameters, ok := of["parameters"].(object); ok {
				_, _ = fmt.Sscan(fmt.Sprint(parameters["scale"]), &scale) // 0 if there is none
			}
			e.decimals[below] = decimal{scale: scale}
		case strings.HasSuffix(logical, "VariableScaleDecimal"):
			e.decimals[below] = decimal{variable: true}
		default:
			e.schemaOf(of, below, depth+1)
		}
	}
}

// read returns the number in a decimal's text. Empty means that there is none.
func (d decimal) read(text string) string {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) == 0 || len(raw) > 16 || d.scale < 0 || d.scale > 30 {
		return ""
	}
	unscaled := new(big.Int).SetBytes(raw)
	if raw[0] >= 0x80 {
		unscaled.Sub(unscaled, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.scale)), nil)
	return new(big.Rat).SetFrac(unscaled, scale).FloatString(d.scale)
}

// isConnect reports whether an object has the form that Kafka Connect's JSON converter writes.
func isConnect(o object) bool {
	_, hasSchema := o["schema"]
	_, hasPayload := o["payload"]
	return hasSchema && hasPayload && len(o) == 2
}

// isBraced reports whether a text begins like a JSON object or array.
func isBraced(text string) bool {
	text = strings.TrimSpace(text)
	return text != "" && (text[0] == '{' || text[0] == '[')
}
