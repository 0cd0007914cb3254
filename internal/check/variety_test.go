package check

import (
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestMostVariedFieldsAreNamed(t *testing.T) {
	var metas []bson.RawValue
	for i := range 100 {
		raw, err := bson.Marshal(bson.D{
			{Key: "site", Value: "north"},
			{Key: "host", Value: bson.D{{Key: "name", Value: fmt.Sprint("h", i%7)}}},
			{Key: "session", Value: i},
			{Key: "rack", Value: i % 3},
		})
		if err != nil {
			t.Fatal(err)
		}
		metas = append(metas, bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: raw})
	}
	for want, metas := range map[string][]bson.RawValue{
		"session 100, host.name 7, rack 3 (of 100 series)": metas,
		"meta itself 2 (of 3 series)":                      {textMeta("a"), textMeta("b"), textMeta("a")},
		"nothing":                                          nil,
	} {
		if got := MostVaried(metas); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func textMeta(s string) bson.RawValue {
	kind, value, _ := bson.MarshalValue(s) // a string can always be encoded
	return bson.RawValue{Type: kind, Value: value}
}
