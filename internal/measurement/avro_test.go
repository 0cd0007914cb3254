package measurement

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/avro"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries/rawbson"
)

// avroOptions are the options of events in Avro with time and meta.
func avroOptions(schema string) Options {
	o := plainOptions
	o.Format, o.Schema = Avro, schema
	return o
}

// readingSchema is a schema of a record with time, meta and one more field or several.
func readingSchema(fields ...string) string {
	return `{"type":"record","name":"Reading","namespace":"plant.air","fields":[{"name":"time","type":{"type":"long","logicalType":"timestamp-millis"}},` +
		`{"name":"meta","type":"string"}` + strings.Join(append([]string{""}, fields...), ",") + `]}`
}

// readingOfAvro begins an event of readingSchema: 2023-11-14T22:13:20.123Z and the meta "m".
var readingOfAvro = string(binary.AppendVarint(nil, 1_700_000_000_123)) + "\x02m"

// TestAvroValues has what becomes of each type, as relaxed Extended JSON.
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
		for range 2 { // in one pass, and by the document
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

// TestAvroDecimals holds decimals against big numbers, and the bounds of digits.
func TestAvroDecimals(t *testing.T) {
	ten := func(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }
	largest := new(big.Int).Sub(ten(34), big.NewInt(1))
	for _, test := range []struct {
		number       *big.Int
		scale        int
		want, double string
	}{
		{big.NewInt(0), 0, "0", "0"},
		{big.NewInt(-1), 1, "-0.1", "-0.1"},
		{big.NewInt(1 << 62), 30, "4.611686018427387904E-12", "4.611686018427388e-12"},
		{largest, 0, strings.Repeat("9", 34), "1e+34"},
		{new(big.Int).Neg(largest), 34, "-0." + strings.Repeat("9", 34), "-1"},
		{ten(34), 0, "1.000000000000000000000000000000000E+34", "1e+34"},
		{new(big.Int).Add(ten(34), big.NewInt(1)), 0, "", "1e+34"},
		{ten(60), 30, "1000000000000000000000000000000.000", "1e+30"},
		{new(big.Int).Mul(big.NewInt(-15), ten(200)), 0, "-1.500000000000000000000000000000000E+201", "-1.5e+201"},
		{ten(400), 0, "1.000000000000000000000000000000000E+400", ""},
		{big.NewInt(1), 6176, "1E-6176", "0"},
		{big.NewInt(10), 6177, "1E-6176", "0"},
		{big.NewInt(1), 6177, "", "0"},
		{big.NewInt(0), 9000, "0E-6176", "0"},
		{big.NewInt(15), -2, "1.5E+3", "1500"},
		{big.NewInt(-1), -6111, "-1E+6111", ""},
		{big.NewInt(1), -6114, "1.000E+6114", ""},
		{big.NewInt(-7), -6144, "-7.000000000000000000000000000000000E+6144", ""},
		{big.NewInt(7), -6145, "", ""},
		{largest, -6111, "9." + strings.Repeat("9", 33) + "E+6144", ""},
		{ten(34), -6111, "", ""},
		{big.NewInt(1), math.MinInt32, "", ""},
		{big.NewInt(1), math.MaxInt32, "", "0"},
		{big.NewInt(0), math.MinInt32, "0E+6111", "0"},
		{big.NewInt(3), -25, "3E+25", "3e+25"},
	} {
		out, _, err := AsDecimals.append(nil, twosComplement(test.number), test.scale)
		if (err == nil) != (test.want != "") || err != nil && err.Reason != BadNumber {
			t.Errorf("%v scaled by %d: %v, want %q", test.number, test.scale, err, test.want)
		} else if err == nil {
			got := bson.NewDecimal128(binary.LittleEndian.Uint64(out[8:]), binary.LittleEndian.Uint64(out)).String()
			if got != test.want {
				t.Errorf("%v scaled by %d is %s, want %s", test.number, test.scale, got, test.want)
			}
		}
		if out, _, err = AsDoubles.append(nil, twosComplement(test.number), test.scale); (err == nil) != (test.double != "") {
			t.Errorf("%v scaled by %d: %v, want %q", test.number, test.scale, err, test.double)
		} else if err == nil {
			if got := fmt.Sprint(math.Float64frombits(binary.LittleEndian.Uint64(out))); got != test.double {
				t.Errorf("%v scaled by %d is %s, want %s", test.number, test.scale, got, test.double)
			}
		}
	}
	if _, _, err := AsDecimals.append(nil, bytes.Repeat([]byte{1}, 2000), 0); err == nil || err.Reason != BadNumber {
		t.Errorf("a number of 2,000 bytes: %v", err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		number, scale := big.NewInt(random.Int64()), random.IntN(40)-20
		if random.IntN(2) == 0 {
			number.Mul(number, big.NewInt(random.Int64N(1e14)))
		}
		if random.IntN(2) == 0 {
			number.Neg(number)
		}
		want, ok := bson.ParseDecimal128FromBigInt(number, -scale)
		if out, _, err := AsDecimals.append(nil, twosComplement(number), scale); (err == nil) != ok {
			t.Fatalf("%v: %v, the driver says %v", number, err, ok)
		} else if high, low := want.GetBytes(); ok && (binary.LittleEndian.Uint64(out[8:]) != high || binary.LittleEndian.Uint64(out) != low) {
			t.Fatalf("%v scaled by %d differs from %v", number, scale, want)
		}
	}
}

// TestDecimalsBecomeDoubles: where the options say so, in one pass and by the document.
func TestDecimalsBecomeDoubles(t *testing.T) {
	o := avroOptions(readingSchema(`{"name":"x","type":["null",{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}]}`))
	o.Decimals = AsDoubles
	d := newDecoder(t, o)
	for range 2 {
		m := decodeOne(t, d, record.Record{Offset: 7, Timestamp: recordTime, Value: []byte(readingOfAvro + "\x02\x02\x85")})
		if got := document(t, m.Elements).Lookup("x"); got.Type != bson.TypeDouble || got.Double() != -1.23 {
			t.Errorf("it is %v", got)
		}
		d.avroPlan = nil
	}
}

// twosComplement is a number as Java's BigInteger writes it.
func twosComplement(n *big.Int) []byte {
	size := uint(n.BitLen()/8 + 1)
	if n.Sign() >= 0 {
		return n.FillBytes(make([]byte, size))
	}
	return new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), 8*size)).FillBytes(make([]byte, size))
}

// TestAvroIsRefused: values that are not of their schema are letters, in bounded memory.
func TestAvroIsRefused(t *testing.T) {
	const list = `{"type":"array","items":`
	recursive := readingSchema(`{"name":"x","type":["null","Reading"]}`)
	for name, test := range map[string]struct {
		schema, value, says string
		reason              Reason
	}{
		"cut":                     {`"double"`, "\x01\x02", "a number of 8 bytes is expected at byte 8 of 10", NotAvro},
		"cut float":               {`"float"`, "\x01\x02", "a number of 4 bytes", NotAvro},
		"left over":               {`"int"`, "\x02\x02", "1 of its 10 bytes are left behind an event", NotAvro},
		"varint without end":      {`"long"`, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "an integer of 64 bits", NotAvro},
		"varint of 33 bits":       {`"int"`, "\xff\xff\xff\xff\x1f", "an integer of 32 bits", NotAvro},
		"int of six bytes":        {`"int"`, "\x80\x80\x80\x80\x80\x00", "an integer of 32 bits", NotAvro},
		"boolean":                 {`"boolean"`, "\x02", "a boolean", NotAvro},
		"branch":                  {`["null","int"]`, "\x04", "the branch of a union of 2", NotAvro},
		"negative branch":         {`["null","int"]`, "\x01", "the branch of a union of 2", NotAvro},
		"symbol":                  {`{"type":"enum","name":"E","symbols":["A"]}`, "\x02", "a symbol of the enum plant.air.E", NotAvro},
		"negative symbol":         {`{"type":"enum","name":"E","symbols":["A"]}`, "\x01", "a symbol of the enum", NotAvro},
		"text beyond the end":     {`"string"`, "\x06ab", "a text", NotAvro},
		"text of negative length": {`"string"`, "\x01", "a text", NotAvro},
		"bytes beyond the end":    {`"bytes"`, "\x06ab", "a value of bytes", NotAvro},
		"fixed beyond the end":    {`{"type":"fixed","name":"F","size":9}`, "ab", "a value of bytes", NotAvro},
		"no text":                 {`"string"`, "\x02\xff", "is not UTF-8", BadUTF8},
		"items beyond the end":    {list + `"int"}`, "\xfe\xff\xff\xff\x0f\x02", "items are announced, and 1 bytes are left", NotAvro},
		"block beyond the end":    {list + `"int"}`, "\x01\x10\x02\x00", "the size of a block", NotAvro},
		"block of negative size":  {list + `"int"}`, "\x01\x01\x02\x00", "the size of a block", NotAvro},
		"most negative count":     {list + `"null"}`, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02\x00", "the number of items", NotAvro},
		"items without bytes":     {list + `"null"}`, "\xfe\xff\xff\xff\x0f\x00", "more than 65536 items that take no bytes", TooLarge},
		"fixed without bytes":     {list + `{"type":"fixed","name":"Z","size":0}}`, "\xfe\xff\xff\xff\x0f\x00", "more than 65536 items", TooLarge},
		"array without end":       {list + `"int"}`, "\x02\x02", "the number of items", NotAvro},
		"name in a map":           {`{"type":"map","values":"int"}`, "\x02\x06a", "a name in a map", NotAvro},
		"zero byte in a name":     {`{"type":"map","values":"int"}`, "\x02\x04a\x00\x02\x00", "holds a zero byte", BadFieldName},
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
		`{"time":1}`: "set EVENT_FORMAT=json", "Obj\x01\x04": "is an Avro file", "\xc3\x01\x01\x02": "single objects",
		"\x00\x00\x00\x00\x07" + readingOfAvro + "\x02": "without the frame",
	} {
		_, err := newDecoder(t, avroOptions(readingSchema(`{"name":"x","type":"int"}`))).Decode(record.Record{Timestamp: recordTime, Value: []byte(value)})
		if wrong, is := errors.AsType[*DecodeError](err); !is || wrong.Reason != NotAvro || !strings.Contains(wrong.Detail, says) {
			t.Errorf("%q: %v, want %s", value, err, says)
		}
	}
}

// TestAvroSchemasAreBounded: types that take no bytes, or hold each other, become endlessly many otherwise.
func TestAvroSchemasAreBounded(t *testing.T) {
	// Each record holds the one before twice, so the last holds 2^40 nulls in no byte.
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
		`"long"`: "no record", `["null"]`: "no record", `{`: "no Avro schema", `{"type":"record","name":"R"}`: "no Avro schema",
		`["null","long"]`: "no record", strings.Repeat(" ", MaxSchemaBytes+1): "has 1048577 bytes",
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

// TestAvroTombstones: null is a tombstone, alone and as the root.
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

// judged compares a value that the judge decoded with BSON.
func judged(t *testing.T, typ *avroType, want any, kind bson.Type, value []byte) {
	t.Helper()
	got := bson.RawValue{Type: kind, Value: value}
	same := false
	switch v := want.(type) {
	case nil:
		same = kind == bson.TypeNull
	case bool:
		same = kind == bson.TypeBoolean && got.Boolean() == v
	case int32:
		same = kind == bson.TypeInt32 && got.Int32() == v
	case int64:
		same = kind == bson.TypeInt64 && got.Int64() == v
	case float32:
		same = kind == bson.TypeDouble && math.Float64bits(got.Double()) == math.Float64bits(float64(v))
	case float64:
		same = kind == bson.TypeDouble && math.Float64bits(got.Double()) == math.Float64bits(v)
	case string:
		same = kind == bson.TypeString && got.StringValue() == v
	case []byte:
		_, data, ok := got.BinaryOK()
		same = ok && bytes.Equal(data, v)
	case []any:
		i := 0
		for e := range rawbson.All(rawbson.Content(value)) {
			if i == len(v) {
				t.Fatalf("more than the %d items of the judge", len(v))
			}
			judged(t, typ, v[i], e.Kind, e.Value)
			i++
		}
		same = kind == bson.TypeArray && i == len(v)
	case map[string]any:
		n := 0
		for e := range rawbson.All(rawbson.Content(value)) {
			of, found := v[string(e.Name)]
			if !found {
				t.Fatalf("the judge has no %q", e.Name)
			}
			judged(t, typ, of, e.Kind, e.Value)
			n++
		}
		same = kind == bson.TypeEmbeddedDocument && n == len(v)
	default:
		t.Fatalf("the judge has a %T", want)
	}
	if !same {
		t.Fatalf("%v is %v for the judge", got, want)
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

// FuzzDecodeAvro: events that are read in one pass become what they become by their documents, and the judge agrees with what is
// read, and with what is refused.
func FuzzDecodeAvro(f *testing.F) {
	random := rand.New(rand.NewPCG(5, 6))
	for i, schema := range fuzzedSchemas {
		for n := range 4 {
			seed := randomAvro(random, mustCompile(f, schema), 1)
			for _, choice := range []uint8{0, 4, 12, 32, 64, 128} {
				f.Add(seed, uint8(i), choice, n > 1)
			}
		}
	}
	judges := map[string]*avro.Schema{}
	f.Fuzz(func(t *testing.T, value []byte, which, choice uint8, dropsNulls bool) {
		schema := fuzzedSchemas[int(which)%len(fuzzedSchemas)]
		o := fuzzOptions(BSON, choice)
		o.Format, o.Schema, o.TimeMin, o.TimeMax = Avro, schema, At(firstMillis), At(lastMillis)
		if dropsNulls {
			o.Nulls = DropNulls
		}
		checkDecoded(t, o, value)
		quick, walked, slow := newDecoder(t, o), newDecoder(t, o), newDecoder(t, o)
		walked.avroPlan, slow.avroPlan, slow.walker = nil, nil, nil
		r := record.Record{Offset: 1, Timestamp: recordTime, Key: []byte("k"), Value: value}
		for range 2 {
			want := lineFates(t, slow, r)
			for name, d := range map[string]*Decoder{"in one pass": quick, "by their documents": walked} {
				if got := lineFates(t, d, r); got != want {
					t.Fatalf("%x of %s %s:\n%s\nwant\n%s", value, schema, name, got, want)
				}
			}
		}
		plain := strings.ReplaceAll(schema, `,"logicalType":"timestamp-millis"`, "")
		if judges[plain] == nil {
			judges[plain] = avro.MustParse(plain)
		}
		judge(t, judges[plain], mustCompile(t, plain), value)
	})
}

// judge holds what the reader makes of a value against another implementation of Avro.
func judge(t *testing.T, by *avro.Schema, root *avroType, value []byte) {
	t.Helper()
	var want any
	rest, refused := by.Decode(value, &want)
	r := avroReader{}
	r.begin(value, 1<<16)
	kind, err := r.value(root, 1)
	switch {
	case err != nil && (err.Reason != NotAvro || strings.HasPrefix(err.Detail, "a boolean") || strings.HasPrefix(err.Detail, "the size of a block")) || r.isOdd:
		// BSON or bounds refuse it, the judge takes any byte for a boolean and any size of a block, or a map has a name twice.
		return
	case refused != nil && strings.Contains(refused.Error(), "zero-byte items"):
		return // The judge takes fewer of them.
	case (err != nil) != (refused != nil):
		t.Fatalf("%x: %v, the judge says %v", value, err, refused)
	case err != nil:
		return
	case len(rest) != len(value)-r.at:
		t.Fatalf("%x: %d bytes are left, the judge leaves %d", value, len(value)-r.at, len(rest))
	}
	judged(t, root, want, kind, r.out)
}

func mustCompile(t testing.TB, schema string) *avroType {
	t.Helper()
	root, err := compileAvro(schema)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// randomAvro is a value of a type. Its numbers are times now and then.
func randomAvro(random *rand.Rand, t *avroType, depth int) (out []byte) {
	number := func() int64 {
		if random.IntN(2) == 0 {
			return 1_700_000_000_000 + random.Int64N(1e8)
		}
		return random.Int64() >> random.IntN(64)
	}
	text := func() []byte {
		b := []byte("abé.$"[:random.IntN(4)])
		return append(binary.AppendVarint(nil, int64(len(b))), b...)
	}
	switch t.kind {
	case avroBoolean:
		return []byte{byte(random.IntN(2))}
	case avroInt, avroDays:
		return binary.AppendVarint(nil, int64(int32(random.Uint32()>>random.IntN(32))))
	case avroLong, avroMillis, avroMicros, avroNanos:
		return binary.AppendVarint(nil, number())
	case avroFloat:
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(random.Float32()))
	case avroDouble:
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(random.Float64()))
	case avroString, avroBytes, avroDecimal:
		return text()
	case avroFixed, avroUUID, avroFixedDecimal:
		return make([]byte, t.size)
	case avroEnum:
		return binary.AppendVarint(nil, random.Int64N(int64(len(t.symbols))))
	case avroRecord:
		for _, f := range t.fields {
			out = append(out, randomAvro(random, f.avroType, depth+1)...)
		}
	case avroUnion:
		branch := random.IntN(len(t.branches))
		if depth > 5 {
			branch = 0
		}
		return append(binary.AppendVarint(nil, int64(branch)), randomAvro(random, t.branches[branch], depth+1)...)
	case avroArray, avroMap:
		n := random.IntN(3)
		if n > 0 {
			out = binary.AppendVarint(nil, int64(n))
		}
		for range n {
			if t.kind == avroMap {
				out = append(out, text()...)
			}
			out = append(out, randomAvro(random, t.items, depth+1)...)
		}
		out = append(out, 0)
	}
	return out
}

// TestAvroAgainstTheJudge decodes random events of random schemas, and damaged ones.
func TestAvroAgainstTheJudge(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	schemas, events := 300, 100
	if testing.Short() {
		schemas = 30
	}
	for range schemas {
		names := 0
		schema := readingSchema(`{"name":"x","type":` + randomSchema(random, &names, 1) + `}`)
		plain := strings.ReplaceAll(schema, `,"logicalType":"timestamp-millis"`, "")
		by, root := avro.MustParse(plain), mustCompile(t, plain)
		for range events {
			value := randomAvro(random, root, 1)
			judge(t, by, root, value)
			value[random.IntN(len(value))] ^= 1 << random.IntN(8)
			judge(t, by, root, value)
			judge(t, by, root, value[:random.IntN(len(value))])
		}
	}
}

// randomSchema is a type without a logical type.
func randomSchema(random *rand.Rand, names *int, depth int) string {
	simple := []string{`"null"`, `"boolean"`, `"int"`, `"long"`, `"float"`, `"double"`, `"string"`, `"bytes"`}
	n := len(simple)
	if depth < 4 {
		n += 6
	}
	*names++
	name := fmt.Sprintf("N%d", *names)
	switch i := random.IntN(n); i - len(simple) {
	case 0:
		return `{"type":"array","items":` + randomSchema(random, names, depth+1) + `}`
	case 1:
		return `{"type":"map","values":` + randomSchema(random, names, depth+1) + `}`
	case 2:
		return `{"type":"record","name":"` + name + `","fields":[{"name":"b","type":` + randomSchema(random, names, depth+1) + `},{"name":"a","type":["null","` + name + `"]}]}`
	case 3:
		return `["null",{"type":"record","name":"` + name + `","fields":[{"name":"c","type":` + randomSchema(random, names, depth+1) + `}]},"string"]`
	case 4:
		return `{"type":"enum","name":"` + name + `","symbols":["A","B","C"]}`
	case 5:
		return fmt.Sprintf(`{"type":"fixed","name":"%s","size":%d}`, name, random.IntN(4))
	default:
		return simple[i]
	}
}
