package measurement

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"waterwheel/internal/record"
)

// decimalProto is the file of Confluent's decimals.
const decimalProto = `syntax = "proto3"; package confluent.type; message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }`

// protoFile compiles a file of messages.
func protoFile(t testing.TB, source string) protoreflect.FileDescriptor {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"events.proto": source, "confluent/type/decimal.proto": decimalProto}),
	})}
	files, err := compiler.Compile(t.Context(), "events.proto")
	if err != nil {
		t.Fatalf("%v in\n%s", err, source)
	}
	return files[0]
}

// protoSet returns a descriptor set with a file and all its imports.
func protoSet(t testing.TB, file protoreflect.FileDescriptor) string {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	known := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if known[f.Path()] {
			return
		}
		known[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add(file)
	out, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// protoOptions returns the options of events in Protobuf with time and meta, of the message Reading in a file.
func protoOptions(t testing.TB, source string) Options {
	t.Helper()
	o := plainOptions
	o.Format, o.Descriptors, o.Message = Protobuf, protoSet(t, protoFile(t, source)), "Reading"
	return o
}

// readingProto returns a file with the message Reading, which has time, meta and further fields. others are further messages.
func readingProto(fields string, others ...string) string {
	return `syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/wrappers.proto";
		import "google/protobuf/struct.proto"; import "google/protobuf/any.proto"; import "confluent/type/decimal.proto";
		message Reading { google.protobuf.Timestamp time = 1; string meta = 2; ` + fields + ` }` + strings.Join(others, "\n")
}

// readingOfProto begins an event of readingProto: 2023-11-14T22:13:20.123Z and the meta "m".
var readingOfProto = string(wireBytes(2, "m")) + string(wireBytes(1, string(wireTime(1_700_000_000, 123_999_999))))

func wireBytes(number protowire.Number, value string) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), []byte(value))
}

func wireVarint(number protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), value)
}

func wireFixed64(number protowire.Number, value uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(nil, number, protowire.Fixed64Type), value)
}

func wireFixed32(number protowire.Number, value uint32) []byte {
	return protowire.AppendFixed32(protowire.AppendTag(nil, number, protowire.Fixed32Type), value)
}

func wireTime(seconds, nanos int64) []byte {
	return append(wireVarint(1, uint64(seconds)), wireVarint(2, uint64(nanos))...)
}

// TestProtoValues lists the stored value of each type, as relaxed Extended JSON.
func TestProtoValues(t *testing.T) {
	join := func(parts ...[]byte) string {
		var all []byte
		for _, part := range parts {
			all = append(all, part...)
		}
		return string(all)
	}
	decimal := func(number string, scale int64) []byte {
		return wireBytes(3, join(wireVarint(3, uint64(scale)), wireVarint(2, 9), wireBytes(1, number)))
	}
	minus := func(n int64) uint64 { return uint64(-n) }
	const enum, inner = `enum E { OFF = 0; ON = 1; HIGH = 300; }`, `message In { int32 b = 1; optional string a = 2; }`
	const noon = `{"$date":"2023-11-14T22:13:20.123Z"}`
	double := math.Float64bits
	for _, test := range []struct{ field, value, want string }{
		{`int32 x = 3;`, join(wireVarint(3, minus(7))), `{"x":-7}`},
		{`int32 x = 3;`, join(wireVarint(3, 1<<40|5)), `{"x":5}`},
		{`int32 x = 3;`, "", `{"x":0}`},
		{`sint32 x = 3;`, join(wireVarint(3, 13)), `{"x":-7}`},
		{`sfixed32 x = 3;`, join(wireFixed32(3, math.MaxUint32)), `{"x":-1}`},
		{`int64 x = 3;`, join(wireVarint(3, minus(7))), `{"x":-7}`},
		{`sint64 x = 3;`, join(wireVarint(3, math.MaxUint64)), `{"x":-9223372036854775808}`},
		{`sfixed64 x = 3;`, join(wireFixed64(3, minus(7))), `{"x":-7}`},
		{`uint32 x = 3;`, join(wireVarint(3, math.MaxUint32)), `{"x":4294967295}`},
		{`fixed32 x = 3;`, join(wireFixed32(3, math.MaxUint32)), `{"x":4294967295}`},
		{`uint64 x = 3;`, join(wireVarint(3, math.MaxInt64)), `{"x":9223372036854775807}`},
		{`uint64 x = 3;`, join(wireVarint(3, 1<<63)), `{"x":9.223372036854776E+18}`},
		{`fixed64 x = 3;`, join(wireFixed64(3, 5)), `{"x":5}`},
		{`bool x = 3;`, join(wireVarint(3, 300)), `{"x":true}`},
		{`bool x = 3;`, "", `{"x":false}`},
		{`float x = 3;`, join(wireFixed32(3, math.Float32bits(21.5))), `{"x":21.5}`},
		{`double x = 3;`, join(wireFixed64(3, double(21.375))), `{"x":21.375}`},
		{`double x = 3;`, "", `{"x":0.0}`},
		{`string x = 3;`, join(wireBytes(3, "€")), `{"x":"€"}`},
		{`string x = 3;`, "", `{"x":""}`},
		{`bytes x = 3;`, join(wireBytes(3, "\x01\xff")), `{"x":{"$binary":{"base64":"Af8=","subType":"00"}}}`},
		{`E x = 3;`, join(wireVarint(3, 1)), `{"x":"ON"}`},
		{`E x = 3;`, join(wireVarint(3, 300)), `{"x":"HIGH"}`},
		{`E x = 3;`, join(wireVarint(3, 7)), `{"x":7}`},
		{`E x = 3;`, join(wireVarint(3, minus(1))), `{"x":-1}`},
		{`E x = 3;`, "", `{"x":"OFF"}`},
		{`optional double x = 3;`, "", `{}`},
		{`optional double x = 3;`, join(wireFixed64(3, 0)), `{"x":0.0}`},
		{`In x = 3;`, "", `{}`},
		{`In x = 3;`, join(wireBytes(3, "")), `{"x":{"b":0}}`},
		{`In x = 3;`, join(wireBytes(3, join(wireBytes(2, "t"), wireVarint(1, 1)))), `{"x":{"b":1,"a":"t"}}`},
		{`In x = 3;`, join(wireBytes(3, join(wireBytes(2, "t"))), wireVarint(9, 1), wireBytes(3, join(wireVarint(1, 1)))), `{"x":{"b":1,"a":"t"}}`},
		{`int32 x = 3;`, join(wireVarint(3, 1), wireVarint(3, 2)), `{"x":2}`},
		{`int32 x = 3;`, join(wireBytes(3, "ab"), wireVarint(3, 1), wireFixed32(3, 2)), `{"x":1}`},
		{`repeated int32 x = 3;`, "", `{"x":[]}`},
		{`repeated int32 x = 3;`, join(wireVarint(3, 1), wireVarint(9, 7), wireBytes(3, "\x02\x03"), wireVarint(3, 4)), `{"x":[1,2,3,4]}`},
		{`repeated double x = 3;`, join(wireBytes(3, join(wireFixed64(1, double(1.5))[1:], wireFixed64(1, double(-2))[1:]))), `{"x":[1.5,-2.0]}`},
		{`repeated fixed32 x = 3;`, join(wireBytes(3, "\x01\x00\x00\x00")), `{"x":[1]}`},
		{`repeated string x = 3;`, join(wireBytes(3, "a"), wireBytes(3, "")), `{"x":["a",""]}`},
		{`repeated E x = 3;`, join(wireBytes(3, "\x00\x01\x07")), `{"x":["OFF","ON",7]}`},
		{`repeated In x = 3;`, join(wireBytes(3, ""), wireBytes(3, join(wireVarint(1, 2)))), `{"x":[{"b":0},{"b":2}]}`},
		{`map<string, int32> x = 3;`, "", `{"x":{}}`},
		{`map<string, int32> x = 3;`, join(wireBytes(3, join(wireBytes(1, "b"), wireVarint(2, 1))), wireBytes(3, join(wireVarint(2, 2), wireBytes(1, "a")))), `{"x":{"b":1,"a":2}}`},
		{`map<string, int32> x = 3;`, join(wireBytes(3, join(wireBytes(1, "b"), wireVarint(2, 1))), wireBytes(3, join(wireBytes(1, "a"))), wireBytes(3, join(wireBytes(1, "b"), wireVarint(2, 3)))), `{"x":{"a":0,"b":3}}`},
		{`map<int64, In> x = 3;`, join(wireBytes(3, join(wireVarint(1, minus(5))))), `{"x":{"-5":{"b":0}}}`},
		{`map<uint64, string> x = 3;`, join(wireBytes(3, join(wireVarint(1, math.MaxUint64), wireBytes(2, "v")))), `{"x":{"18446744073709551615":"v"}}`},
		{`map<sint32, bool> x = 3;`, join(wireBytes(3, join(wireVarint(1, 3)))), `{"x":{"-2":false}}`},
		{`map<bool, E> x = 3;`, join(wireBytes(3, join(wireVarint(1, 1), wireVarint(2, 1))), wireBytes(3, "")), `{"x":{"true":"ON","false":"OFF"}}`},
		{`oneof of { int32 x = 3; string y = 4; In z = 5; }`, "", `{}`},
		{`oneof of { int32 x = 3; string y = 4; In z = 5; }`, join(wireVarint(3, 1), wireBytes(4, "")), `{"y":""}`},
		{`oneof of { int32 x = 3; string y = 4; In z = 5; }`, join(wireBytes(5, join(wireBytes(2, "t"))), wireVarint(3, 0), wireBytes(5, join(wireVarint(1, 1)))), `{"z":{"b":1}}`},
		{`oneof of { int32 x = 3; string y = 4; In z = 5; }`, join(wireBytes(5, join(wireBytes(2, "t"))), wireBytes(5, join(wireVarint(1, 1)))), `{"z":{"b":1,"a":"t"}}`},
		{`Reading x = 3;`, join(wireBytes(3, readingOfProto)), `{"x":{"time":` + noon + `,"meta":"m"}}`},
		{`int32 far = 70000;`, join(wireVarint(70000, 5)), `{"far":5}`},
		{`int32 x = 3;`, join(protowire.AppendTag(nil, 9, protowire.StartGroupType), wireVarint(1, 2), protowire.AppendTag(nil, 9, protowire.EndGroupType), wireVarint(3, 1)), `{"x":1}`},

		{`google.protobuf.Timestamp x = 3;`, join(wireBytes(3, string(wireTime(1_700_000_000, 123_999_999)))), `{"x":` + noon + `}`},
		{`google.protobuf.Timestamp x = 3;`, join(wireBytes(3, string(wireTime(-1, 1)))), `{"x":{"$date":{"$numberLong":"-1000"}}}`},
		{`google.protobuf.Timestamp x = 3;`, "", `{}`},
		{`repeated google.protobuf.Timestamp x = 3;`, join(wireBytes(3, "")), `{"x":[{"$date":"1970-01-01T00:00:00Z"}]}`},
		{`google.protobuf.Duration x = 3;`, join(wireBytes(3, string(wireTime(-1, -500_000_000)))), `{"x":-1.5}`},
		{`google.protobuf.DoubleValue x = 3;`, join(wireBytes(3, join(wireFixed64(1, double(1.5))))), `{"x":1.5}`},
		{`google.protobuf.DoubleValue x = 3;`, join(wireBytes(3, "")), `{"x":0.0}`},
		{`google.protobuf.DoubleValue x = 3;`, "", `{}`},
		{`repeated google.protobuf.StringValue x = 3;`, join(wireBytes(3, ""), wireBytes(3, join(wireBytes(1, "a")))), `{"x":["","a"]}`},
		{`map<string, google.protobuf.BytesValue> x = 3;`, join(wireBytes(3, join(wireBytes(1, "a")))), `{"x":{"a":{"$binary":{"base64":"","subType":"00"}}}}`},
		{`google.protobuf.Value x = 3;`, join(wireBytes(3, "")), `{"x":null}`},
		{`google.protobuf.Value x = 3;`, join(wireBytes(3, join(wireVarint(1, 0)))), `{"x":null}`},
		{`google.protobuf.Value x = 3;`, join(wireBytes(3, join(wireFixed64(2, double(2))))), `{"x":2.0}`},
		{`google.protobuf.Value x = 3;`, join(wireBytes(3, join(wireBytes(3, "t")))), `{"x":"t"}`},
		{`google.protobuf.Value x = 3;`, join(wireBytes(3, join(wireBytes(6, join(wireBytes(1, join(wireVarint(4, 1))), wireBytes(1, "")))))), `{"x":[true,null]}`},
		{`google.protobuf.Struct x = 3;`, join(wireBytes(3, join(wireBytes(1, join(wireBytes(1, "a"), wireBytes(2, join(wireBytes(5, join(wireBytes(1, join(wireBytes(1, "b")))))))))))), `{"x":{"a":{"b":null}}}`},
		{`google.protobuf.ListValue x = 3;`, join(wireBytes(3, "")), `{"x":[]}`},
		{`google.protobuf.NullValue x = 3;`, "", `{"x":null}`},
		{`confluent.type.Decimal x = 3;`, join(decimal("\x7b", 2)), `{"x":{"$numberDecimal":"1.23"}}`},
		{`confluent.type.Decimal x = 3;`, join(decimal("\x85", -3)), `{"x":{"$numberDecimal":"-1.23E+5"}}`},
		{`confluent.type.Decimal x = 3;`, join(wireBytes(3, "")), `{"x":{"$numberDecimal":"0"}}`},
		{`confluent.type.Decimal x = 3;`, "", `{}`},
		{`repeated confluent.type.Decimal x = 3;`, join(decimal("\x01", 1), decimal("\x02", 0)), `{"x":[{"$numberDecimal":"0.1"},{"$numberDecimal":"2"}]}`},
		{`google.protobuf.Any x = 3;`, join(wireBytes(3, join(wireBytes(1, "u")))), `{"x":{"type_url":"u","value":{"$binary":{"base64":"","subType":"00"}}}}`},
	} {
		d := newDecoder(t, protoOptions(t, readingProto(test.field, enum, inner)))
		for range 2 { // in one pass, and through the document
			results, err := d.Decode(record.Record{Offset: 1, Timestamp: recordTime, Value: []byte(readingOfProto + test.value)})
			if err != nil {
				t.Errorf("%s %x: %v", test.field, test.value, err)
				break
			}
			m := results[0].Measurement
			text, err := bson.MarshalExtJSON(document(t, m.Elements), false, false)
			if err != nil || string(text) != test.want || m.Time != 1_700_000_000_123 || m.Meta.StringValue() != "m" {
				t.Errorf("%s %x is %s at %d of %v, want %s", test.field, test.value, text, m.Time, m.Meta, test.want)
			}
			if d.protoPlan != nil && d.protoPlan.lost > 0 {
				t.Errorf("%s %x is not read in one pass", test.field, test.value)
			}
			d.protoPlan = nil
		}
	}
}

// TestProtoOfTheSecondEdition covers groups, default values, enums that do not begin with zero, and unpacked numbers.
func TestProtoOfTheSecondEdition(t *testing.T) {
	o := protoOptions(t, `syntax = "proto2"; message Reading { required int64 time = 1; required string meta = 2; optional int32 d = 3 [default = 7]; optional E e = 4 [default = B];
		repeated group G = 5 { optional int32 n = 1; optional group H = 2 { optional int32 o = 3; } } repeated int32 l = 6; map<string, F> m = 7; enum E { A = 5; B = 6; } enum F { C = 0; } extensions 100 to 200; }`)
	group := func(number protowire.Number, inside ...byte) []byte {
		return protowire.AppendTag(append(protowire.AppendTag(nil, number, protowire.StartGroupType), inside...), number, protowire.EndGroupType)
	}
	value := append(wireVarint(1, 1_700_000_000), wireBytes(2, "m")...)
	value = append(value, group(5, append(wireVarint(1, 1), group(2, wireVarint(3, 4)...)...)...)...)
	value = append(append(value, group(5)...), wireBytes(6, "\x01\x02")...)
	value = append(append(value, wireBytes(7, string(wireBytes(1, "k")))...), wireVarint(150, 1)...)
	d := newDecoder(t, o)
	for range 2 {
		m := decodeOne(t, d, record.Record{Offset: 7, Timestamp: recordTime, Value: value})
		text, err := bson.MarshalExtJSON(document(t, m.Elements), false, false)
		if want := `{"g":[{"n":1,"h":{"o":4}},{}],"l":[1,2],"m":{"k":"C"}}`; err != nil || string(text) != want {
			t.Errorf("%s, want %s", text, want)
		}
		d.protoPlan = nil
	}
}

// TestProtoPaths covers time, meta, root and dropped paths in messages, in one pass and through the document.
func TestProtoPaths(t *testing.T) {
	const file = `syntax = "proto3"; import "google/protobuf/timestamp.proto";
		message Reading { Source source = 1; Body body = 2; int64 seen = 3; }
		message Source { string site = 1; string device = 2; repeated Place places = 3; } message Place { string z = 1; int32 a = 2; }
		message Body { google.protobuf.Timestamp at = 1; double celsius = 2; double humidity = 3; string note = 4; }`
	place := append(wireVarint(2, 1), wireBytes(1, "p")...)
	source := append(append(wireBytes(2, "d-1"), wireBytes(3, string(place))...), wireBytes(1, "north")...)
	body := append(wireBytes(1, string(wireTime(1_700_000_000, 0))), wireFixed64(2, math.Float64bits(21.5))...)
	value := append(append(wireBytes(1, string(source)), wireBytes(2, string(body))...), wireVarint(3, 5)...)
	for _, test := range []struct {
		change     func(*Options)
		meta, want string
	}{
		{func(o *Options) { o.TimeField, o.MetaField, o.Drop = "body.at", "source", []string{"body.note"} }, `{"device":"d-1","places":[{"a":1,"z":"p"}],"site":"north"}`, `{"body":{"celsius":21.5,"humidity":0.0},"seen":5}`},
		{func(o *Options) { o.Root, o.TimeField, o.MetaField = "body", "at", "/source.device" }, `"d-1"`, `{"celsius":21.5,"humidity":0.0,"note":""}`},
		{func(o *Options) {
			o.TimeField, o.MetaField, o.MetaFields, o.Fields = "seen|body.at", "", []string{"source.site", "id=source.device"}, "body"
			o.TimeMin = At(0)
		}, `{"id":"d-1","site":"north"}`, `{"celsius":21.5,"humidity":0.0,"note":""}`},
	} {
		o := protoOptions(t, file)
		test.change(&o)
		d := newDecoder(t, o)
		for range 2 {
			m := decodeOne(t, d, record.Record{Offset: 7, Timestamp: recordTime, Value: value})
			meta, err := bson.MarshalExtJSON(bson.D{{Key: "m", Value: m.Meta}}, false, false)
			text, also := bson.MarshalExtJSON(document(t, m.Elements), false, false)
			if want := `{"m":` + test.meta + `}`; errors.Join(err, also) != nil || string(meta) != want || string(text) != test.want {
				t.Errorf("%s of %s, want %s of %s", text, meta, test.want, want)
			}
			if d.protoPlan != nil && d.protoPlan.lost > 0 {
				t.Errorf("%s is not read in one pass", test.want)
			}
			d.protoPlan = nil
		}
	}
}

// TestProtoOfNothingIsAnEvent covers a message with only zero fields, which has no bytes.
func TestProtoOfNothingIsAnEvent(t *testing.T) {
	o := protoOptions(t, `syntax = "proto3"; message Reading { double celsius = 1; }`)
	o.TimeField, o.MetaField, o.MetaFrom = "", "", MetaFromKey
	m := decodeOne(t, newDecoder(t, o), record.Record{Timestamp: recordTime, Key: []byte("k"), Value: []byte{}})
	if got := document(t, m.Elements).Lookup("celsius"); got.Type != bson.TypeDouble || got.Double() != 0 {
		t.Errorf("it is %v", got)
	}
}

// TestProtoIsRefused checks that values that do not match their message are letters, in bounded memory.
func TestProtoIsRefused(t *testing.T) {
	many := string(wireBytes(3, strings.Repeat("\x01", 2<<20-100)))
	wide := "message Wide {"
	for i := range 100 {
		wide += fmt.Sprintf("double a%d = %d;", i, i+1)
	}
	wide += "}"
	for name, test := range map[string]struct {
		field, value, says string
		reason             Reason
	}{
		"cut":                    {`double x = 3;`, string(wireFixed64(3, 1))[:5], "its last 5 bytes are damaged", NotProtobuf},
		"cut tag":                {`double x = 3;`, "\x80", "are damaged", NotProtobuf},
		"cut varint":             {`int32 x = 3;`, "\x18\xff", "its last 2 bytes", NotProtobuf},
		"varint without end":     {`int32 x = 3;`, "\x18" + strings.Repeat("\xff", 11), "are damaged or incomplete", NotProtobuf},
		"text beyond the end":    {`string x = 3;`, "\x1a\x06ab", "are damaged or incomplete", NotProtobuf},
		"text of endless length": {`string x = 3;`, "\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01ab", "are damaged or incomplete", NotProtobuf},
		"number zero":            {`string x = 3;`, "\x00\x01", "are damaged or incomplete", NotProtobuf},
		"number beyond":          {`string x = 3;`, "\x80\x80\x80\x80\x10\x01", "are damaged or incomplete", NotProtobuf},
		"type that is none":      {`string x = 3;`, "\x1f\x01", "are damaged or incomplete", NotProtobuf},
		"group without end":      {`string x = 3;`, "\x4b\x08\x01", "are damaged or incomplete", NotProtobuf},
		"end without a group":    {`string x = 3;`, "\x4c", "are damaged or incomplete", NotProtobuf},
		"groups in groups":       {`string x = 3;`, strings.Repeat("\x4b", 20_000), "are damaged or incomplete", NotProtobuf},
		"inner message":          {`Reading x = 3;`, string(wireBytes(3, "\x0a\x05")), "at x", NotProtobuf},
		"packed":                 {`repeated fixed64 x = 3;`, string(wireBytes(3, "abc")), "at x.0", NotProtobuf},
		"packed varint":          {`repeated int32 x = 3;`, string(wireBytes(3, "\x01\x80")), "at x.1", NotProtobuf},
		"replaced in a oneof":    {`oneof of { Reading x = 3; int32 y = 4; }`, string(wireBytes(3, "\x0a\x05")) + string(wireVarint(4, 1)), "at x", NotProtobuf},
		"replaced in a map":      {`map<int32, Reading> x = 3;`, string(wireBytes(3, string(wireBytes(2, "\x0a\x05")))) + string(wireBytes(3, "")), "at x.0", NotProtobuf},
		"no text":                {`string x = 3;`, string(wireBytes(3, "\xff")), "is not UTF-8", BadUTF8},
		"no text as a name":      {`map<string, int32> x = 3;`, string(wireBytes(3, string(wireBytes(1, "\xff")))), "is not UTF-8", BadUTF8},
		"zero byte in a name":    {`map<string, int32> x = 3;`, string(wireBytes(3, string(wireBytes(1, "a\x00")))), "contains a zero byte", BadFieldName},
		"dollar":                 {`map<string, int32> x = 3;`, string(wireBytes(3, string(wireBytes(1, "$a")))), "dollar sign", BadFieldName},
		"no name":                {`map<string, int32> x = 3;`, string(wireBytes(3, "")), "with an empty name", BadFieldName},
		"time":                   {`google.protobuf.Timestamp x = 3;`, string(wireBytes(3, string(wireTime(1, 1e9)))), "are not a valid Timestamp", BadTime},
		"time of the year 10000": {`google.protobuf.Timestamp x = 3;`, string(wireBytes(3, string(wireTime(lastTimestamp+1, 0)))), "are not a valid Timestamp", BadTime},
		"items":                  {`repeated int32 x = 3;`, many, "more than 16777216 bytes as BSON", TooLarge},
		"zeros":                  {`repeated Wide x = 3;`, strings.Repeat(string(wireBytes(3, "")), 20_000), "more than 16777216 bytes as BSON", TooLarge},
	} {
		o := protoOptions(t, readingProto(test.field, wide))
		o.MaxBytes = 2 << 20
		d := newDecoder(t, o)
		for range 2 {
			_, err := d.Decode(record.Record{Offset: 1, Timestamp: recordTime, Value: []byte(readingOfProto + test.value)})
			wrong, is := errors.AsType[*DecodeError](err)
			if !is || wrong.Reason != test.reason || !strings.Contains(wrong.Error(), test.says) {
				t.Errorf("%s: %v, want %s: %s", name, err, test.reason, test.says)
			}
			d.protoPlan = nil
		}
	}
	deep, listed := "", ""
	for range 200 {
		deep, listed = readingOfProto+string(wireBytes(3, deep)), string(wireBytes(6, string(wireBytes(1, listed))))
	}
	for _, test := range []struct{ field, value string }{{`Reading x = 3;`, deep}, {`google.protobuf.Value x = 3;`, readingOfProto + string(wireBytes(3, listed))}} {
		_, err := newDecoder(t, protoOptions(t, readingProto(test.field))).Decode(record.Record{Timestamp: recordTime, Value: []byte(test.value)})
		if wrong, is := errors.AsType[*DecodeError](err); !is || wrong.Reason != TooDeep {
			t.Errorf("%s of 200 levels: %v", test.field, err)
		}
	}
	for value, says := range map[string]string{
		`{"time":1}`: "set EVENT_FORMAT=json", "\x00\x00\x00\x00\x07\x00" + readingOfProto: "the frame of a schema registry",
		string(protowire.AppendBytes(nil, []byte(readingOfProto))): "begins with the length of the message",
	} {
		_, err := newDecoder(t, protoOptions(t, readingProto(`int32 x = 3;`))).Decode(record.Record{Timestamp: recordTime, Value: []byte(value)})
		if wrong, is := errors.AsType[*DecodeError](err); !is || wrong.Reason != NotProtobuf || !strings.Contains(wrong.Detail, says) {
			t.Errorf("%q: %v, want %s", value, err, says)
		}
	}
}

// TestProtoMessagesAreChecked covers invalid descriptor sets, and sets without the named message.
func TestProtoMessagesAreChecked(t *testing.T) {
	set := protoSet(t, protoFile(t, `syntax = "proto3"; package plant.air; import "google/protobuf/timestamp.proto"; import "google/protobuf/struct.proto";
		message Reading { google.protobuf.Timestamp at = 1; map<string, google.protobuf.Value> more = 2; } enum State { OFF = 0; }`))
	var parts descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal([]byte(set), &parts); err != nil {
		t.Fatal(err)
	}
	parts.File = parts.File[len(parts.File)-1:]
	alone, err := proto.Marshal(&parts)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ set, message, says string }{
		{set, "Reading", `the descriptor set has no message "Reading"; it has plant.air.Reading`},
		{set, "plant.air.State", "is not a message"},
		{set, "plant.air.Reading.MoreEntry", "is not a message"},
		{set, "google.protobuf.Timestamp", "stored as a single value"},
		{set, "google.protobuf.Value", "stored as a single value"},
		{string(alone), "plant.air.Reading", "write the file with protoc --include_imports"},
		{`syntax = "proto3";`, "Reading", "not a descriptor set"},
		{"", "Reading", "not a descriptor set"},
		{strings.Repeat(" ", MaxDescriptorBytes+1), "Reading", "more than 16777216"},
	} {
		if err := CheckMessage(test.set, test.message); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%.40q %s: %v, want %s", test.set, test.message, err, test.says)
		}
	}
	for _, message := range []string{"plant.air.Reading", ".plant.air.Reading", "google.protobuf.Struct"} {
		if err := CheckMessage(set, message); err != nil {
			t.Error(err)
		}
	}
	var fields strings.Builder
	for i := range maxSchemaNodes + 1 {
		fmt.Fprintf(&fields, "int32 f%d = %d;\n", i, i+1)
	}
	wide := protoSet(t, protoFile(t, `syntax = "proto3"; message Wide {`+fields.String()+`}`))
	if err := CheckMessage(wide, "Wide"); err == nil || !strings.Contains(err.Error(), "more than 10000 fields") {
		t.Error(err)
	}
}
