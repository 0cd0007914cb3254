package measurement

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

func TestMetaIsNormalised(t *testing.T) {
	tests := []struct{ meta, want string }{
		{
			`{"b": 1, "a": {"z": [{"d": 1, "c": 2}, [{"y": 1, "x": 2}]], "Z": null}}`,
			`{"a": {"Z": null,"z": [{"c": {"$numberInt":"2"},"d": {"$numberInt":"1"}},[{"x": {"$numberInt":"2"},"y": {"$numberInt":"1"}}]]},"b": {"$numberInt":"1"}}`,
		},
		{`{"a.b": 1, "a.a": 2}`, `{"a": {"a": {"$numberInt":"2"},"b": {"$numberInt":"1"}}}`},
		{`[3, 1]`, `[{"$numberInt":"3"},{"$numberInt":"1"}]`},
		{`{"ab": 1, "a": 2, "é": 3, "B": 4}`, `{"B": {"$numberInt":"4"},"a": {"$numberInt":"2"},"ab": {"$numberInt":"1"},"é": {"$numberInt":"3"}}`},
		{`null`, `null`},
		{`{}`, `{}`},
		{`-0.0`, `{"$numberDouble":"-0.0"}`},
	}
	d := newDecoder(t, plainOptions)
	for _, test := range tests {
		m := decodeOne(t, d, recordOf(`{"time": 1700000000, "meta": `+test.meta+`}`))
		if got := m.Meta.String(); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.meta, got, test.want)
		}
	}
}

func TestMetaOfEqualObjectsIsEqual(t *testing.T) {
	const fields = 40
	var forth, back []string
	for i := range fields {
		field := `"` + strings.Repeat("n", i%7+1) + strconv.Itoa(i) + `": ` + strconv.Itoa(i)
		forth, back = append(forth, field), append([]string{field}, back...)
	}
	decode := func(fields []string) []byte {
		m := decodeOne(t, newDecoder(t, plainOptions), recordOf(`{"time": 1700000000, "meta": {`+strings.Join(fields, ",")+`}}`))
		return m.Meta.Value
	}
	if a, b := decode(forth), decode(back); !bytes.Equal(a, b) {
		t.Errorf("%x\n%x", a, b)
	}
}

func TestMetaFromKey(t *testing.T) {
	o := Options{MetaFrom: MetaFromKey, StoredMeta: "meta"}
	tests := []struct {
		format    Format
		key, want string
	}{
		{JSON, `sensor 1`, `"sensor 1"`},
		{JSON, ``, `""`},
		{JSON, `{"b": 1, "a": "x"}`, `{"a": "x","b": {"$numberInt":"1"}}`},
		{JSON, ` {"a.b": 1} `, `{"a": {"b": {"$numberInt":"1"}}}`},
		{JSON, `{"a": 1`, `"{\"a\": 1"`},
		{JSON, `{"a": 1} {}`, `"{\"a\": 1} {}"`},
		{JSON, `{"a": 1e999} {}`, `"{\"a\": 1e999} {}"`},
		{JSON, `[1]`, `"[1]"`},
		{JSON, `17`, `"17"`},
		{ExtJSON, `{"id": {"$numberLong": "5"}}`, `{"id": {"$numberLong":"5"}}`},
		{ExtJSON, `{"$oid": "0123456789abcdef01234567"}`, `{"$oid":"0123456789abcdef01234567"}`},
	}
	for _, test := range tests {
		o.Format = test.format
		d := newDecoder(t, o)
		results, err := d.Decode(record.Record{Timestamp: recordTime, Key: []byte(test.key), Value: []byte(`[{"x": 1}, {"y": 2}]`)})
		if err != nil {
			t.Errorf("%s: %v", test.key, err)
			continue
		}
		for _, r := range results {
			if got := r.Measurement.Meta.String(); got != test.want {
				t.Errorf("key %s: %s, want %s", test.key, got, test.want)
			}
		}
	}
	refused := []struct {
		key    string
		reason Reason
		path   string
	}{
		{"\xff", BadUTF8, "key"},
		{`{"a": {"b": 1, "b": 2}}`, DuplicateField, "key.a.b"},
		{`{"a": [1e999]}`, BadNumber, "key.a.0"},
		{`{"$a": 1}`, BadFieldName, "key.$a"},
		{`{"a.b": 1, "a": 2}`, DuplicateField, "key.a"},
		{strings.Repeat("k", 9000), BadMeta, "key"},
		{`{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, TooDeep, "key.a" + strings.Repeat(".0", 99)},
	}
	o.Format = JSON
	for _, test := range refused {
		err := refusal(t, newDecoder(t, o), record.Record{Timestamp: recordTime, Key: []byte(test.key), Value: []byte(`[{}]`)})
		if err.Reason != test.reason || err.Path != test.path {
			t.Errorf("key %.50s: %v, want %s at %s", test.key, err, test.reason, test.path)
		}
	}
	if err := refusal(t, newDecoder(t, o), record.Record{Timestamp: recordTime, Key: []byte{}, Value: []byte(`{"meta": 1}`)}); err.Reason != DuplicateField {
		t.Error(err)
	}
}

func TestMetaAbsentAndNullDiffer(t *testing.T) {
	none := decodeOne(t, newDecoder(t, Options{MetaFrom: MetaFromNone}), recordOf(`{"meta": null}`))
	if none.Meta.Type != 0 || len(none.Elements) == 0 {
		t.Errorf("without meta: %v", none)
	}
	null := decodeOne(t, newDecoder(t, plainOptions), recordOf(`{"meta": null, "time": 1700000000}`))
	if null.Meta.Type != 0x0A || len(null.Elements) != 0 {
		t.Errorf("meta null: %v", null)
	}
}

// TestFramedKeyIsUnframed checks that the schema id in a key is no part of the series, so that a new schema makes no new series
// of a device.
func TestFramedKeyIsUnframed(t *testing.T) {
	decode := func(o Options, key string) Measurement {
		value := `{"x": 1}`
		if o.Framing == Confluent {
			value = "\x00\x00\x00\x00\x03" + value
		}
		return decodeOne(t, newDecoder(t, o), record.Record{Timestamp: recordTime, Key: []byte(key), Value: []byte(value)})
	}
	framed := Options{MetaFrom: MetaFromKey, StoredMeta: "meta", Framing: Confluent}
	for _, test := range []struct{ key, want string }{
		{"\x00\x00\x00\x00\x07" + `{"device": "d-8", "a.b": 1}`, `{"a": {"b": {"$numberInt":"1"}},"device": "d-8"}`},
		{"\x00\x00\x00\x00\x08" + ` {"a.b": 1, "device":"d-8"}`, `{"a": {"b": {"$numberInt":"1"}},"device": "d-8"}`},
		{"\x00\x7b\x22\x61\x22" + `"d-8"`, `"d-8"`},
		{"\x00\x00\x00\x00\x07" + `"d\u002d8"`, `"d-8"`},
		{"\x00\x00\x00\x00\x07" + `4711`, `{"$numberInt":"4711"}`},
		{"\x00\x00\x00\x00\x07" + `[1, {"b": 1, "a": 2}]`, `[{"$numberInt":"1"},{"a": {"$numberInt":"2"},"b": {"$numberInt":"1"}}]`},
		{"\x00\x00\x00\x00\x07" + `null`, `null`},
		{"d-8", `"d-8"`}, // a text serializer's key, with values of a registry's serializer
		{`{"device": "d-8"}`, `{"device": "d-8"}`},
		{"\x00abc", `"\u0000abc"`},
	} {
		if got := decode(framed, test.key).Meta.String(); got != test.want {
			t.Errorf("key %q: %s, want %s", test.key, got, test.want)
		}
	}
	plain, inBSONFormat := framed, framed
	plain.Framing, inBSONFormat.Framing, inBSONFormat.Format = NoFraming, NoFraming, BSON
	for _, test := range []struct {
		options   Options
		key, says string
	}{
		{framed, "\x00\x00\x00\x00\x07\x06d-8", "is not JSON: \"\\x06d-8\"; keys in Avro and Protobuf are read only with values of the same format"},
		{framed, "\x00\x00\x00\x00\x07d-8", "is not JSON"},
		{framed, "\x00\x00\x00\x00\x07", "is not JSON"},
		{framed, "\x00\x00\x00\x00\x07" + `{"a":1} {}`, "is not JSON"},
		{framed, "\x00\x00\x00\x00\x00\x00\x10\x92", "is not JSON"}, // a binary number
		{plain, "\x00\x00\x00\x00\x07" + `{"device":"d-8"}`, "set EVENT_FRAMING=confluent if the values have such a frame too, otherwise EVENT_FRAMING=auto, or have its producer write the key as text"},
		{plain, "\x00\x00\x00\x00\x00\x00\x10\x12", "begins with a zero byte"},
		{inBSONFormat, "\x00\x00\x00\x00\x07" + `{"device":"d-8"}`, "like the frame of a schema registry: have its producer write the key as text"},
	} {
		value := []byte("\x00\x00\x00\x00\x03{}")
		err := refusal(t, newDecoder(t, test.options), record.Record{Timestamp: recordTime, Key: []byte(test.key), Value: value})
		if err.Reason != BadMeta || err.Path != "key" || !strings.Contains(err.Detail, test.says) {
			t.Errorf("key %q: %v, want …%s…", test.key, err, test.says)
		}
	}
}

// TestBytesOfSegmentsNameNoSeries checks that the bytes which mark segments are a dead letter, in one pass and through the document.
func TestBytesOfSegmentsNameNoSeries(t *testing.T) {
	marked := string(timeseries.SegmentMeta(7).Value[5:]) // behind length and subtype
	schema := func(meta string) Options {
		return avroOptions(`{"type":"record","name":"R","fields":[{"name":"time","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"meta","type":` + meta + `}]}`)
	}
	at := string(binary.AppendVarint(nil, 1_700_000_000_123))
	proto := protoOptions(t, `syntax = "proto3"; message Reading { int64 time = 1; bytes meta = 2; }`)
	for name, test := range map[string]struct {
		options Options
		event   func(meta string) []byte
	}{
		"bytes": {schema(`"bytes"`), func(meta string) []byte { return []byte(at + "\x12" + meta) }},
		"fixed": {schema(`{"type":"fixed","name":"F","size":9}`), func(meta string) []byte { return []byte(at + meta) }},
		"union": {schema(`["null","bytes"]`), func(meta string) []byte { return []byte(at + "\x02\x12" + meta) }},
		"proto": {proto, func(meta string) []byte { return append(wireVarint(1, 1_700_000_000), wireBytes(2, meta)...) }},
	} {
		d := newDecoder(t, test.options)
		if d.avroPlan == nil && d.protoPlan == nil {
			t.Errorf("%s: there is no plan", name)
		}
		for range 2 {
			results, err := d.Decode(record.Record{Offset: 1, Timestamp: recordTime, Value: test.event(marked)})
			if err == nil && results[0].Err != nil {
				err = results[0].Err
			}
			if err == nil || !strings.Contains(err.Error(), "bytes that are reserved for segments: send another value") {
				t.Errorf("%s: %v, %v", name, results, err)
			}
			other := []byte(marked)
			other[0]++
			if m := decodeOne(t, d, record.Record{Offset: 2, Timestamp: recordTime, Value: test.event(string(other))}); m.Meta.Type != bson.TypeBinary {
				t.Errorf("%s: the meta of other bytes is %v", name, m.Meta)
			}
			d.avroPlan, d.protoPlan = nil, nil
		}
	}
}
