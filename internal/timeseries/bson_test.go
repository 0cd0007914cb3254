package timeseries

import (
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestNormalMetaSortsNamesAtEveryDepth(t *testing.T) {
	given := bson.D{
		{Key: "b", Value: 1},
		{Key: "a", Value: bson.A{bson.D{{Key: "z", Value: "x"}, {Key: "Y", Value: bson.D{{Key: "d", Value: 1}, {Key: "c", Value: nil}}}}, 5}},
	}
	want := bson.D{
		{Key: "a", Value: bson.A{bson.D{{Key: "Y", Value: bson.D{{Key: "c", Value: nil}, {Key: "d", Value: 1}}}, {Key: "z", Value: "x"}}, 5}},
		{Key: "b", Value: 1},
	}
	once := NormalMeta(value(t, given))
	if !slices.Equal(once.Value, value(t, want).Value) {
		t.Errorf("got %v, want %v", once, want)
	}
	if twice := NormalMeta(once); !slices.Equal(twice.Value, once.Value) {
		t.Errorf("twice gave %v", twice)
	}
	for _, plain := range []bson.RawValue{{}, value(t, "s-17"), {Type: bson.TypeNull}, {Type: bson.TypeEmbeddedDocument, Value: []byte{9}}} {
		if got := NormalMeta(plain); got.Type != plain.Type || !slices.Equal(got.Value, plain.Value) {
			t.Errorf("%v became %v", plain, got)
		}
	}
}
