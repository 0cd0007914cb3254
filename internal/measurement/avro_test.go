package measurement

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
)

// avroOptions returns the options of events in Avro with time and meta.
func avroOptions(schema string) Options {
	o := plainOptions
	o.Format, o.Schema = Avro, schema
	return o
}

// readingSchema returns a schema of a record with time, meta and the given further fields.
func readingSchema(fields ...string) string {
	return `{"type":"record","name":"Reading","namespace":"plant.air","fields":[{"name":"time","type":{"type":"long","logicalType":"timestamp-millis"}},` +
		`{"name":"meta","type":"string"}` + strings.Join(append([]string{""}, fields...), ",") + `]}`
}

// readingOfAvro begins an event of readingSchema: 2023-11-14T22:13:20.123Z and the meta "m".
var readingOfAvro = string(binary.AppendVarint(nil, 1_700_000_000_123)) + "\x02m"

// TestAvroValues lists the stored value of each type, as relaxed Extended JSON.
func TestAvroValues(t *testing.T) {
	zigzag := func(n int64) string { return string(binary.AppendVarint(nil, n)) }
	unhex := func(text string) string {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	double := func(f float64) string {
		return string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)))
	}
	const micro = 1_700_000_000_123_999
	const date, day = `{"$date":"2023-11-14T22:13:20.123Z"}`, `{"$date":"2023-11-14T00:00:00Z"}`
	const decimal = `{"type":"bytes","logicalType":"decimal","precision":64,"scale":2}`
	for _, test := range []struct{ schema, value, want string }{
		{`"null"`, "", `null`},
		{`"boolean"`, "\x01", `true`},
		{`"int"`, zigzag(-7), `-7`},
		{`"int"`, zigzag(math.MinInt32), `-2147483648`},
		{`"long"`, zigzag(7), `7`},
		{`"long"`, zigzag(math.MinInt64), `-9223372036854775808`},
		{`"float"`, unhex("0000ac41"), `21.5`},
		{`"double"`, double(21.375), `21.375`},
		{`"double"`, double(math.NaN()), `{"$numberDouble":"NaN"}`},
		{`"string"`, "\x06\u20ac", `"€"`},
		{`"bytes"`, "\x04\x01\x02", `{"$binary":{"base64":"AQI=","subType":"00"}}`},
		{`{"type":"fixed","name":"F","size":2}`, "\x01\x02", `{"$binary":{"base64":"AQI=","subType":"00"}}`},
		{`{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}`, unhex("0102030405060708090a0b0c0d0e0f10"), `{"$binary":{"base64":"AQIDBAUGBwgJCgsMDQ4PEA==","subType":"04"}}`},
		{`{"type":"string","logicalType":"uuid"}`, "\x02u", `"u"`},
		{`{"type":"enum","name":"E","symbols":["OFF","ON"]}`, "\x02", `"ON"`},
		{`{"type":"array","items":"int"}`, "\x04\x02\x04\x02\x06\x00", `[1,2,3]`},
		{`{"type":"array","items":"int"}`, "\x03\x04\x02\x04\x00", `[1,2]`},
		{`{"type":"map","values":"long"}`, "\x02\x02b\x02\x02\x02a\x04\x00", `{"b":1,"a":2}`},
		{`{"type":"record","name":"In","fields":[{"name":"b","type":"int"},{"name":"a","type":["null","string"]}]}`, "\x02\x00", `{"b":1,"a":null}`},
		{`["null","int","string"]`, "\x02\x04", `2`},
		{`["null","int","string"]`, "\x04\x02x", `"x"`},
		{`["null","plant.air.Reading"]`, "\x02\x00\x02m\x00", `{"time":{"$date":"1970-01-01T00:00:00Z"},"meta":"m","x":null}`},
		{`["null",{"type":"array","items":"Reading"}]`, "\x02\x02\x00\x02m\x00\x00", `[{"time":{"$date":"1970-01-01T00:00:00Z"},"meta":"m","x":null}]`},

		{`{"type":"long","logicalType":"timestamp-millis"}`, zigzag(micro / 1000), date},
		{`{"type":"long","logicalType":"timestamp-micros"}`, zigzag(micro), date},
		{`{"type":"long","logicalType":"timestamp-nanos"}`, zigzag(micro * 1000), date},
		{`{"type":"long","logicalType":"local-timestamp-millis"}`, zigzag(micro / 1000), date},
		{`{"type":"long","logicalType":"local-timestamp-micros"}`, zigzag(micro), date},
		{`{"type":"long","logicalType":"local-timestamp-nanos"}`, zigzag(micro * 1000), date},
		{`{"type":"long","logicalType":"timestamp-micros"}`, zigzag(-1), `{"$date":{"$numberLong":"-1"}}`},
		{`{"type":"long","connect.version":1,"connect.name":"org.apache.kafka.connect.data.Timestamp"}`, zigzag(micro / 1000), date},
		{`{"type":"long","connect.name":"io.debezium.time.Timestamp"}`, zigzag(micro / 1000), date},
		{`{"type":"long","connect.name":"io.debezium.time.MicroTimestamp"}`, zigzag(micro), date},
		{`{"type":"long","connect.name":"io.debezium.time.NanoTimestamp"}`, zigzag(micro * 1000), date},
		{`{"type":"long","connect.name":"io.debezium.time.MicroTime"}`, zigzag(5), `5`},
		{`{"type":"int","logicalType":"timestamp-millis"}`, zigzag(5), `5`},
		{`{"type":"int","logicalType":"date"}`, zigzag(19675), day},
		{`{"type":"int","connect.name":"io.debezium.time.Date"}`, zigzag(19675), day},
		{`{"type":"int","connect.name":"org.apache.kafka.connect.data.Date"}`, zigzag(19675), day},
		{`{"type":"int","logicalType":"time-millis"}`, zigzag(5), `5`},
		{`{"type":"long","logicalType":"time-micros"}`, zigzag(5), `5`},

		{decimal, "\x02\x7b", `{"$numberDecimal":"1.23"}`},
		{decimal, "\x02\x85", `{"$numberDecimal":"-1.23"}`},
		{decimal, "\x00", `{"$numberDecimal":"0.00"}`},
		{`{"type":"fixed","name":"D","size":3,"logicalType":"decimal","precision":6,"scale":3}`, "\xff\xfe\x0c", `{"$numberDecimal":"-0.500"}`},
		{`{"type":"bytes","scale":2,"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal","precision":64}`, "\x02\x7b", `{"$numberDecimal":"1.23"}`},
		{`{"type":"bytes","logicalType":"unheard"}`, "\x02\x7b", `{"$binary":{"base64":"ew==","subType":"00"}}`},
	} {
		value := readingOfAvro + test.value
		d := newDecoder(t, avroOptions(readingSchema(`{"name":"x","type":`+test.schema+`}`)))
		want := `{"x":` + test.want + `}`
		for range 2 { // in one pass, and through the document
			results, err := d.Decode(record.Record{Offset: 1, Timestamp: recordTime, Value: []byte(value)})
			if err != nil {
				t.Errorf("%s: %v", test.schema, err)
				break
			}
			m := results[0].Measurement
			text, err := bson.MarshalExtJSON(document(t, m.Elements), false, false)
			if err != nil || string(text) != want || m.Time != 1_700_000_000_123 || m.Meta.StringValue() != "m" {
				t.Errorf("%s is %s at %d of %v, want %s", test.schema, text, m.Time, m.Meta, want)
			}
			d.avroPlan = nil
		}
	}
}

// TestLocalTimestampsAreOfTheZone checks that EVENT_TIME_ZONE is the zone of times without one. Of an hour that comes twice, the
// moment nearer to the record's timestamp counts.
func TestLocalTimestampsAreOfTheZone(t *testing.T) {
	const twice = 1_698_546_600_000 // 2023-10-29T02:30 in Berlin, as if it were UTC
	for _, unit := range []struct {
		name string
		of   int64
	}{{"millis", 1}, {"micros", 1e3}, {"nanos", 1e6}} {
		o := avroOptions(`{"type":"record","name":"R","fields":[{"name":"time","type":{"type":"long","logicalType":"local-timestamp-` + unit.name + `"}},{"name":"meta","type":"string"},` +
			`{"name":"seen","type":["null",{"type":"long","logicalType":"local-timestamp-` + unit.name + `"}]},{"name":"utc","type":{"type":"long","logicalType":"timestamp-` + unit.name + `"}}]}`)
		o.TimeZone = "Europe/Berlin"
		d := newDecoder(t, o)
		o.TimeFormat = "unix" // other fields may still be local timestamps
		newDecoder(t, o)
		if none := d.time.local(math.MinInt64); none != math.MinInt64 {
			t.Errorf("a value for no time is %d", none)
		}
		for _, summer := range []int64{2, 1, 2} {
			want := twice - summer*3_600_000
			value := binary.AppendVarint(nil, twice*unit.of)
			value = binary.AppendVarint(append(value, "\x02m\x02"...), twice*unit.of)
			value = binary.AppendVarint(value, twice*unit.of)
			m := decodeOne(t, d, record.Record{Offset: 7, Timestamp: want + 1000, Value: value})
			seen, utc := document(t, m.Elements).Lookup("seen").DateTime(), document(t, m.Elements).Lookup("utc").DateTime()
			if m.Time != want || seen != want || utc != twice {
				t.Errorf("%s: %d, %d and %d, want %d, %d and %d", unit.name, m.Time, seen, utc, want, want, int64(twice))
			}
		}
	}
}

// TestAvroIsRefused checks that values that do not match their schema are letters, in bounded memory.
func TestAvroIsRefused(t *testing.T) {
	const list = `{"type":"array","items":`
	recursive := readingSchema(`{"name":"x","type":["null","Reading"]}`)
	for name, test := range map[string]struct {
		schema, value, says string
		reason              Reason
	}{
		"cut":                     {`"double"`, "\x01\x02", "a number of 8 bytes is expected at byte 8 of 10", NotAvro},
		"cut float":               {`"float"`, "\x01\x02", "a number of 4 bytes", NotAvro},
		"left over":               {`"int"`, "\x02\x02", "1 of the value's 10 bytes remain after the event", NotAvro},
		"varint without end":      {`"long"`, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "an integer of 64 bits", NotAvro},
		"varint of 33 bits":       {`"int"`, "\xff\xff\xff\xff\x1f", "an integer of 32 bits", NotAvro},
		"int of six bytes":        {`"int"`, "\x80\x80\x80\x80\x80\x00", "an integer of 32 bits", NotAvro},
		"boolean":                 {`"boolean"`, "\x02", "a boolean", NotAvro},
		"branch":                  {`["null","int"]`, "\x04", "the branch of a union of 2", NotAvro},
		"negative branch":         {`["null","int"]`, "\x01", "the branch of a union of 2", NotAvro},
		"symbol":                  {`{"type":"enum","name":"E","symbols":["A"]}`, "\x02", "a symbol of the enum plant.air.E", NotAvro},
		"negative symbol":         {`{"type":"enum","name":"E","symbols":["A"]}`, "\x01", "a symbol of the enum", NotAvro},
		"text beyond the end":     {`"string"`, "\x06ab", "a string", NotAvro},
		"text of negative length": {`"string"`, "\x01", "a string", NotAvro},
		"bytes beyond the end":    {`"bytes"`, "\x06ab", "a byte string", NotAvro},
		"fixed beyond the end":    {`{"type":"fixed","name":"F","size":9}`, "ab", "a byte string", NotAvro},
		"no text":                 {`"string"`, "\x02\xff", "is not UTF-8", BadUTF8},
		"items beyond the end":    {list + `"int"}`, "\xfe\xff\xff\xff\x0f\x02", "items, but only 1 bytes remain", NotAvro},
		"block beyond the end":    {list + `"int"}`, "\x01\x10\x02\x00", "the size of a block", NotAvro},
		"block of negative size":  {list + `"int"}`, "\x01\x01\x02\x00", "the size of a block", NotAvro},
		"most negative count":     {list + `"null"}`, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02\x00", "the number of items", NotAvro},
		"items without bytes":     {list + `"null"}`, "\xfe\xff\xff\xff\x0f\x00", "more than 65536 items that take no bytes", TooLarge},
		"fixed without bytes":     {list + `{"type":"fixed","name":"Z","size":0}}`, "\xfe\xff\xff\xff\x0f\x00", "more than 65536 items", TooLarge},
		"array without end":       {list + `"int"}`, "\x02\x02", "the number of items", NotAvro},
		"name in a map":           {`{"type":"map","values":"int"}`, "\x02\x06a", "a key of a map", NotAvro},
		"zero byte in a name":     {`{"type":"map","values":"int"}`, "\x02\x04a\x00\x02\x00", "contains a zero byte", BadFieldName},
		"dollar":                  {`{"type":"map","values":"int"}`, "\x02\x04$a\x02\x00", "dollar sign", BadFieldName},
		"twice":                   {`{"type":"map","values":"int"}`, "\x04\x02a\x02\x02a\x02\x00", "more than once", DuplicateField},
		"digits":                  {`{"type":"bytes","logicalType":"decimal","precision":64,"scale":0}`, "\x22" + strings.Repeat("\x7b", 17), "more than the 34 digits", BadNumber},
	} {
		d := newDecoder(t, avroOptions(readingSchema(`{"name":"x","type":`+test.schema+`}`)))
		for range 2 {
			_, err := d.Decode(record.Record{Offset: 1, Timestamp: recordTime, Value: []byte(readingOfAvro + test.value)})
			wrong, is := errors.AsType[*DecodeError](err)
			if !is || wrong.Reason != test.reason || !strings.Contains(wrong.Error(), test.says) {
				t.Errorf("%s: %v, want %s: %s", name, err, test.reason, test.says)
			}
			d.avroPlan = nil
		}
	}
	deep := strings.Repeat(readingOfAvro+"\x02", 200) + readingOfAvro + "\x00"
	_, err := newDecoder(t, avroOptions(recursive)).Decode(record.Record{Timestamp: recordTime, Value: []byte(deep)})
	if wrong, is := errors.AsType[*DecodeError](err); !is || wrong.Reason != TooDeep {
		t.Errorf("an event of 200 levels: %v", err)
	}
	for value, says := range map[string]string{
		`{"time":1}`: "set EVENT_FORMAT=json", "Obj\x01\x04": "is an Avro file", "\xc3\x01\x01\x02": "single-object encoding",
		"\x00\x00\x00\x00\x07" + readingOfAvro + "\x02": "without the frame",
	} {
		_, err := newDecoder(t, avroOptions(readingSchema(`{"name":"x","type":"int"}`))).Decode(record.Record{Timestamp: recordTime, Value: []byte(value)})
		if wrong, is := errors.AsType[*DecodeError](err); !is || wrong.Reason != NotAvro || !strings.Contains(wrong.Detail, says) {
			t.Errorf("%q: %v, want %s", value, err, says)
		}
	}
}

// TestAvroSchemasAreBounded checks types that take no bytes or contain each other, which would otherwise expand without bound.
// TestRefusedMapsLeaveNothing checks that the names of maps in bad events are not kept.
func TestRefusedMapsLeaveNothing(t *testing.T) {
	d := newDecoder(t, avroOptions(readingSchema(`{"name":"v","type":{"type":"map","values":"string"}}`)))
	for range 100 {
		if err := refusal(t, d, recordOf(readingOfAvro+"\x04\x02a\x02b\x02c\x02\xff\x00")); err.Reason != BadUTF8 {
			t.Fatal(err)
		}
	}
	if n := len(d.avro.keys); n > 4 {
		t.Errorf("the decoder keeps %d names", n)
	}
}

func TestAvroSchemasAreBounded(t *testing.T) {
	// Each record holds the previous one twice, so the last one holds 2^40 nulls in no byte.
	inner := `{"type":"record","name":"R0","fields":[{"name":"n","type":"null"}]}`
	for i := range 40 {
		inner = fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"a","type":%s},{"name":"b","type":"R%d"}]}`, i+1, inner, i)
	}
	for _, drop := range [][]string{nil, {"x"}} {
		o := avroOptions(readingSchema(`{"name":"x","type":` + inner + `}`))
		o.Drop = drop
		_, err := newDecoder(t, o).Decode(record.Record{Timestamp: recordTime, Value: []byte(readingOfAvro)})
		if wrong, is := errors.AsType[*DecodeError](err); !is || wrong.Reason != TooLarge {
			t.Errorf("an event of endless nulls: %v", err)
		}
	}
	endless := avroOptions(readingSchema(`{"name":"x","type":"Reading"}`))
	if _, err := newDecoder(t, endless).Decode(record.Record{Timestamp: recordTime, Value: []byte(readingOfAvro)}); err == nil {
		t.Error("a record in itself is read")
	}
	for schema, says := range map[string]string{
		`"long"`: "not a record", `["null"]`: "not a record", `{`: "not an Avro schema", `{"type":"record","name":"R"}`: "not an Avro schema",
		`["null","long"]`: "not a record", strings.Repeat(" ", MaxSchemaBytes+1): "has 1048577 bytes",
		readingSchema(`{"name":"x","type":` + strings.Repeat(`{"type":"array","items":`, 120) + `"int"` + strings.Repeat("}", 120) + `}`): "levels deep",
		readingSchema(manyFields(maxSchemaNodes)): "more than 10000 types",
	} {
		if err := CheckSchema(schema); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v, want %s", schema, err, says)
		}
	}
}

func manyFields(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"name":"f%d","type":"int"}`, i)
	}
	return strings.Join(list, ",")
}

// TestAvroTombstones checks that null is a tombstone, alone and as the root.
func TestAvroTombstones(t *testing.T) {
	envelope := `{"type":"record","name":"Envelope","fields":[{"name":"before","type":["null",` + readingSchema() + `]},{"name":"after","type":["null","plant.air.Reading"]}]}`
	o := avroOptions(envelope)
	o.Root = "after"
	for _, test := range []struct {
		options Options
		value   string
	}{{avroOptions(`["null",` + readingSchema() + `]`), "\x00"}, {o, "\x02" + readingOfAvro + "\x00"}} {
		d := newDecoder(t, test.options)
		if results, err := d.Decode(record.Record{Timestamp: recordTime, Value: []byte(test.value)}); err != nil || len(results) > 0 || d.Tombstones() != 1 {
			t.Errorf("%d results, %d tombstones, %v", len(results), d.Tombstones(), err)
		}
	}
	results, err := newDecoder(t, o).Decode(record.Record{Timestamp: recordTime, Value: []byte("\x00\x02" + readingOfAvro)})
	if err != nil || len(results) != 1 || results[0].Measurement.Meta.StringValue() != "m" {
		t.Errorf("a row behind its envelope: %v %v", results, err)
	}
}

// fuzzedSchemas have every type, and paths through records and unions.
var fuzzedSchemas = []string{
	readingSchema(`{"name":"x","type":["null","double"]}`, `{"name":"y","type":"int"}`),
	readingSchema(`{"name":"a","type":{"type":"record","name":"A","fields":[{"name":"time","type":["null","long"]},{"name":"meta","type":{"type":"record","name":"M","fields":[{"name":"s","type":"string"},{"name":"h","type":["int","null"]}]}}]}}`),
	readingSchema(`{"name":"p","type":["null",{"type":"record","name":"P","fields":[{"name":"meta","type":{"type":"map","values":["null","string"]}},{"name":"x","type":{"type":"record","name":"X","fields":[{"name":"y","type":["null","bytes"]},{"name":"b","type":"float"}]}}]}]}`, `{"name":"at","type":"long"}`),
	readingSchema(`{"name":"x","type":{"type":"array","items":["null","boolean",{"type":"map","values":"long"}]}}`, `{"name":"e","type":{"type":"enum","name":"E","symbols":["A","B"]}}`, `{"name":"f","type":{"type":"fixed","name":"F","size":3}}`),
	readingSchema(`{"name":"x","type":["null","Reading",{"type":"array","items":"Reading"}]}`),
	`["null",` + readingSchema(`{"name":"x","type":"float"}`) + `,{"type":"map","values":"string"}]`,
	`{"type":"record","name":"E","fields":[{"name":"p","type":["null",` + readingSchema() + `]},{"name":"at","type":"long"},{"name":"x","type":{"type":"array","items":"null"}}]}`,
}

func mustCompile(t testing.TB, schema string) *avroType {
	t.Helper()
	root, err := compileAvro(schema)
	if err != nil {
		t.Fatal(err)
	}
	return root
}
