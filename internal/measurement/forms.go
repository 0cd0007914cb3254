package measurement

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
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
