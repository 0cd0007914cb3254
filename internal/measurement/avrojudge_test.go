package measurement

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/avro"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries/rawbson"
)

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

// FuzzDecodeAvro checks that events read in one pass equal those read through their documents. The judge, another implementation,
// must agree with the values and with the refusals.
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

// judge compares the reader's result with another implementation of Avro.
func judge(t *testing.T, by *avro.Schema, root *avroType, value []byte) {
	t.Helper()
	var want any
	rest, refused := by.Decode(value, &want)
	r := newAvroReader(&Options{MaxBytes: 1 << 16})
	r.begin(value, nil)
	kind, err := r.value(root, 1)
	switch {
	case err != nil && (err.Reason != NotAvro || strings.HasPrefix(err.Detail, "a boolean") || strings.HasPrefix(err.Detail, "the size of a block")) || r.isOdd:
		// BSON or bounds refuse it, the judge accepts any byte as a boolean and any size of a block, or a map has a name twice.
		return
	case refused != nil && strings.Contains(refused.Error(), "zero-byte items"):
		return // the judge accepts fewer of them
	case (err != nil) != (refused != nil):
		t.Fatalf("%x: %v, the judge says %v", value, err, refused)
	case err != nil:
		return
	case len(rest) != len(value)-r.at:
		t.Fatalf("%x: %d bytes are left, the judge leaves %d", value, len(value)-r.at, len(rest))
	}
	judged(t, root, want, kind, r.out)
}

// randomAvro returns a value of a type. Some of its numbers are times.
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

// judgeTimes is for long runs by hand.
var judgeTimes = flag.Int("judge.times", 1, "how many times as many random schemas the judges of Avro and of Protobuf get")

// TestAvroAgainstTheJudge decodes random events of random schemas, and damaged ones.
func TestAvroAgainstTheJudge(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	schemas, events := 300**judgeTimes, 100
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

// randomSchema returns a type without a logical type.
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
