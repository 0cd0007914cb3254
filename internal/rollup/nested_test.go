package rollup

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// nestedRows returns rows of the first two hours of a day. The second hour and the day have no row of their own level.
func nestedRows(t *testing.T) (NestedRows, int64) {
	t.Helper()
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	rules := &Rules{}
	rows := NestedRows{}
	row := func(level string, at int64, values ...float64) {
		w := rules.NewRow(at)
		for _, v := range values {
			w.Add(marshal(t, bson.D{{Key: "celsius", Value: v}, {Key: "wind", Value: bson.D{{Key: "speed", Value: int32(2)}}}, {Key: "hours", Value: 1}}))
		}
		rows[level] = append(rows[level], Stored{Time: at, Fields: w.Document()})
	}
	row(Minute, from, 1, 2)
	row(Minute, from+60_000, 3)
	row(Hour, from, 1, 2, 3)
	row(Minute, from+hourMs, 4)
	row(Minute, from+hourMs, 0.5) // a second row of the same window, as after update-meta
	return rows, from
}

func marshal(t *testing.T, v any) bson.Raw {
	t.Helper()
	raw, err := bson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestNestedDay checks that the totals of a window come from the row of its own level, or else from folds of the levels below.
// Fields with the names of the lists are left out.
func TestNestedDay(t *testing.T) {
	rows, from := nestedRows(t)
	rules := map[string]*Rules{Minute: {}, Hour: {}, Day: {}}
	for _, c := range []struct {
		aggregations []Aggregation
		limit        int
		want         string
	}{
		{[]Aggregation{Sum}, 1 << 20, `{"date":{"$date":"2026-03-01T00:00:00Z"},"count":5,"celsius":10.5,"wind":{"speed":10},"hours":[` +
			`{"date":{"$date":"2026-03-01T00:00:00Z"},"count":3,"celsius":6.0,"wind":{"speed":6},"minutes":[` +
			`{"date":{"$date":"2026-03-01T00:00:00Z"},"count":2,"celsius":3.0,"wind":{"speed":4}},{"date":{"$date":"2026-03-01T00:01:00Z"},"count":1,"celsius":3.0,"wind":{"speed":2}}]},` +
			`{"date":{"$date":"2026-03-01T01:00:00Z"},"count":2,"celsius":4.5,"wind":{"speed":4},"minutes":[{"date":{"$date":"2026-03-01T01:00:00Z"},"count":2,"celsius":4.5,"wind":{"speed":4}}]}]}`},
		{[]Aggregation{Max, Count}, 400, `{"date":{"$date":"2026-03-01T00:00:00Z"},"count":5,"celsius":{"max":4.0,"count":5},"wind":{"speed":{"max":2,"count":5}},"hours":[` +
			`{"date":{"$date":"2026-03-01T00:00:00Z"},"count":3,"celsius":{"max":3.0,"count":3},"wind":{"speed":{"max":2,"count":3}}},` +
			`{"date":{"$date":"2026-03-01T01:00:00Z"},"count":2,"celsius":{"max":4.0,"count":2},"wind":{"speed":{"max":2,"count":2}}}]}`},
		{nil, 1, `{"date":{"$date":"2026-03-01T00:00:00Z"},"count":5,"celsius":{"n":5,"sum":10.5,"min":0.5,"max":4.0,"first":1.0,"last":0.5},` +
			`"wind":{"speed":{"n":5,"sum":10,"min":2,"max":2,"first":2,"last":2}}}`},
	} {
		f := NestedForm{Aggregations: c.aggregations, Rules: rules, Limit: c.limit}
		text, err := bson.MarshalExtJSON(f.Day(from, rows), false, false)
		if err != nil || string(text) != c.want {
			t.Errorf("%v, at most %d: %v\n got %s\nwant %s", c.aggregations, c.limit, err, text, c.want)
		}
	}
	f := NestedForm{Rules: rules, Limit: 1 << 20}
	if day := f.Day(from+dayMs, rows); day != nil {
		t.Errorf("a day without rows is %s", day)
	}
}

func TestNestedDocumentHasTheFieldsOfTheMeta(t *testing.T) {
	for _, c := range []struct {
		meta any
		name string
		cut  bool
		want string
	}{
		{bson.D{{Key: "sensor", Value: "s-17"}, {Key: "site", Value: "north"}}, "meta", false, `"sensor":"s-17","site":"north","rev":2`},
		{"s-17", "tags", true, `"tags":"s-17","rev":2,"cut":true`},
		{bson.D{{Key: "date", Value: "x"}}, "tags", false, `"tags":{"date":"x"},"rev":2`},
		{"s-17", "days", false, `"meta":"s-17","rev":2`},
		{nil, "meta", false, `"rev":2`},
	} {
		f := NestedForm{Series: "m", MetaField: c.name}
		d := NestedDocument{Date: 0, Revision: 2, Cut: c.cut}
		if c.meta != nil {
			d.Meta = marshal(t, bson.D{{Key: "m", Value: c.meta}}).Lookup("m")
		}
		text, err := bson.MarshalExtJSON(f.Encode(d, []bson.Raw{marshal(t, bson.D{{Key: "date", Value: 1}})}), false, false)
		want := `{"_id":{"$oid":"000000000000000000000000"},"date":{"$date":"1970-01-01T00:00:00Z"},` + c.want + `,"days":[{"date":1}]}`
		if err != nil || string(text) != want {
			t.Errorf("%v: %v\n got %s\nwant %s", c.meta, err, text, want)
		}
	}
	one, other := NestedForm{Series: "a"}, NestedForm{Series: "b"}
	ids := map[bson.ObjectID]bool{}
	for _, f := range []*NestedForm{&one, &other} {
		for _, meta := range []bson.RawValue{{}, {Type: bson.TypeNull}} {
			for _, from := range []int64{0, 31 * dayMs} {
				ids[f.ID(meta, from, false)], ids[f.ID(meta, from, true)] = true, true
			}
		}
	}
	if len(ids) != 16 {
		t.Errorf("%d _ids of 16 documents", len(ids))
	}
}
