package measurement

import (
	"bytes"
	"errors"
	"testing"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries/rawbson"
)

// fuzzOptions returns the settings that a fuzzed number selects.
func fuzzOptions(format Format, choice uint8) Options {
	o := Options{Format: format, TimeField: "time", MetaField: "meta", StoredTime: "time", StoredMeta: "meta", MaxBytes: 1 << 16}
	if choice&1 != 0 {
		o.DottedNames = Reject
	}
	if choice&2 != 0 {
		o.MetaFrom, o.StoredMeta = MetaFromNone, ""
	}
	if choice&4 != 0 {
		o.TimeField, o.MetaField = "a.time", "a.meta"
	}
	if choice&8 != 0 {
		o.TimeField = ""
	}
	if choice&16 != 0 {
		o.MetaFrom = MetaFromKey
	}
	if choice&32 != 0 {
		o.Root, o.TimeField = "p", "/at"
	}
	if choice&64 != 0 {
		o.Fields, o.Drop = "x", []string{"x.y", "x.z.a", "x.$d"}
	}
	if choice&128 != 0 {
		if o.MetaFrom == "" {
			o.MetaField, o.MetaFields = "", []string{"meta", "c=x.b", "a.b"}
		}
		if format != BSON {
			o.Framing = Confluent
		}
	}
	return o
}

// checkFuzzed decodes a record and checks what holds for every record. Elements are a document, errors have known reasons and
// readable messages, and a second decoding gives the same.
func checkFuzzed(t *testing.T, format Format, value []byte, choice uint8) {
	checkDecoded(t, fuzzOptions(format, choice), value)
}

func checkDecoded(t *testing.T, o Options, value []byte) {
	d := newDecoder(t, o)
	r := record.Record{Offset: 1, Timestamp: recordTime, Key: value, Value: value}
	results, err := d.Decode(r)
	if err != nil {
		var refused *DecodeError
		if !errors.As(err, &refused) {
			t.Fatalf("error %T", err)
		}
		checkError(t, refused, record.WholeRecord)
		return
	}
	var first []string
	var bad []*DecodeError
	for i, result := range results {
		if result.Err != nil {
			checkError(t, result.Err, int32(i))
			first = append(first, result.Err.Error())
			bad = append(bad, result.Err)
			continue
		}
		checkMeasurement(t, result.Measurement, int32(i))
		first = append(first, shown(t, result.Measurement))
	}
	for _, err := range bad {
		if element, ok := d.Element(r, err.Part); !ok || !bytes.Equal(element, err.Value) {
			t.Fatalf("element %d is %q, its letter's value %q", err.Part, element, err.Value)
		}
	}
	again, err := d.Decode(r)
	if err != nil || len(again) != len(first) {
		t.Fatalf("second time: %d results, %v", len(again), err)
	}
	for i, result := range again {
		if result.Err == nil && shown(t, result.Measurement) != first[i] || result.Err != nil && result.Err.Error() != first[i] {
			t.Fatalf("element %d differs the second time", i)
		}
	}
}

func checkError(t *testing.T, err *DecodeError, part int32) {
	known := false
	for _, reason := range Reasons() {
		known = known || reason == err.Reason
	}
	if text := err.Error(); !known || !utf8.ValidString(text) || len(text) > 1200 {
		t.Fatalf("bad error %q", text)
	}
	if err.Part != part || (part == record.WholeRecord) != (err.Value == nil) {
		t.Fatalf("part %d, value %q; element %d", err.Part, err.Value, part)
	}
}

func checkMeasurement(t *testing.T, m Measurement, part int32) {
	if m.Position.Offset != 1 || m.Position.Part != part {
		t.Fatalf("position %v, part %d", m.Position, part)
	}
	raw := document(t, m.Elements)
	if err := (&bsonChecker{}).check(raw); err != nil {
		t.Fatal(err)
	}
	if m.Meta.Type == 0 {
		return
	}
	if err := m.Meta.Validate(); err != nil || len(m.Meta.Value) > maxMetaBytes {
		t.Fatalf("meta: %v, %d bytes", err, len(m.Meta.Value))
	}
}

func seedJSON(f *testing.F) {
	for _, value := range []string{
		exampleEvent,
		`[{"time": 1700000000, "meta": {"b": 1, "a": [{"z": 1, "y": 2}]}, "x.y": [1.5, -0, 1e3], "x": {"z": "\u00e9"}}, 3, {"time": 0}]`,
		`{"a": {"time": "2023-11-14T22:13:20.5+01:00", "meta": null}, "x": 12345678901234567890}`,
		`{"time": {"$date": {"$numberLong": "1700000000123"}}, "meta": {"$oid": "0123456789abcdef01234567"},
			"x": [{"$numberDecimal": "1.5"}, {"$binary": {"base64": "AQID", "subType": "02"}}, {"$code": "f", "$scope": {"a.b": 1}},
			{"$regularExpression": {"pattern": "a", "options": "xi"}}, {"$timestamp": {"t": 1, "i": 2}}, {"$minKey": 1}]}`,
		`{"schema": {"$x": 1}, "at": 1700000000, "p": {"meta": 1, "a": {"b": 2}, "x": {"y": 1, "b": null, "$d": 2, "z": {"a": 1}, "v": 1.5}}}`,
		`[{"p": null}, {"p": {"x": {}}}, {"p": [1]}, {"at": 1700000000, "p": {"meta": {"b": 1, "a": 2}, "x": {"w": 1}}}]`,
		`[[[[`, `{"a.b": 1, "a": {"b": 2}}`, `{"\u0000": "\ud800"}`, "{\"x\": \"\xff\"}", `{} {}`, ` `, `[]`,
	} {
		f.Add([]byte(value), uint8(0))
		f.Add([]byte(value), uint8(12))
		f.Add([]byte(value), uint8(32))
		f.Add([]byte(value), uint8(96))
		f.Add([]byte("\x00\x00\x00\x00\x07"+value), uint8(128))
		f.Add([]byte("\x00\x00\x00\x00\x07"+value), uint8(224))
	}
}

func FuzzDecodeJSON(f *testing.F) {
	seedJSON(f)
	f.Fuzz(func(t *testing.T, value []byte, choice uint8) { checkFuzzed(t, JSON, value, choice) })
}

func FuzzDecodeExtJSON(f *testing.F) {
	seedJSON(f)
	f.Fuzz(func(t *testing.T, value []byte, choice uint8) { checkFuzzed(t, ExtJSON, value, choice) })
}

// FuzzDecodeBSON also checks that the driver accepts everything that the decoder accepts.
func FuzzDecodeBSON(f *testing.F) {
	f.Add([]byte(everyType(f)), uint8(10))
	for list := rawbson.Content(everyType(f)); len(list) > 0; { // each type alone, which is easier to mutate into something valid
		var e rawbson.Element
		rest := e.Cut(list)
		single := append(make([]byte, 4), list[:len(list)-len(rest)]...)
		f.Add(rawbson.EndDocument(single, 0), uint8(10))
		list = rest
	}
	f.Fuzz(func(t *testing.T, value []byte, choice uint8) {
		checkFuzzed(t, BSON, value, choice)
		if err := (&bsonChecker{}).check(value); err == nil {
			if err := bson.Raw(value).Validate(); err != nil {
				t.Fatalf("accepted, the driver says %v", err)
			}
		}
	})
}
