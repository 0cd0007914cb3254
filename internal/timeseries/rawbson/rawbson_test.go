package rawbson

import (
	"bytes"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// everyType has a value of each type of BSON.
func everyType(t testing.TB) bson.Raw {
	t.Helper()
	raw, err := bson.Marshal(bson.D{
		{Key: "double", Value: 1.5},
		{Key: "string", Value: "é"},
		{Key: "object", Value: bson.D{{Key: "a", Value: bson.D{}}}},
		{Key: "array", Value: bson.A{1, "x"}},
		{Key: "binary", Value: bson.Binary{Data: []byte{1, 2}}},
		{Key: "undefined", Value: bson.Undefined{}},
		{Key: "oid", Value: bson.ObjectID{1}},
		{Key: "bool", Value: true},
		{Key: "date", Value: bson.DateTime(5)},
		{Key: "null", Value: nil},
		{Key: "regex", Value: bson.Regex{Pattern: "a", Options: "i"}},
		{Key: "pointer", Value: bson.DBPointer{DB: "n"}},
		{Key: "code", Value: bson.JavaScript("f()")},
		{Key: "symbol", Value: bson.Symbol("s")},
		{Key: "scoped", Value: bson.CodeWithScope{Code: "g()", Scope: bson.D{{Key: "z", Value: 1}}}},
		{Key: "int32", Value: int32(5)},
		{Key: "timestamp", Value: bson.Timestamp{T: 1}},
		{Key: "int64", Value: int64(5)},
		{Key: "decimal", Value: bson.Decimal128{}},
		{Key: "min", Value: bson.MinKey{}},
		{Key: "max", Value: bson.MaxKey{}},
		{Key: "", Value: ""},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestReadAsTheDriver reads each type, whole and cut anywhere, and puts the document together again.
func TestReadAsTheDriver(t *testing.T) {
	raw := everyType(t)
	again := make([]byte, 4)
	for list := Content(raw); len(list) > 0; {
		e, rest, ok := Read(list)
		want, after, _ := bsoncore.ReadElement(list)
		if !ok || e.Kind != bson.Type(want.Value().Type) || string(e.Name) != want.Key() || !bytes.Equal(e.Value, want.Value().Data) || len(rest) != len(after) {
			t.Fatalf("read is %+v, the driver has %v", e, want)
		}
		var same Element
		if left := same.Cut(list); len(left) != len(rest) || same.Kind != e.Kind || !bytes.Equal(same.Name, e.Name) || !bytes.Equal(same.Value, e.Value) {
			t.Errorf("cut is %+v, read %+v", same, e)
		}
		for n := range len(list) - len(rest) {
			if cut, _, ok := Read(list[:n]); ok {
				t.Errorf("%s, cut after %d bytes, is read as %+v", e.Name, n, cut)
			}
		}
		again = AppendElement(again, e.Kind, e.Name, e.Value)
		list = rest
	}
	if again = EndDocument(again, 0); !bytes.Equal(again, raw) {
		t.Errorf("%v is put together as %v", raw, bson.Raw(again))
	}
}

func TestMalformedSizes(t *testing.T) {
	for name, c := range map[string]struct {
		kind  bson.Type
		bytes []byte
	}{
		"unknown type":              {99, []byte{0, 0, 0, 0, 0}},
		"negative length":           {bson.TypeBinary, []byte{0xff, 0xff, 0xff, 0xff, 0}},
		"string without NUL":        {bson.TypeString, []byte{2, 0, 0, 0, 'a', 'b'}},
		"string of no bytes":        {bson.TypeString, []byte{0, 0, 0, 0}},
		"document too short":        {bson.TypeArray, []byte{4, 0, 0, 0, 0}},
		"document without end":      {bson.TypeEmbeddedDocument, []byte{5, 0, 0, 0, 1}},
		"regex of one text":         {bson.TypeRegex, []byte("a\x00b")},
		"scope longer than told":    {bson.TypeCodeWithScope, []byte{14, 0, 0, 0, 1, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0}},
		"code longer than its code": {bson.TypeCodeWithScope, []byte{14, 0, 0, 0, 9, 0, 0, 0, 0, 5, 0, 0, 0, 0}},
	} {
		if n := Size(c.kind, c.bytes); n >= 0 && n <= len(c.bytes) {
			t.Errorf("%s: its size is %d", name, n)
		}
	}
}
