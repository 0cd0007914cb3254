package measurement

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestNormalMetaIsWhatRecordsBring checks that an updated meta names the series into which records with this meta are stored.
func TestNormalMetaIsWhatRecordsBring(t *testing.T) {
	d := newDecoder(t, plainOptions)
	for _, meta := range []string{`{"b": 1, "a": {"z": [{"d": 1, "c": 2}], "Z": null}}`, `"x"`, `null`, `[{"b": 1, "a": 2}]`, `{}`} {
		var written bson.Raw
		if err := bson.UnmarshalExtJSON([]byte(`{"m": `+meta+`}`), false, &written); err != nil {
			t.Fatal(err)
		}
		got, err := NormalMeta(written.Lookup("m"))
		want := decodeOne(t, d, recordOf(`{"time": 1700000000, "meta": `+meta+`}`)).Meta
		if err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v, want %v", meta, got, err, want)
		}
	}
	if none, err := NormalMeta(bson.RawValue{}); err != nil || none.Type != 0 {
		t.Errorf("no meta: %v, %v", none, err)
	}
}

func TestNormalMetaRefusesWhatRecordsMayNotBring(t *testing.T) {
	for want, meta := range map[Reason]any{
		BadMeta:      bson.Regex{Pattern: "x"},
		BadFieldName: bson.D{{Key: "a.b", Value: 1}},
	} {
		written, err := bson.Marshal(bson.D{{Key: "m", Value: bson.D{{Key: "in", Value: meta}}}})
		if err != nil {
			t.Fatal(err)
		}
		refused := (*DecodeError)(nil)
		if _, err := NormalMeta(bson.Raw(written).Lookup("m")); !errors.As(err, &refused) || refused.Reason != want || !strings.HasPrefix(refused.Path, "in") {
			t.Errorf("%v: %v, want %s", meta, err, want)
		}
	}
	long, err := bson.Marshal(bson.D{{Key: "m", Value: strings.Repeat("x", maxMetaBytes)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NormalMeta(bson.Raw(long).Lookup("m")); err == nil || !strings.Contains(err.Error(), "more than 8192") {
		t.Errorf("a long one: %v", err)
	}
}
