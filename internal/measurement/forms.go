package measurement

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"waterwheel/internal/timeseries/rawbson"
)

// Form describes a record's value that cannot be read as its format. Dead letters and the check command share one list of forms.
type Form struct {
	// says continues a sentence that begins with "the value".
	says string
	// WayOut says what to do.
	WayOut string
	is     func(value []byte) bool
	who    formUse
}

// formUse says who uses a form: dead letters and checks, or checks only.
type formUse uint8

const (
	byAll formUse = iota
	// byCheck means that a dead letter has a better detail for such a value, as the place or the frame's id.
	byCheck
)

const (
	compressKafka = "let the Kafka producer compress instead (compression.type), because all consumers decompress this automatically"
	byteOrderMark = "\xef\xbb\xbf"
)

var (
	barePattern   = regexp.MustCompile(`^\s*(-?\d[\d.eE+-]*|true|false|null|"[^"]*")\s*$`)
	commaPattern  = regexp.MustCompile(`^[^{}\[\]<>\n]*([,;\t][^{}\[\]<>\n]*){2,}\s*(\n|$)`)
	nanPattern    = regexp.MustCompile(`[:,\[]\s*-?(NaN|nan|Infinity|inf|Inf)\b`)
	singlePattern = regexp.MustCompile(`^\s*\{\s*('|[a-zA-Z_]\w*\s*:)`)
)

// forms are the encodings by which a value is recognised, the most specific first. The last one matches every value.
var forms = []Form{
	{"is UTF-16 text, but JSON must be UTF-8", "have the producer write UTF-8", isUTF16, byAll},
	{"is JSON with zero bytes after it", "send no zero bytes after the JSON: a C program may send the end of its string", isTerminated, byCheck},
	{"is compressed by gzip", "set EVENT_COMPRESSION=gzip, or " + compressKafka, beginsWith(gzipMagic), byAll},
	{"is compressed by zstd", "set EVENT_COMPRESSION=zstd, or " + compressKafka, beginsWith(zstdMagic), byAll},
	{"is compressed by zlib", "set EVENT_COMPRESSION=zlib, or " + compressKafka, isZlib, byAll},
	{"is compressed by snappy", compressKafka, isSnappy, byAll},
	{"is compressed by lz4", compressKafka, beginsWith("\x04\x22\x4d\x18"), byAll},
	{"is compressed by bzip2", compressKafka, beginsWith("BZh"), byAll},
	{"is a BSON document", "set EVENT_FORMAT=bson", isBSON, byAll},
	{"begins like an Avro file, which is not supported", "send each event in its own record, in JSON, or in Avro with EVENT_FORMAT=avro", beginsWith("Obj\x01"), byAll},
	{"is JSON after a frame of nine bytes with a schema id of eight bytes", "let the serializer write schema ids of four bytes, as Confluent's does", hasLongFrame, byCheck},
	{"begins with the frame of a schema registry, but no JSON follows", framedOther, func(v []byte) bool { return len(v) >= frameBytes && v[0] == 0 }, byCheck},
	{"holds JSON and other bytes after it", "send only JSON objects and arrays", isJSONAndMore, byCheck},
	{"is JSON except for NaN or Infinity, which JSON does not allow", "send null, or leave the field out", func(v []byte) bool { return isJSONStart(v) && nanPattern.Match(v) }, byCheck},
	{"is not JSON, because names have no quotes or single quotes", "let the producer write JSON, for example with json.dumps in Python", singlePattern.Match, byCheck},
	{"begins like JSON, with a syntax error in it", "look at the reasons above", isJSONStart, byCheck},
	{"is InfluxDB's line protocol", "set EVENT_FORMAT=influx, or have the producer write JSON", isLineProtocol, byAll},
	{"is a request of OpenTelemetry's protocol in protobuf", "set EVENT_FORMAT=otlp", IsRequest, byAll},
	{"begins like XML, which is not supported", "send JSON", beginsWith("<"), byAll},
	{"is base64-encoded JSON", "send the JSON itself", beginsWith("eyJ"), byAll},
	{"is JSON that was encoded twice", "have the producer encode the JSON once, and not twice", isEncodedTwice, byCheck},
	{"holds a single value without a name, a time or a source", "send a JSON object with the value and its time", barePattern.Match, byCheck},
	{"holds a line of separated values (CSV)", "send a JSON object: the records do not contain the names of the columns", commaPattern.Match, byCheck},
	{"is text, and neither JSON nor BSON", "send JSON", func(v []byte) bool { return utf8.Valid(v) && bytes.IndexByte(v, 0) < 0 }, byCheck},
	{"is binary data, and neither JSON nor BSON", "send JSON, Avro with its schema in EVENT_SCHEMA_FILE, Protobuf with its descriptors in EVENT_PROTOBUF_FILE, or Avro or Protobuf with SCHEMA_REGISTRY_URL: MessagePack and CBOR are not supported", func([]byte) bool { return true }, byCheck},
}

// FormOf returns the form of a value that is neither JSON nor BSON as it stands. Every value has a form.
func FormOf(value []byte) *Form {
	for i := range forms {
		if forms[i].is(value) {
			return &forms[i]
		}
	}
	return nil // cannot happen, because the last form matches every value
}

// IsCertain reports whether the value has the form for sure, and is not the event of a schema.
func (f *Form) IsCertain() bool { return f.who == byAll }

// Many describes several values of the form. It continues a sentence that begins with "the records".
func (f *Form) Many() string {
	verb, rest, _ := strings.Cut(f.says, " ")
	return map[string]string{"is": "are", "begins": "begin", "holds": "hold"}[verb] + " " + rest
}

// Trim returns a value without a byte order mark before its JSON and zero bytes behind it.
func Trim(value []byte) []byte {
	return bytes.TrimRight(bytes.TrimPrefix(value, []byte(byteOrderMark)), "\x00")
}

// formOf names the encoding of a value for a dead letter, with the way out. It is empty if no recognised encoding says more than
// the place where the value ceases to be readable.
func formOf(value []byte) string {
	for _, f := range forms {
		if f.who == byAll && f.is(value) {
			return f.says + ": " + f.WayOut
		}
	}
	return ""
}

func beginsWith(magic string) func([]byte) bool {
	return func(value []byte) bool { return bytes.HasPrefix(value, []byte(magic)) }
}

// isTerminated reports whether a value is JSON with zero bytes behind it.
func isTerminated(value []byte) bool {
	return bytes.HasSuffix(value, []byte{0}) && json.Valid(bytes.TrimRight(value, "\x00"))
}

// isEncodedTwice reports whether a value is a JSON text that holds an object or an array.
func isEncodedTwice(value []byte) bool {
	var text string
	return bytes.HasPrefix(bytes.TrimSpace(value), []byte{'"'}) && json.Unmarshal(value, &text) == nil && isJSONStart([]byte(text)) && json.Valid([]byte(text))
}

// isJSONAndMore reports whether something follows a JSON object or array in a value.
func isJSONAndMore(value []byte) bool {
	var text json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(value))
	return decoder.Decode(&text) == nil && isJSONStart(text) && len(bytes.TrimSpace(value[decoder.InputOffset():])) > 0
}

// isUTF16 reports whether a value begins with UTF-16's byte order mark, or as an object or array in UTF-16 does.
func isUTF16(value []byte) bool {
	if beginsWith("\xff\xfe")(value) || beginsWith("\xfe\xff")(value) {
		return true
	}
	if len(value) < 4 || len(value)%2 != 0 {
		return false
	}
	return value[1] == 0 && value[3] == 0 && isJSONStart(value[:1]) || value[0] == 0 && value[2] == 0 && isJSONStart(value[1:2])
}

// isSnappy reports whether a value is a stream of snappy, as Java's and Google's libraries write it, or a block that begins as JSON.
func isSnappy(value []byte) bool {
	if beginsWith("\xff\x06\x00\x00sNaPpY")(value) || beginsWith("\x82SNAPPY\x00")(value) {
		return true
	}
	// A block begins with its decompressed length. Literals and copies follow, and the first of them must be a literal.
	length, n := binary.Uvarint(value)
	if n <= 0 || n >= len(value) || value[n]&3 != 0 || isJSONStart(value) {
		return false
	}
	const short = 60 // literals up to this length have it in the tag
	literal := uint64(value[n]>>2) + 1
	begin := n + 1
	if more := int(literal) - short; more > 0 {
		if len(value) < begin+more {
			return false
		}
		var long [8]byte
		copy(long[:], value[begin:begin+more])
		literal, begin = binary.LittleEndian.Uint64(long[:])+1, begin+more
	}
	return literal <= length && literal <= uint64(len(value)-begin) && isJSONStart(value[begin:])
}

// isLineProtocol reports whether the first line of a value is a point of InfluxDB's line protocol. A point is a measurement with
// its tags, its fields, and perhaps a time.
func isLineProtocol(value []byte) bool {
	line, _, _ := bytes.Cut(value, []byte{'\n'})
	line = bytes.TrimSuffix(line, []byte{'\r'})
	series, rest := cutUnescaped(line)
	fields, time := cutUnescaped(rest)
	name, first, hasValue := bytes.Cut(fields, []byte{'='})
	if len(name) == 0 || !hasValue || len(first) == 0 || !isSeries(series) {
		return false
	}
	return bytes.IndexByte([]byte(`0123456789-."tTfF`), first[0]) >= 0 && isDigits(bytes.TrimPrefix(time, []byte{'-'}))
}

// IsLines reports whether the first line of a value is a point of the line protocol.
func IsLines(value []byte) bool {
	value = bytes.TrimPrefix(value, []byte(byteOrderMark))
	var l lineReader
	l.begin(value)
	if !l.more() || !isLineProtocol(value[l.at:]) {
		return false
	}
	_, err := l.read(0)
	return err == nil
}

// isSeries reports whether a text is a measurement's name and its tags, each behind a comma.
func isSeries(text []byte) bool {
	plain := strings.NewReplacer(`\,`, "", `\=`, "").Replace(string(text))
	name, tags, tagged := strings.Cut(plain, ",")
	if name == "" || strings.ContainsAny(name, `={["`) {
		return false
	}
	for tag := range strings.SplitSeq(tags, ",") {
		if tagged && strings.IndexByte(tag, '=') <= 0 {
			return false
		}
	}
	return true
}

// cutUnescaped cuts a line at its first blank that is neither escaped nor in quotes.
func cutUnescaped(line []byte) (before, after []byte) {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case ' ':
			if !quoted {
				return line[:i], line[i+1:]
			}
		}
	}
	return line, nil
}

// isBSON reports whether a value is one BSON document.
func isBSON(value []byte) bool {
	return rawbson.DocumentSize(value) == len(value) && new(bsonChecker).document(value, 1) == nil
}

// numberOut is what to do with a number that JSON does not have.
const numberOut = `send null instead, leave the field out, or send {"$numberDouble": "%s"} with EVENT_FORMAT=extjson`

// notJSONHere explains the place where a text ceases to be JSON: the mistake, and what to write instead. Both are empty if the
// mistake is not known.
func notJSONHere(text []byte, at int) (what, wayOut string) {
	if at >= len(text) {
		return "", ""
	}
	word := wordAround(text, at)
	before, behind := lastByte(text[:at]), firstByte(text[at+1:])
	switch strings.ToLower(strings.TrimLeft(word, "+-")) {
	case "nan":
		return word + " is not a JSON value", fmt.Sprintf(numberOut, "NaN")
	case "infinity", "inf":
		return word + " is not a JSON value", fmt.Sprintf(numberOut, word[:len(word)-len(strings.TrimLeft(word, "-"))]+"Infinity")
	case "true", "false", "none":
		return word + " is Python's notation, not JSON", "write the JSON with json.dumps, not with str"
	case "undefined":
		return word + " is not a JSON value", "send null instead, or leave the field out"
	}
	switch c := text[at]; {
	case c == '\'':
		return "names and strings are in single quotes", `write them in double quotes (in Python with json.dumps, not with str)`
	case c == ',' && (behind == '}' || behind == ']'):
		return "a comma precedes the end of an object or array", "remove the comma"
	case c == '/' && (behind == '/' || behind == '*'):
		return "the text has a comment, which JSON does not allow", "remove the comment"
	case c == 0 && isUTF16(text):
		return "this is UTF-16 text, but JSON must be UTF-8", "have its producer write UTF-8"
	case c < ' ':
		return "the text has a control character", `in strings write an escape such as \n or \u000a, elsewhere remove the character`
	case (before == '{' || before == ',') && isWordByte(c) && nameColon(text[at:]):
		return "the name " + word + " is without quotes", "write names in double quotes"
	case hasDecimalComma(text, at, word):
		whole := wordAround(text, at-1)
		return fmt.Sprintf("%s,%s has a decimal comma, which JSON does not allow", whole, word), fmt.Sprintf("write %s.%s", whole, word)
	case isWordByte(c) && startsNumber(word), startsNumber(word) && !isDigits([]byte(word[len(word)-1:])):
		return word + " is not a JSON number", "write digits before and after the point, no leading zeros and no plus sign, or send a string"
	}
	return "", ""
}

// wordAround returns the word or number that contains an index or ends there.
func wordAround(text []byte, at int) string {
	start, end := at, at
	for start > 0 && isWordByte(text[start-1]) {
		start--
	}
	for end < len(text) && isWordByte(text[end]) {
		end++
	}
	return clip(text[start:end])
}

func isWordByte(c byte) bool {
	return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '+' || c == '-' || c == '.'
}

// startsNumber reports whether a word is meant to be a number.
func startsNumber(word string) bool {
	word = strings.TrimLeft(word, "+-.")
	return word != "" && word[0]-'0' <= 9
}

// hasDecimalComma reports whether a member of an object begins with digits right behind a number and a comma.
func hasDecimalComma(text []byte, at int, word string) bool {
	return at > 1 && text[at-1] == ',' && text[at-2]-'0' <= 9 && isDigits([]byte(word)) && isDigits([]byte(strings.TrimLeft(wordAround(text, at-1), "-")))
}

// nameColon reports whether a text begins with a word and a colon.
func nameColon(text []byte) bool {
	return firstByte(bytes.TrimLeftFunc(text, func(c rune) bool { return c < 0x80 && isWordByte(byte(c)) })) == ':'
}

// firstByte returns the first byte of a text behind white space. It is 0 if nothing follows.
func firstByte(text []byte) byte {
	if text = bytes.TrimLeft(text, " \t\r\n"); len(text) > 0 {
		return text[0]
	}
	return 0
}

// lastByte returns the last byte of a text before white space. It is 0 if nothing precedes.
func lastByte(text []byte) byte {
	if text = bytes.TrimRight(text, " \t\r\n"); len(text) > 0 {
		return text[len(text)-1]
	}
	return 0
}
