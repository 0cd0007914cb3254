package rollup

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestDefinitionOfRollups(t *testing.T) {
	since := time.UnixMilli(1_772_000_000_000).UTC()
	want := Definition{ID: DefinitionID, Levels: []DefinedLevel{{Name: Minute, Count: "count"}, {Name: Hour, Count: "n", Fields: []string{"a*"}, Since: &since}}}
	raw, err := bson.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadDefinition(raw)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("came back with %v, differs: %s", err, diff)
	}
	if none, err := ReadDefinition(nil); err != nil || len(none.Levels) > 0 {
		t.Errorf("no document is %v, %v", none, err)
	}
	if l, ok := got.Level(Hour); !ok || l.Rules().CountField() != "n" || l.Rules().Fields.Match("b") {
		t.Errorf("the level of hours is %v, %v", l, ok)
	}
	if _, ok := got.Level(Day); ok {
		t.Error("there is a level of days")
	}
	for _, text := range []string{`{"levels": 5}`, `{"levels": [{"name": "5m"}]}`} {
		if _, err := ReadDefinition(fieldsOf(t, text)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

func TestClaimLowersTheWatermark(t *testing.T) {
	a, b := [16]byte{1}, [16]byte{2}
	at := time.UnixMilli(5000).UTC()
	mark := func(id [16]byte, below int64, at *time.Time) Watermark {
		w := NewWatermark(id, below)
		w.At = at
		return w
	}
	for _, c := range []struct {
		name       string
		list, want []Watermark
		start      int64
	}{
		{"the first claim", nil, []Watermark{mark(a, 7, nil)}, 7},
		{"a later claim", []Watermark{mark(a, 5, &at)}, []Watermark{mark(a, 5, &at)}, 7},
		{"a reset backwards", []Watermark{mark(a, 9, &at)}, []Watermark{mark(a, 7, &at)}, 7},
		{"the topic was made again", []Watermark{mark(b, 9, &at)}, []Watermark{mark(b, 9, &at), mark(a, 0, nil)}, 0},
	} {
		raw, err := bson.Marshal(bson.D{{Key: FieldWatermarks, Value: Lowered(c.list, a, c.start)}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, Watermarks(raw)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	damaged := fieldsOf(t, `{"rollup": [5, {"below": 3}, {"topicId": {"$binary": {"base64": "AAAA", "subType": "04"}}, "below": 3}]}`)
	if list := Watermarks(damaged); len(list) > 0 {
		t.Errorf("damaged watermarks are read as %v", list)
	}
	if list := Watermarks(fieldsOf(t, `{"rollup": 5}`)); list != nil {
		t.Errorf("a number is read as %v", list)
	}
}
