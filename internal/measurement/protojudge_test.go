package measurement

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries/rawbson"
)

// protoJudge converts a message read by another implementation. Messages become bson.D, and maps become map[string]any.
func protoJudge(m protoreflect.Message) any {
	fields := m.Descriptor().Fields()
	number := func(name protoreflect.Name) int64 { return m.Get(fields.ByName(name)).Int() }
	switch m.Descriptor().FullName() {
	case "google.protobuf.Timestamp":
		return bson.DateTime(number("seconds")*1000 + number("nanos")/1e6)
	case "google.protobuf.Duration":
		return float64(number("seconds")) + float64(number("nanos"))/1e9
	case "google.protobuf.Struct", "google.protobuf.ListValue", "google.protobuf.DoubleValue", "google.protobuf.FloatValue", "google.protobuf.Int64Value",
		"google.protobuf.UInt64Value", "google.protobuf.Int32Value", "google.protobuf.UInt32Value", "google.protobuf.BoolValue",
		"google.protobuf.StringValue", "google.protobuf.BytesValue":
		return fieldJudge(fields.Get(0), m.Get(fields.Get(0)))
	case "google.protobuf.Value":
		if set := m.WhichOneof(m.Descriptor().Oneofs().Get(0)); set != nil {
			return fieldJudge(set, m.Get(set))
		}
		return nil
	}
	out := bson.D{}
	for i := range fields.Len() {
		if f := fields.Get(i); m.Has(f) || !f.HasPresence() {
			out = append(out, bson.E{Key: string(f.Name()), Value: fieldJudge(f, m.Get(f))})
		}
	}
	return out
}

func fieldJudge(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.IsMap():
		out := map[string]any{}
		v.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
			out[key.String()] = singleJudge(f.MapValue(), value)
			return true
		})
		return out
	case f.IsList():
		out := bson.A{}
		for i := range v.List().Len() {
			out = append(out, singleJudge(f, v.List().Get(i)))
		}
		return out
	}
	return singleJudge(f, v)
}

func singleJudge(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch value := v.Interface().(type) {
	case protoreflect.Message:
		return protoJudge(value)
	case protoreflect.EnumNumber:
		if f.Enum().FullName() == "google.protobuf.NullValue" {
			return nil
		}
		if symbol := f.Enum().Values().ByNumber(value); symbol != nil {
			return string(symbol.Name())
		}
		return int32(value)
	case uint32:
		return int64(value)
	case uint64:
		if value > math.MaxInt64 {
			return float64(value)
		}
		return int64(value)
	case float32:
		return float64(value)
	default:
		return value
	}
}

// sameAsJudge reports whether BSON equals the judge's value.
func sameAsJudge(want any, got bson.RawValue) bool {
	switch v := want.(type) {
	case nil:
		return got.Type == bson.TypeNull
	case bool:
		return got.Type == bson.TypeBoolean && got.Boolean() == v
	case int32:
		return got.Type == bson.TypeInt32 && got.Int32() == v
	case int64:
		return got.Type == bson.TypeInt64 && got.Int64() == v
	case bson.DateTime:
		return got.Type == bson.TypeDateTime && got.DateTime() == int64(v)
	case float64:
		return got.Type == bson.TypeDouble && (math.Float64bits(got.Double()) == math.Float64bits(v) || math.IsNaN(v) && math.IsNaN(got.Double()))
	case string:
		return got.Type == bson.TypeString && got.StringValue() == v
	case []byte:
		_, data, ok := got.BinaryOK()
		return ok && bytes.Equal(data, v)
	}
	var elements []rawbson.Element
	if got.Type == bson.TypeArray || got.Type == bson.TypeEmbeddedDocument {
		elements = slices.Collect(rawbson.All(rawbson.Content(got.Value)))
	}
	at := func(i int) bson.RawValue { return bson.RawValue{Type: elements[i].Kind, Value: elements[i].Value} }
	same := false
	switch v := want.(type) {
	case bson.A:
		same = got.Type == bson.TypeArray && len(elements) == len(v)
		for i := 0; same && i < len(v); i++ {
			same = string(elements[i].Name) == fmt.Sprint(i) && sameAsJudge(v[i], at(i))
		}
	case bson.D:
		same = got.Type == bson.TypeEmbeddedDocument && len(elements) == len(v)
		for i := 0; same && i < len(v); i++ {
			same = string(elements[i].Name) == v[i].Key && sameAsJudge(v[i].Value, at(i))
		}
	case map[string]any:
		same = got.Type == bson.TypeEmbeddedDocument && len(elements) == len(v)
		for i := 0; same && i < len(elements); i++ {
			of, found := v[string(elements[i].Name)]
			same = found && sameAsJudge(of, at(i))
		}
	}
	return same
}

// judgeProto compares the reader's result with another implementation of Protobuf. It reports whether both can read the value.
func judgeProto(t *testing.T, of protoreflect.MessageDescriptor, root *protoMember, value []byte) bool {
	t.Helper()
	want := dynamicpb.NewMessage(of)
	refused, failed := readByJudge(value, want)
	r := newProtoReader(&Options{MaxBytes: 1 << 16})
	r.begin(value)
	err := r.event(root)
	switch {
	case failed, err != nil && err.Reason != NotProtobuf, refused != nil && strings.Contains(refused.Error(), "UTF-8"):
		return false // the judge fails, BSON or bounds refuse it, or the judge checks a text that another one replaces
	case (err != nil) != (refused != nil):
		t.Fatalf("%x of %s: %v, the judge says %v", value, of.FullName(), err, refused)
	case err != nil:
		return false
	}
	if bson.Raw(r.out).Validate() != nil || !sameAsJudge(protoJudge(want), bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: r.out}) {
		t.Fatalf("%x of %s is %v, for the judge %v", value, of.FullName(), bson.Raw(r.out), protoJudge(want))
	}
	return true
}

// readByJudge reads a value. The judge fails if a map's key repeats with another wire type.
func readByJudge(value []byte, m proto.Message) (refused error, failed bool) {
	defer func() {
		if cause := recover(); cause != nil {
			failed = true
		}
	}()
	return proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(value, m), false
}

// messageOf returns the message Reading of a descriptor set.
func messageOf(t testing.TB, descriptors string) protoreflect.MessageDescriptor {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal([]byte(descriptors), &set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	of, err := files.FindDescriptorByName("Reading")
	if err != nil {
		t.Fatal(err)
	}
	return of.(protoreflect.MessageDescriptor)
}

// randomProto returns a value of a message, with fields in any order, repeated, in pieces, and unknown ones.
func randomProto(random *rand.Rand, of protoreflect.MessageDescriptor, depth int) (out []byte) {
	fields := of.Fields()
	for range random.IntN(2 * (fields.Len() + 1)) {
		if random.IntN(8) == 0 {
			out = append(out, wireVarint(protowire.Number(50+random.IntN(3)), random.Uint64())...)
			continue
		}
		if fields.Len() == 0 {
			continue
		}
		f := fields.Get(random.IntN(fields.Len()))
		scalar, isScalar := protoScalars[f.Kind()]
		switch {
		case isScalar && f.IsList() && scalar.wire != protowire.BytesType && random.IntN(2) == 0:
			var packed []byte
			for range random.IntN(4) {
				packed = append(packed, randomScalar(random, f.Kind(), scalar.wire)...)
			}
			out = append(out, wireBytes(f.Number(), string(packed))...)
		case isScalar:
			out = append(protowire.AppendTag(out, f.Number(), scalar.wire), randomScalar(random, f.Kind(), scalar.wire)...)
		case depth > 5:
		case f.Kind() == protoreflect.GroupKind:
			out = append(protowire.AppendTag(out, f.Number(), protowire.StartGroupType), randomProto(random, f.Message(), depth+1)...)
			out = protowire.AppendTag(out, f.Number(), protowire.EndGroupType)
		case f.Message().FullName() == "google.protobuf.Timestamp":
			out = append(out, wireBytes(f.Number(), string(wireTime(1_700_000_000+random.Int64N(1e6), random.Int64N(1e9))))...)
		default:
			out = append(out, wireBytes(f.Number(), string(randomProto(random, f.Message(), depth+1)))...)
		}
	}
	return out
}

// randomScalar returns an encoded value of a scalar type.
func randomScalar(random *rand.Rand, kind protoreflect.Kind, wire protowire.Type) []byte {
	switch wire {
	case protowire.Fixed64Type:
		return protowire.AppendFixed64(nil, random.Uint64())
	case protowire.Fixed32Type:
		return protowire.AppendFixed32(nil, random.Uint32())
	case protowire.BytesType:
		return protowire.AppendString(nil, []string{"", "a", "b", "é€", "$x", "a.b"}[random.IntN(6)])
	}
	if kind == protoreflect.EnumKind || random.IntN(2) == 0 {
		return protowire.AppendVarint(nil, random.Uint64N(4))
	}
	return protowire.AppendVarint(nil, random.Uint64()>>random.IntN(64))
}

// randomFile returns a file with the message Reading, which contains others.
func randomFile(random *rand.Rand) string {
	types := []string{
		"int32", "sint32", "int64", "sint64", "uint32", "uint64", "fixed32", "fixed64", "sfixed32", "sfixed64", "float", "double", "bool", "string", "bytes", "E",
		"M0", "M1", "Reading", "google.protobuf.Timestamp", "google.protobuf.Duration", "google.protobuf.DoubleValue", "google.protobuf.StringValue",
		"google.protobuf.UInt64Value", "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue",
	}
	keys := []string{"string", "int32", "sint64", "fixed32", "uint64", "sfixed64", "bool"}
	name := func() string { return types[random.IntN(len(types))] }
	fields := func() string {
		var b strings.Builder
		for i := range 1 + random.IntN(6) {
			number := 3 + i
			if random.IntN(6) == 0 {
				number += 300
			}
			switch random.IntN(6) {
			case 0:
				fmt.Fprintf(&b, "repeated %s f%d = %d;\n", name(), i, number)
			case 1:
				fmt.Fprintf(&b, "map<%s, %s> f%d = %d;\n", keys[random.IntN(len(keys))], name(), i, number)
			case 2:
				fmt.Fprintf(&b, "oneof o%d { %s f%da = %d; %s f%db = %d; %s f%dc = %d; }\n", i, name(), i, 20+3*i, name(), i, 21+3*i, name(), i, 22+3*i)
			case 3:
				fmt.Fprintf(&b, "optional %s f%d = %d;\n", name(), i, number)
			default:
				fmt.Fprintf(&b, "%s f%d = %d;\n", name(), i, number)
			}
		}
		return b.String()
	}
	return readingProto(fields(), "message M0 {"+fields()+"}", "message M1 {"+fields()+"}", "enum E { A = 0; B = 1; C = 2; }")
}

// TestProtoAgainstTheJudge decodes random events of random messages, and damaged ones.
func TestProtoAgainstTheJudge(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	messages, events, both := 200**judgeTimes, 100, 0
	if testing.Short() {
		messages = 20
	}
	for i := range messages {
		source := randomFile(random)
		if i%10 == 0 {
			source = secondEdition
		}
		file := protoFile(t, source)
		set := protoSet(t, file)
		of := messageOf(t, set)
		root, err := compileProto(set, "Reading")
		if err != nil {
			t.Fatal(err)
		}
		for range events {
			value := randomProto(random, of, 1)
			if judgeProto(t, of, root, value) {
				both++
			}
			if len(value) == 0 {
				continue
			}
			value[random.IntN(len(value))] ^= 1 << random.IntN(8)
			judgeProto(t, of, root, value)
			judgeProto(t, of, root, value[:random.IntN(len(value))])
		}
	}
	if both < messages*events/4 {
		t.Errorf("only %d of %d events were read by both", both, messages*events)
	}
}

// secondEdition has features that only older files have.
const secondEdition = `syntax = "proto2"; message Reading { required int64 time = 1; required string meta = 2; optional int32 d = 3 [default = 7]; optional E e = 4 [default = B];
	repeated group G = 5 { optional int32 n = 1; optional group H = 2 { optional int32 o = 3; repeated Reading r = 4; } } repeated int32 l = 6; repeated int32 p = 9 [packed = true];
	map<string, F> m = 7; optional group K = 8 { optional sint32 s = 1; oneof of { string t = 2; group L = 3 { optional bytes u = 1; } } } enum E { A = 5; B = 6; } enum F { C = 0; D = 1; } }`

// fuzzedFiles have every kind of field, and paths through messages.
var fuzzedFiles = []string{
	readingProto(`optional double x = 3; int32 y = 4; uint64 z = 5;`),
	readingProto(`A a = 3;`, `message A { int64 time = 1; M meta = 2; } message M { string s = 1; optional int32 h = 2; repeated string a = 3; }`),
	readingProto(`P p = 3; int64 at = 4;`, `message P { map<string, string> meta = 1; X x = 2; google.protobuf.Value v = 3; } message X { bytes y = 1; float b = 2; repeated sint32 l = 3; }`),
	readingProto(`oneof of { X x = 3; string y = 4; double z = 5; } google.protobuf.Struct s = 6; repeated X l = 7;`, `message X { E e = 1; oneof of { Reading r = 2; google.protobuf.ListValue w = 3; } map<int32, X> m = 4; } enum E { A = 0; B = 1; }`),
	secondEdition,
	`syntax = "proto3"; message Reading { P p = 1; int64 at = 2; M meta = 3; } message P { string meta = 1; double c = 2; M x = 3; } message M { sint32 b = 1; string a = 2; }`,
	`syntax = "proto3"; message Reading { M meta = 1; int64 time = 2; sint64 of_a_long_name_of_a_field = 3; float short = 17; } message M { string z = 1; optional string k = 2; string b = 4; string a = 15; }`,
	readingProto(`P p = 3;`, `message P { google.protobuf.StringValue meta = 1; repeated M x = 2; } message M { string a = 1; string b = 2; }`),
	`syntax = "proto3"; message Reading { repeated M meta = 1; int64 time = 2; P p = 3; } message P { map<string, M> meta = 1; int64 time = 2; } message M { string a = 1; string b = 2; }`,
}

// FuzzDecodeProto checks that events read in one pass equal those read through their documents. The judge must agree with the
// values and with the refusals.
func FuzzDecodeProto(f *testing.F) {
	random := rand.New(rand.NewPCG(11, 12))
	type compiled struct {
		of   protoreflect.MessageDescriptor
		root *protoMember
		set  string
	}
	var files []compiled
	for i, source := range fuzzedFiles {
		file := protoFile(f, source)
		c := compiled{set: protoSet(f, file)}
		c.of = messageOf(f, c.set)
		var err error
		if c.root, err = compileProto(c.set, "Reading"); err != nil {
			f.Fatal(err)
		}
		files = append(files, c)
		for range 6 {
			seed := randomProto(random, c.of, 1)
			for _, choice := range []uint8{0, 4, 12, 32, 64, 128} {
				f.Add(append(seed, readingOfProto...), uint8(i), choice, choice == 12)
			}
		}
	}
	f.Fuzz(func(t *testing.T, value []byte, which, choice uint8, dropsNulls bool) {
		c := files[int(which)%len(files)]
		o := fuzzOptions(BSON, choice)
		o.Format, o.Descriptors, o.Message, o.TimeMin, o.TimeMax = Protobuf, c.set, "Reading", At(firstMillis), At(lastMillis)
		if dropsNulls {
			o.Nulls = DropNulls
		}
		if value == nil {
			value = []byte{} // null is a tombstone
		}
		checkDecoded(t, o, value)
		quick, walked, slow := newDecoder(t, o), newDecoder(t, o), newDecoder(t, o)
		walked.protoPlan, slow.protoPlan, slow.walker = nil, nil, nil
		r := record.Record{Offset: 1, Timestamp: recordTime, Key: []byte("k"), Value: value}
		for range 2 {
			want := lineFates(t, slow, r)
			for name, d := range map[string]*Decoder{"in one pass": quick, "by their documents": walked} {
				if got := lineFates(t, d, r); got != want {
					t.Fatalf("%x of file %d %s:\n%s\nwant\n%s", value, which, name, got, want)
				}
			}
		}
		judgeProto(t, c.of, c.root, value)
	})
}
