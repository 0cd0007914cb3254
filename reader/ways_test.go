package reader

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// selection is a filter on metas, and the condition it stands for.
type selection struct {
	name   string
	filter any
	takes  func(meta bson.RawValue) bool
}

// selections returns filters of every kind, on the metas of stringMetas and on plain ones.
func selections() []selection {
	sensor := func(meta bson.RawValue) string {
		if meta.Type != bson.TypeEmbeddedDocument {
			return ""
		}
		text, _ := meta.Document().Lookup("sensor").StringValueOK()
		return text
	}
	equal := func(v any) func(bson.RawValue) bool {
		return func(meta bson.RawValue) bool { return timeseries.Compare(orNull(meta), orNull(valueOf(v))) == 0 }
	}
	s1 := bson.D{{Key: "sensor", Value: "s-1"}}
	number := func(meta bson.RawValue) float64 { // a missing number is below all
		if meta.Type == bson.TypeEmbeddedDocument {
			if n, ok := meta.Document().Lookup("n").AsFloat64OK(); ok && n == n {
				return n
			}
		}
		return math.Inf(-1)
	}
	tagged := func(meta bson.RawValue, tag string) bool {
		if meta.Type != bson.TypeEmbeddedDocument {
			return false
		}
		tags, _ := meta.Document().Lookup("tags").ArrayOK()
		values, _ := tags.Values()
		return slices.ContainsFunc(values, func(v bson.RawValue) bool { return v.StringValue() == tag })
	}
	zoned := func(meta bson.RawValue, is func(float64) bool) bool {
		if meta.Type != bson.TypeEmbeddedDocument {
			return false
		}
		zones, _ := meta.Document().Lookup("zones").ArrayOK()
		values, _ := zones.Values()
		return slices.ContainsFunc(values, func(v bson.RawValue) bool { n, ok := v.AsFloat64OK(); return ok && is(n) })
	}
	return []selection{
		{"all", nil, func(bson.RawValue) bool { return true }},
		{"whole object", bson.D{{Key: "m", Value: s1}}, equal(s1)},
		{"whole text", bson.D{{Key: "m", Value: bson.D{{Key: "$eq", Value: "plain"}}}}, equal("plain")},
		{"whole number", bson.D{{Key: "m", Value: 5.0}}, equal(5)},
		{"whole null", bson.D{{Key: "m", Value: nil}}, equal(bson.RawValue{Type: bson.TypeNull})},
		{"none", bson.D{{Key: "m", Value: bson.D{{Key: "$exists", Value: false}}}}, func(meta bson.RawValue) bool { return meta.Type == 0 }},
		{"unknown", bson.D{{Key: "m", Value: "unknown"}}, func(bson.RawValue) bool { return false }},
		{"equal part", bson.D{{Key: "m.sensor", Value: "s-2"}}, func(meta bson.RawValue) bool { return sensor(meta) == "s-2" }},
		{"part", bson.D{{Key: "m.sensor", Value: bson.D{{Key: "$gte", Value: "s-1"}}}}, func(meta bson.RawValue) bool { return sensor(meta) >= "s-1" }},
		{"not a part", bson.D{{Key: "m.sensor", Value: bson.D{{Key: "$ne", Value: "s-1"}}}}, func(meta bson.RawValue) bool { return sensor(meta) != "s-1" }},
		{"equal number", bson.D{{Key: "m.n", Value: int64(7)}}, func(meta bson.RawValue) bool { return number(meta) == 7 }},
		{"a small number", bson.D{{Key: "m.n", Value: bson.D{{Key: "$lt", Value: 7}}}}, func(meta bson.RawValue) bool { return number(meta) == 2.5 }},
		{"a large number", bson.D{{Key: "m.n", Value: bson.D{{Key: "$gt", Value: 2.5}}}}, func(meta bson.RawValue) bool { return number(meta) > 2.5 }},
		{"some numbers", bson.D{{Key: "m.n", Value: bson.D{{Key: "$in", Value: bson.A{7.0, 2.5}}}}}, func(meta bson.RawValue) bool {
			return number(meta) == 7 || number(meta) == 2.5
		}},
		{"tag", bson.D{{Key: "m.tags", Value: "a"}}, func(meta bson.RawValue) bool { return tagged(meta, "a") }},
		{"an element", bson.D{{Key: "m.zones", Value: 3}}, func(meta bson.RawValue) bool { return zoned(meta, func(n float64) bool { return n == 3 }) }},
		{"a small element", bson.D{{Key: "m.zones", Value: bson.D{{Key: "$lt", Value: 5}}}}, func(meta bson.RawValue) bool {
			return zoned(meta, func(n float64) bool { return n < 5 })
		}},
		{"some elements", bson.D{{Key: "m.zones", Value: bson.D{{Key: "$in", Value: bson.A{4, 7.0}}}}}, func(meta bson.RawValue) bool {
			return zoned(meta, func(n float64) bool { return n == 4 || n == 7 })
		}},
		{"two conditions", bson.D{{Key: "$and", Value: bson.A{bson.D{{Key: "m.sensor", Value: "s-2"}}, bson.D{{Key: "m.n", Value: bson.D{{Key: "$exists", Value: true}}}}}}}, func(meta bson.RawValue) bool {
			return sensor(meta) == "s-2" && meta.Document().Lookup("n").Type != 0
		}},
		{"an equal part beside either", bson.D{
			{Key: "m.sensor", Value: "s-1"}, {Key: "$or", Value: bson.A{bson.D{{Key: "m.n", Value: 5}}, bson.D{{Key: "m.n", Value: 9}}}},
		}, func(meta bson.RawValue) bool { return sensor(meta) == "s-1" && number(meta) == 9 }},
		{"two equal parts", bson.D{{Key: "m.sensor", Value: "s-1"}, {Key: "m.n", Value: 9.0}}, func(meta bson.RawValue) bool {
			return sensor(meta) == "s-1" && number(meta) == 9
		}},
		{"either", bson.D{{Key: "$or", Value: bson.A{bson.D{{Key: "m", Value: "plain"}}, bson.D{{Key: "m.sensor", Value: "s-0"}}}}}, func(meta bson.RawValue) bool {
			return sensor(meta) == "s-0" || equal("plain")(meta)
		}},
	}
}

// segmentMetas returns metas of which MongoDB considers no two equal.
func segmentMetas() []bson.RawValue {
	nan := math.Float64frombits(0x7ff8000000000000) // as an index returns any NaN
	return append(stringMetas(4), valueOf("plain"), valueOf(int32(5)), valueOf(int64(1)), bson.RawValue{},
		valueOf(bson.D{{Key: "n", Value: 2.5}, {Key: "tags", Value: bson.A{"a", "c"}}}),
		valueOf(bson.D{{Key: "n", Value: nan}, {Key: "tags", Value: bson.A{"b"}}}),
		valueOf(bson.D{{Key: "n", Value: int32(7)}, {Key: "tags", Value: bson.A{"c", "a"}}}),
		valueOf(bson.D{{Key: "n", Value: nan}, {Key: "sensor", Value: "s-2"}}),
		valueOf(bson.D{{Key: "n", Value: int32(9)}, {Key: "sensor", Value: "s-1"}}),
		valueOf(bson.D{{Key: "zones", Value: bson.A{3, 7}}}))
}

// randomQuery returns a query, and the measurements that it selects.
func (w *world) randomQuery(about int64) (q Query, name string, selected []fact) {
	all := selections()
	s := all[w.random.IntN(len(all))]
	q = Query{Meta: s.filter, Newest: w.random.IntN(3) == 0}
	first, last := int64(math.MinInt64), int64(math.MaxInt64)
	if w.random.IntN(3) == 0 {
		first = about + w.random.Int64N(testOptions.Span()*4)
		q.From = time.UnixMilli(first)
	}
	if w.random.IntN(3) == 0 {
		last = max(first, about) + w.random.Int64N(testOptions.Span()*2)
		q.To = time.UnixMilli(last + 1)
	}
	for _, f := range w.facts {
		if s.takes(f.meta) && f.time >= first && f.time <= last {
			selected = append(selected, f)
		}
	}
	return q, s.name, selected
}

// newestOf returns the newest measurement of each series.
func newestOf(list []fact) (newest []fact) {
	for _, f := range list {
		i := slices.IndexFunc(newest, func(g fact) bool { return f.meta.Equal(g.meta) })
		if i < 0 {
			newest = append(newest, f)
		} else if f.compare(newest[i]) > 0 {
			newest[i] = f
		}
	}
	return newest
}

// metasOf returns the series of measurements.
func metasOf(list []fact) (metas []string) {
	newest := newestOf(list)
	slices.SortFunc(newest, func(f, g fact) int { return timeseries.Compare(orNull(f.meta), orNull(g.meta)) })
	for _, f := range newest {
		metas = append(metas, timeseries.Key(f.meta))
	}
	return metas
}

// checkWays compares every way of reading with the model.
func (w *world) checkWays(t *testing.T, s *Series, about int64) {
	t.Helper()
	q, name, selected := w.randomQuery(about)
	want := texts(selected, math.MinInt64, math.MaxInt64, q.Newest)
	w.asked = 0
	if got, err := facts(s.Find(t.Context(), q)); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%s, %+v: %v\n got %d\nwant %d\n%s", name, q, err, len(got), len(want), cmp.Diff(want, got))
	}
	if w.asked != 1 && w.fail == nil {
		t.Fatalf("it asked for the time %d times", w.asked)
	}
	if limit := w.random.IntN(10); limit > 0 {
		few := q
		few.Limit = int64(limit)
		want := want[:min(len(want), limit)]
		if got, err := facts(s.Find(t.Context(), few)); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s, %+v: %v\n%s", name, few, err, cmp.Diff(want, got))
		}
	}
	want = texts(newestOf(selected), math.MinInt64, math.MaxInt64, false)
	if got, err := facts(s.Latest(t.Context(), q)); err != nil || !slices.Equal(got, want) {
		t.Fatalf("the newest: %s, %+v: %v\n%s", name, q, err, cmp.Diff(want, got))
	}
	// For buckets, Series uses the bounds of their times.
	var metas []string
	for meta, err := range s.Series(t.Context(), Query{Meta: q.Meta}) {
		if err != nil {
			t.Fatal(err)
		}
		metas = append(metas, timeseries.Key(meta))
	}
	all := w.facts
	if !q.From.IsZero() || !q.To.IsZero() {
		for _, s := range selections() {
			if s.name == name {
				all = slices.DeleteFunc(slices.Clone(all), func(f fact) bool { return !s.takes(f.meta) })
			}
		}
	} else {
		all = selected
	}
	if want := metasOf(all); !slices.Equal(metas, want) {
		t.Fatalf("the series: %s, %+v: got %q, want %q", name, q, metas, want)
	}
}
