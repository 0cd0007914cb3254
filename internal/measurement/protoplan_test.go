package measurement

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"waterwheel/internal/record"
)

// metaTypes are types of the meta of random files. T, T1 and T2 are messages of texts, M is another message.
var metaTypes = []string{
	"string", "optional string", "repeated string", "T", "optional T", "repeated T", "T1", "T2", "M", "map<string, string>", "map<string, T>", "E", "bool", "sint32", "uint64", "double", "bytes",
	"google.protobuf.StringValue", "repeated google.protobuf.StringValue", "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue", "google.protobuf.Timestamp",
}

// metaFile returns a file with the message Reading, whose meta has any type, at the top and in other messages.
func metaFile(random *rand.Rand) string {
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	fields := []string{"double", "int32", "sint64", "uint64", "float", "string", "bool", "repeated int32", "T", "optional double", "E", "google.protobuf.DoubleValue"}
	place := func() string {
		out := fmt.Sprintf("%s time = 1; %s meta = 2;", pick([]string{"google.protobuf.Timestamp", "int64", "optional google.protobuf.Timestamp"}), pick(metaTypes))
		for i := range random.IntN(8) {
			out += fmt.Sprintf("%s %s = %d;", pick(fields), []string{"x", "y", "a_field_with_a_long_name", "b", "c", "d", "w", "v"}[i], 3+i*random.IntN(3)*7+i)
		}
		return out
	}
	return `syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto";
		message Reading {` + place() + ` P a = 201; P p = 202; } message P {` + place() + ` int64 at = 203; }
		message T { string z = 1; optional string k = 2; string b = 4; string a = 15; } message T1 { string only = 1; } message T2 { string far = 300; string a = 1; }
		message M { string a = 1; double b = 2; } enum E { NONE = 0; ONE = 1; }`
}

// usualProto returns a value of a message as producers write it: in the order of the numbers, and most fields once.
func usualProto(random *rand.Rand, of protoreflect.MessageDescriptor, depth int) (out []byte) {
	for number := protowire.Number(1); number < 400; number++ {
		f := of.Fields().ByNumber(number)
		if f == nil || random.IntN(8) == 0 {
			continue
		}
		times := 1
		if f.IsList() || f.IsMap() || random.IntN(16) == 0 {
			times = random.IntN(3)
		}
		for range times {
			scalar, isScalar := protoScalars[f.Kind()]
			switch {
			case isScalar:
				out = append(protowire.AppendTag(out, number, scalar.wire), randomScalar(random, f.Kind(), scalar.wire)...)
			case f.Message().FullName() == "google.protobuf.Timestamp":
				out = append(out, wireBytes(number, string(wireTime(1_700_000_000+random.Int64N(1e6), random.Int64N(1e9))))...)
			case depth < 5:
				out = append(out, wireBytes(number, string(usualProto(random, f.Message(), depth+1)))...)
			}
		}
	}
	return out
}

// TestProtoPlansEqualDocuments checks that events of random messages, with any kind of meta, are the same measurements whether
// they are read in one pass or through their documents.
func TestProtoPlansEqualDocuments(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	files, planned, all := 150**judgeTimes, 0, 0
	if testing.Short() {
		files = 30
	}
	for range files {
		source := metaFile(random)
		set := protoSet(t, protoFile(t, source))
		of := messageOf(t, set)
		for _, choice := range []uint8{0, 4, 32, uint8(random.IntN(256))} {
			o := fuzzOptions(BSON, choice)
			o.Format, o.Descriptors, o.Message, o.TimeMin, o.TimeMax = Protobuf, set, "Reading", At(firstMillis), At(lastMillis)
			if random.IntN(3) == 0 {
				o.Nulls = DropNulls
			}
			quick, slow := newDecoder(t, o), newDecoder(t, o)
			if slow.protoPlan, slow.walker = nil, nil; quick.protoPlan == nil {
				continue
			}
			for range 20 {
				r := record.Record{Offset: 1, Timestamp: recordTime, Key: []byte("k"), Value: usualProto(random, of, 1)}
				if r.Value == nil {
					continue
				}
				quick.protoPlan.rest = 0
				got, want := lineFates(t, quick, r), lineFates(t, slow, r)
				if got != want {
					t.Fatalf("%x with the options %d is in one pass\n%s\nthrough its document\n%s\nin\n%s", r.Value, choice, got, want, source)
				}
				if all++; quick.protoPlan.lost == 0 {
					planned++
				}
			}
		}
	}
	if planned < all/4 {
		t.Errorf("only %d of %d events were read in one pass", planned, all)
	}
}
