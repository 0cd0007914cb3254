package bucketer

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/timeseries/rawbson"
)

// The functions of this file read and write documents as the driver's trees of Go values, which are bson.D, bson.A, int32, string
// and so on. They do the same as the driver without reflection, because the models spend most of their time on this.

// encode is bson.Marshal.
func encode(t testing.TB, d bson.D) []byte {
	raw, err := appendTree(nil, d)
	if err != nil {
		t.Helper()
		t.Fatalf("encoding %v: %v", d, err)
	}
	return raw
}

// appendTree appends the value of v, without type and name.
func appendTree(dst []byte, v any) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case bson.D:
		start := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		for _, e := range v {
			if dst, err = appendMember(dst, e.Key, e.Value); err != nil {
				return dst, err
			}
		}
		return rawbson.EndDocument(dst, start), nil
	case bson.A:
		start := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		for i, e := range v {
			if dst, err = appendMember(dst, strconv.Itoa(i), e); err != nil {
				return dst, err
			}
		}
		return rawbson.EndDocument(dst, start), nil
	case nil:
		return dst, nil
	case int32:
		return binary.LittleEndian.AppendUint32(dst, uint32(v)), nil
	case int64:
		return appendInt64(dst, v), nil
	case float64:
		return appendInt64(dst, int64(math.Float64bits(v))), nil
	case bson.DateTime:
		return appendInt64(dst, int64(v)), nil
	case bson.Decimal128:
		high, low := v.GetBytes()
		return appendInt64(appendInt64(dst, int64(low)), int64(high)), nil
	case bool:
		return bsoncore.AppendBoolean(dst, v), nil
	case string:
		return bsoncore.AppendString(dst, v), nil
	case bson.ObjectID:
		return append(dst, v[:]...), nil
	case bson.Binary:
		return bsoncore.AppendBinary(dst, v.Subtype, v.Data), nil
	}
	_, data, err := bson.MarshalValue(v)
	return append(dst, data...), err
}

func appendMember(dst []byte, name string, v any) ([]byte, error) {
	kind, err := typeOf(v)
	if err != nil {
		return dst, err
	}
	return appendTree(rawbson.AppendHeader(dst, kind, name), v)
}

func typeOf(v any) (bson.Type, error) {
	switch v.(type) {
	case bson.D:
		return bson.TypeEmbeddedDocument, nil
	case bson.A:
		return bson.TypeArray, nil
	case nil:
		return bson.TypeNull, nil
	case int32:
		return bson.TypeInt32, nil
	case int64:
		return bson.TypeInt64, nil
	case float64:
		return bson.TypeDouble, nil
	case bson.DateTime:
		return bson.TypeDateTime, nil
	case bson.Decimal128:
		return bson.TypeDecimal128, nil
	case bool:
		return bson.TypeBoolean, nil
	case string:
		return bson.TypeString, nil
	case bson.ObjectID:
		return bson.TypeObjectID, nil
	case bson.Binary:
		return bson.TypeBinary, nil
	}
	kind, _, err := bson.MarshalValue(v)
	return kind, err
}

// rawOf returns the encoded form of a value.
func rawOf(v any) bson.RawValue {
	kind, err := typeOf(v)
	if err != nil {
		panic(err)
	}
	data, err := appendTree(nil, v)
	if err != nil {
		panic(err)
	}
	return bson.RawValue{Type: kind, Value: data}
}

func kindOf(v any) bson.Type {
	kind, err := typeOf(v)
	if err != nil {
		panic(err)
	}
	return kind
}

// decode is bson.Unmarshal for documents of the catalog.
func decode(t testing.TB, raw []byte) bson.D {
	err := bson.Raw(raw).Validate()
	if err == nil {
		var d bson.D
		if d, err = membersOf(raw); err == nil {
			return d
		}
	}
	t.Helper()
	t.Fatalf("the catalog wrote malformed BSON: %v", err)
	return nil
}

// membersOf reads the members of a well-formed document.
func membersOf(raw []byte) (bson.D, error) {
	d := bson.D{}
	for rest := raw[4 : len(raw)-1]; len(rest) > 0; {
		var e bsoncore.Element
		e, rest, _ = bsoncore.ReadElement(rest)
		value := e.Value()
		v, err := valueIn(bson.Type(value.Type), value.Data)
		if err != nil {
			return nil, err
		}
		d = append(d, bson.E{Key: e.Key(), Value: v})
	}
	return d, nil
}

// valueIn reads a well-formed value.
func valueIn(kind bson.Type, data []byte) (any, error) {
	switch kind {
	case bson.TypeEmbeddedDocument:
		return membersOf(data)
	case bson.TypeArray:
		d, err := membersOf(data)
		a := make(bson.A, 0, len(d))
		for _, e := range d {
			a = append(a, e.Value)
		}
		return a, err
	case bson.TypeNull:
		return nil, nil
	case bson.TypeInt32:
		return int32(binary.LittleEndian.Uint32(data)), nil
	case bson.TypeInt64:
		return int64(binary.LittleEndian.Uint64(data)), nil
	case bson.TypeDouble:
		return math.Float64frombits(binary.LittleEndian.Uint64(data)), nil
	case bson.TypeDateTime:
		return bson.DateTime(binary.LittleEndian.Uint64(data)), nil
	case bson.TypeDecimal128:
		return bson.NewDecimal128(binary.LittleEndian.Uint64(data[8:]), binary.LittleEndian.Uint64(data)), nil
	case bson.TypeBoolean:
		return data[0] == 1, nil
	case bson.TypeString:
		return string(data[4 : len(data)-1]), nil
	case bson.TypeObjectID:
		return bson.ObjectID(data), nil
	}
	var v any
	err := bson.RawValue{Type: kind, Value: data}.Unmarshal(&v)
	return v, err
}

// TestTreesAreTheDrivers compares the functions of this file with the driver's.
func TestTreesAreTheDrivers(t *testing.T) {
	s := newStream(t, rand.New(rand.NewPCG(1, 2)))
	for range 500 {
		d := append(s.next().fields, bson.D{
			{Key: "_id", Value: bson.ObjectID{1, 2}},
			{Key: "time", Value: bson.DateTime(s.random.Int64())},
			{Key: "binary", Value: bson.Binary{Subtype: byte(s.random.IntN(3)), Data: []byte("bytes")}},
			{Key: "regex", Value: bson.Regex{Pattern: "^a", Options: "i"}},
			{Key: "int", Value: s.random.IntN(9)},
			{Key: "raw", Value: rawOf(int32(7))},
		}...)
		want, err := bson.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if got := encode(t, d); string(got) != string(want) {
			t.Fatalf("%v is encoded as\n%x, want\n%x", d, got, want)
		}
		var back bson.D
		if err := bson.Unmarshal(want, &back); err != nil {
			t.Fatal(err)
		}
		again, err := bson.Marshal(decode(t, want))
		if err != nil || string(again) != string(want) {
			t.Fatalf("%x is decoded and encoded as\n%x (%v)", want, again, err)
		}
		if !equal(t, decode(t, want), back) || !equal(t, d, back) || !equalUnordered(t, d, sorted(back)) {
			t.Fatalf("%v is read as %v, want %v", want, decode(t, want), back)
		}
		i := s.random.IntN(len(back))
		if other := slices.Delete(slices.Clone(back), i, i+1); equalUnordered(t, d, other) || equal(t, other, d) {
			t.Fatalf("%v equals %v", d, other)
		}
		back[i].Value = bson.D{{Key: "other", Value: back[i].Value}}
		if equalUnordered(t, d, back) || equal(t, d, back) {
			t.Fatalf("%v equals %v", d, back)
		}
	}
}
