package measurement

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestReasons has a record for every reason that decoding can give.
func TestReasons(t *testing.T) {
	with := func(change func(*Options)) Options {
		o := plainOptions
		change(&o)
		return o
	}
	framedOptions := with(func(o *Options) { o.Framing = Confluent })
	inFormat := func(f Format) Options { return with(func(o *Options) { o.Format = f }) }
	event := func(fields string) string { return `{"time": 1700000000, "meta": 1` + fields + `}` }
	unhex := func(s string) string {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	tests := []struct {
		reason  Reason
		path    string
		message string // a part of the message
		options Options
		value   string
	}{
		{NotJSON, "", "ends at byte 9", plainOptions, `{"time":1`},
		{NotJSON, "", "the name 50 is without quotes", plainOptions, event(`, "x":-21,50:1`)},
		{NotJSON, "", "-21,50 has a decimal comma, which JSON does not allow, at byte 40, before \"50}\": write -21.50", plainOptions, event(`, "x":-21,50`)},
		{NotJSON, "x", "NaN is not a JSON value, at byte 36, before \"NaN}\": send null instead", plainOptions, event(`, "x":NaN`)},
		{NotJSON, "", "names and strings are in single quotes, at byte 1, before \"'a':", plainOptions, `{'a': 1}`},
		{NotJSON, "x", "invalid character ';' at start of value at byte 36", plainOptions, event(`, "x":;`)},
		{NotJSON, "", "a record may hold only objects and arrays", plainOptions, event(``) + "\n" + event(``) + "\n3"},
		{NotJSON, "", "a byte order mark follows the JSON, at byte 32, before \"{", plainOptions, event(``) + "\n" + byteOrderMark + event(``)},
		{NotJSON, "", "and JSON follows: set EVENT_FRAMING=confluent", plainOptions, "\x00\x00\x00\x00\x01 {}"},
		{NotJSON, "", "but no JSON follows: for Avro or Protobuf set SCHEMA_REGISTRY_URL and EVENT_FORMAT=avro", plainOptions, "\x00\x00\x00\x00\x01\x02\x06abc"},
		{NotJSON, "", "but no JSON follows", plainOptions, "\x00{}"},
		{NotJSON, "", "does not begin with a zero byte and a schema's id, but EVENT_FRAMING=confluent requires both", framedOptions, event(``)},
		{NotJSON, "", "does not begin with a zero byte and a schema's id", framedOptions, "\x00\x00\x00\x01"},
		{NotJSON, "", "is not JSON: \"\\x02\\x06abc\"; for Avro or Protobuf set SCHEMA_REGISTRY_URL and EVENT_FORMAT=avro", framedOptions, "\x00\x00\x00\x00\x01\x02\x06abc"},
		{NotJSON, "", "ends at byte 9", framedOptions, "\x00\x00\x00\x00\x01" + `{"time":1`},
		{Empty, "", "the value ends after the frame", framedOptions, "\x00\x00\x00\x00\x01"},
		{Empty, "", "white space", framedOptions, "\x00\x00\x00\x00\x01 "},
		{NotJSON, "x", "is not valid Extended JSON for $oid", inFormat(ExtJSON), event(`, "x": {"$oid": "12"}`)},
		{NotBSON, "", "differs from its size of 3 bytes", inFormat(BSON), `abc`},
		{NotBSON, "", "begins as JSON does: set EVENT_FORMAT=json", inFormat(BSON), `{}`},
		{NotBSON, "x", "malformed or truncated", inFormat(BSON), unhex("0b00000010780001000000")},
		{BadCompression, "", "is JSON that is not compressed, but EVENT_COMPRESSION=gzip", with(func(o *Options) { o.Compression = Gzip }), event("")},
		{BadCompression, "", "is damaged or truncated", with(func(o *Options) { o.Compression = AutoCompression }), "\x1f\x8b\x08"},
		{NotInflux, "", "a field must be written name=value", lineOptions(), "cpu v"},
		{NotAvro, "", "does not begin with the frame of a schema registry", with(func(o *Options) { o.Format, o.Framing = Avro, Confluent }), readingOfAvro},
		{NotAvro, "meta", "a string is expected at byte 6 of 6", avroOptions(readingSchema()), readingOfAvro[:len(readingOfAvro)-2]},
		{NotProtobuf, "", "its last 1 bytes are damaged", protoOptions(t, readingProto("", "")), "\x12"},
		{NotOTLP, "", "damaged or incomplete", otlpOptions(OTLP), "\x0a\x05"},
		{NotObject, "", `"42" is not an object`, plainOptions, ` 42 `},
		{NotObject, "", "is not an object", plainOptions, `"text"`},
		{Empty, "", "0 bytes", plainOptions, ``},
		{Empty, "", "0 bytes", inFormat(BSON), ``},
		{Empty, "", "white space", plainOptions, " \n"},
		{Empty, "", "no elements", plainOptions, `[ ]`},
		{MissingTime, "time", "EVENT_TIME_FIELD", plainOptions, `{"meta": 1}`},
		{MissingTime, "a.b", "EVENT_TIME_FIELD", with(func(o *Options) { o.TimeField = "a.b" }), `{"a": [{"b": 1}]}`},
		{BadTime, "time", `"noon" is not a time in the format auto`, plainOptions, `{"time": "noon", "meta": 1}`},
		{BadTime, "time", "null is not a time", plainOptions, `{"time": null, "meta": 1}`},
		{BadTime, "x", "is not valid Extended JSON for $date", inFormat(ExtJSON), event(`, "x": {"$date": "noon"}`)},
		{TimeOutOfRange, "time", "1970-01-01T00:00:01Z is before EVENT_TIME_MIN = 1990-01-01T00:00:00Z", plainOptions, `{"time": 1, "meta": 1}`},
		{
			TimeOutOfRange, "time", "(year 57000) is after EVENT_TIME_MAX = +24h from the record's timestamp 2023-11-14T22:14:20Z",
			with(func(o *Options) { o.TimeFormat = "unix" }), `{"time": 1736602300800, "meta": 1}`,
		},
		{MissingMeta, "meta", "EVENT_META_FIELD", plainOptions, `{"time": 1700000000}`},
		{MissingMeta, "key", "no key", with(func(o *Options) { o.MetaFrom = MetaFromKey }), event(``)},
		{
			BadMeta, "meta.a.0", "a regex cannot name a series", inFormat(ExtJSON),
			`{"time": 1700000000, "meta": {"a": [{"$regularExpression": {"pattern": "x", "options": ""}}]}}`,
		},
		{BadMeta, "meta", "the timestamp (0, 0) cannot", inFormat(ExtJSON), `{"time": 1700000000, "meta": {"$timestamp": {"t": 0, "i": 0}}}`},
		{BadMeta, "meta", "bytes that are reserved for segments: send another value", inFormat(ExtJSON), `{"time": 1700000000, "meta": {"$binary": {"base64": "c2VnbWVudAEC", "subType": "00"}}}`},
		{BadMeta, "meta", "a undefined cannot", inFormat(ExtJSON), `{"time": 1700000000, "meta": {"$undefined": true}}`},
		{
			BadMeta, "meta.p", "a dbPointer cannot", inFormat(ExtJSON),
			`{"time": 1700000000, "meta": {"p": {"$dbPointer": {"$ref": "n", "$id": {"$oid": "0123456789abcdef01234567"}}}}}`,
		},
		{BadMeta, "meta", "more than 8192", plainOptions, `{"time": 1700000000, "meta": "` + strings.Repeat("m", 8188) + `"}`},
		{MissingField, "x", "the event has no list, but EVENT_LIST=x expects one", with(func(o *Options) { o.List = []string{"x"} }), event(``)},
		{BadFieldName, "", "with an empty name", plainOptions, event(`, "": 1`)},
		{BadFieldName, "x.0", "with an empty name", plainOptions, event(`, "x": [{"": 1}]`)},
		{BadFieldName, "x.$y", "dollar", plainOptions, event(`, "x": {"$y": 1}`)},
		{BadFieldName, "meta.$y", "EVENT_FORMAT=extjson", plainOptions, `{"time": 1700000000, "meta": {"$y": 1}}`},
		{BadFieldName, "x.a.b", "EVENT_DOTTED_NAMES=nest", with(func(o *Options) { o.DottedNames = Reject }), event(`, "x": {"a.b": 1}`)},
		{BadFieldName, "a", "with an empty name", plainOptions, event(`, "a..b": 1`)},
		{BadFieldName, "\x00b", "NUL", plainOptions, event(`, "\u0000b": 1`)},
		{DuplicateField, "x.y", "more than once", plainOptions, event(`, "x": {"y": 1, "y": 2}`)},
		{DuplicateField, "time", "more than once", plainOptions, event(`, "time": 1700000000`)},
		{DuplicateField, "meta.a", "more than once", plainOptions, `{"time": 1700000000, "meta": {"a": 1, "b": 2, "a": 3}}`},
		{DuplicateField, "meta", "MONGODB_META_FIELD", with(func(o *Options) { o.MetaField = "id" }), event(`, "id": 1`)},
		{DuplicateField, "time", "MONGODB_TIME_FIELD", with(func(o *Options) { o.TimeField = "at" }), event(`, "at": 1700000000`)},
		{TooDeep, "x" + strings.Repeat(".0", 99), "100 levels", plainOptions, event(`, "x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100))},
		{TooDeep, "a" + strings.Repeat(".a", 99), "100 levels", plainOptions, event(`, "` + strings.Repeat("a.", 100) + `x": 1`)},
		{TooLarge, "", "EVENT_MAX_BYTES = 100", with(func(o *Options) { o.MaxBytes = 100 }), event(`, "x": "` + strings.Repeat("x", 100) + `"`)},
		{TooLarge, "", "16 MiB", with(func(o *Options) { o.MaxBytes = 8 << 20 }), event(`, "x": "` + strings.Repeat("x", 5_600_000) + `"`)},
		{BadNumber, "x.y", "too large for a double", plainOptions, event(`, "x": {"y": 1e999}`)},
		{BadNumber, "x", "is not valid Extended JSON for $numberInt", inFormat(ExtJSON), event(`, "x": {"$numberInt": "2147483648"}`)},
		{BadUTF8, "x", `"a\xff"`, plainOptions, event(`, "x": "a` + "\xff" + `"`)},
		{BadUTF8, "\uFFFD", "is not UTF-8", plainOptions, event(`, "` + "\xff" + `": 1`)},
		{BadUTF8, "x", "has half of a surrogate pair", plainOptions, event(`, "x": "\udc00"`)},
		{BadElements, "", "more than 100 of the record's 150 elements cannot be stored, so none of them is stored; element 1: not_object: \"3\"", plainOptions, `[` + event(``) + strings.Repeat(",3", 149) + `]`},
		{BadUTF8, "x", "is not UTF-8", inFormat(BSON), unhex("0f000000" + "027800" + "02000000ff00" + "0000")},
	}
	seen := map[Reason]bool{BadSchema: true, UnknownSchema: true, Unreadable: true, RefusedByDatabase: true, InternalError: true} // these are no reasons of decoding
	for _, test := range tests {
		seen[test.reason] = true
		t.Run(fmt.Sprintf("%s %.40q", test.reason, test.value), func(t *testing.T) {
			err := refusal(t, newDecoder(t, test.options), recordOf(test.value))
			if err.Reason != test.reason || err.Path != test.path || !strings.Contains(err.Error(), test.message) {
				t.Errorf("got %s at %q: %s\nwant %s at %q: …%s…", err.Reason, err.Path, err.Detail, test.reason, test.path, test.message)
			}
		})
	}
	for _, reason := range Reasons() {
		if !seen[reason] {
			t.Errorf("no record for %s", reason)
		}
	}
	if len(seen) != len(Reasons()) {
		t.Errorf("%d reasons have records, %v are listed", len(seen), slices.Sorted(slices.Values(Reasons())))
	}
}

func TestLargestEventIsAccepted(t *testing.T) {
	o := plainOptions
	o.MaxBytes = 8 << 20
	d := newDecoder(t, o)
	decodeOne(t, d, recordOf(`{"time": 1700000000, "meta": "`+strings.Repeat("m", 8187)+`", "x": "`+strings.Repeat("x", 5_500_000)+`"}`))
	decodeOne(t, d, recordOf(`{"time": 1700000000, "meta": 1, "x":`+strings.Repeat("[", 99)+strings.Repeat("]", 99)+`}`))
}

func TestMessagesAreCut(t *testing.T) {
	d := newDecoder(t, plainOptions)
	for _, value := range []string{
		`{"time": "` + strings.Repeat("é", 5000) + `", "meta": 1}`,
		`{"time": 1700000000, "meta": 1, "` + strings.Repeat("n", 5000) + `": "` + strings.Repeat("\xff", 5000) + `"}`,
		strings.Repeat("x", 5000),
	} {
		err := refusal(t, d, recordOf(value))
		if len(err.Path) > maxDetailBytes+len("…") || len(err.Detail) > maxDetailBytes+200 {
			t.Errorf("path of %d bytes, detail of %d", len(err.Path), len(err.Detail))
		}
		if detail := strings.ToValidUTF8(err.Detail, ""); detail != err.Detail {
			t.Errorf("not UTF-8: %q", err.Detail)
		}
	}
}
