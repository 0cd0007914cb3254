package bucketer

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// staging makes a catalog write measurements into segments, and returns the segments.
func staging(t *testing.T, o Options, all []reading) []*Write {
	t.Helper()
	c := New(o)
	for _, r := range all {
		if err := c.Insert(r.measurement(t)); err != nil {
			t.Fatal(err)
		}
	}
	f := c.Prepare(0)
	for _, w := range f.Writes {
		if !w.Segment {
			t.Fatalf("%v is no segment", w.Document)
		}
	}
	return f.Writes
}

// scattered returns measurements of some series, with times spread over hours hours.
func scattered(random *rand.Rand, series, each, hours int) (all []reading) {
	for n := range series * each {
		meta, value, err := bson.MarshalValue(fmt.Sprintf("sensor-%d", n%series))
		if err != nil {
			panic(err)
		}
		all = append(all, reading{
			position: timeseries.Position{Offset: int64(n)}, time: 1_700_000_000_000 + random.Int64N(int64(hours)*3_600_000),
			series: string(append([]byte{byte(meta)}, value...)), fields: bson.D{{Key: "a", Value: int64(n)}},
		})
	}
	return all
}

// unpacked returns the measurements in documents, ordered by offset.
func unpacked(t *testing.T, o Options, documents []bson.Raw, each func(document bson.Raw, m *timeseries.Unpacked)) (all []reading) {
	t.Helper()
	u := timeseries.NewUnpacker(o.Collection)
	for _, d := range documents {
		if err := u.Reset(d); err != nil {
			t.Fatal(err)
		}
		for m := (timeseries.Unpacked{}); u.Next(&m); {
			each(d, &m)
			var fields bson.D
			if err := bson.Unmarshal(m.Fields, &fields); err != nil {
				t.Fatal(err)
			}
			all = append(all, reading{m.Position, m.Time, string(append([]byte{byte(m.Meta.Type)}, m.Meta.Value...)), fields})
		}
		if err := u.Err(); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(all, func(a, b reading) int { return cmp.Compare(a.position.Offset, b.position.Offset) })
	return all
}

// blooms returns the names of the Bloom filters in control.segment.
func blooms(segment bson.Raw) (names []string) {
	elements, _ := segment.Elements()
	for _, e := range elements {
		if strings.HasPrefix(e.Key(), timeseries.FieldBloom) {
			names = append(names, e.Key())
		}
	}
	return names
}

// TestSegments checks that segments hold the inserted measurements. Each covers one span of time and adjacent series, and there
// are few per span. The buckets made of them hold the same measurements.
func TestSegments(t *testing.T) {
	for name, c := range map[string]struct{ series, each, hours, most int }{
		"live":           {2000, 2, 1, 4000 / 25},
		"one series":     {1, 50, 1, 2},
		"few of each":    {20, 3, 1, 3},
		"a backfill":     {2000, 5, 24, 24 * (1 + 10000/24/32)},
		"a large one":    {100, 50, 300, 301},
		"each of a time": {40, 1, 100_000, 40},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t)
			o.DenseFrom, o.SegmentRows = 64, 100
			all := scattered(rand.New(rand.NewPCG(1, 2)), c.series, c.each, c.hours)
			var documents []bson.Raw
			writes := staging(t, o, all)
			for _, w := range writes {
				documents = append(documents, w.Document)
			}
			if len(writes) > c.most {
				t.Errorf("%d segments, want at most %d", len(writes), c.most)
			}
			same := func(of string, got []reading) {
				t.Helper()
				if !slices.EqualFunc(got, all, func(a, b reading) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
					t.Errorf("%s do not hold what was inserted: %d of %d measurements", of, len(got), len(all))
				}
			}
			same("segments", unpacked(t, o, documents, func(d bson.Raw, m *timeseries.Unpacked) {
				low, high := binaryAt(d, "low"), binaryAt(d, "high")
				if at := "\x02" + m.Meta.StringValue() + "\x00"; at < low || at > high {
					t.Errorf("%s in a segment of %q to %q", m.Meta, low, high)
				}
				var entries timeseries.Bloom
				entries.Add(nil, m.Meta)
				if about := d.Lookup("control", "segment").Document(); len(blooms(about)) != 1 || entries.Lacks(about) != "" {
					t.Errorf("the Bloom filters %v, of a segment with %s", blooms(about), m.Meta)
				}
				if n := d.Lookup("control", "count").Int32(); n > 100 {
					t.Errorf("%d measurements in a segment", n)
				}
				if first := d.Lookup("control", "min", "time").DateTime(); m.Time < first || m.Time-first >= o.Collection.Span() {
					t.Errorf("a measurement of %d in a segment from %d on", m.Time, first)
				}
			}))
			flush, err := Compact(o, CompactionMark{ID: [16]byte{1}, VisibleFrom: 5}, documents)
			if err != nil {
				t.Fatal(err)
			}
			documents = documents[:0]
			for _, w := range flush.Writes {
				documents = append(documents, w.Document)
			}
			before := map[string]int64{} // time of the previous measurement, by bucket
			same("buckets", unpacked(t, o, documents, func(d bson.Raw, m *timeseries.Unpacked) {
				id := d.Lookup("_id").String()
				if m.Time < before[id] || !d.Lookup("control", "closed").Boolean() || d.Lookup("control", "compaction", "visibleFrom").DateTime() != 5 {
					t.Errorf("the bucket %v", d)
				}
				before[id] = m.Time
			}))
		})
	}
}

// TestASegmentBeginsWithItsOwnEarliestMeasurement checks this even if earlier measurements were flushed with it. Queries for
// earlier times can therefore skip it.
func TestASegmentBeginsWithItsOwnEarliestMeasurement(t *testing.T) {
	o := testOptions(t)
	o.DenseFrom = 64
	later := 0
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		all := scattered(random, 200, 1, 1+random.IntN(3))
		for i := range all[:50] { // of another type, so they are in segments of their own
			all[i].fields[0].Value = "off"
		}
		writes := staging(t, o, all)
		first := slices.MinFunc(writes, func(a, b *Write) int { return cmp.Compare(a.MinTime, b.MinTime) }).MinTime
		for _, w := range writes {
			earliest := int64(1 << 62)
			unpacked(t, o, []bson.Raw{w.Document}, func(_ bson.Raw, m *timeseries.Unpacked) { earliest = min(earliest, m.Time) })
			want := o.Collection.Round(earliest)
			if got := w.Document.Lookup("control", "min", "time").DateTime(); got != want || w.MinTime != want || !timeseries.IDFits(w.ID, want) {
				t.Errorf("seed %d: a segment of %s begins at %d, want %d", seed, w.ID.Hex(), got, want)
			}
			if want > first {
				later++
			}
		}
	}
	if later == 0 {
		t.Error("all segments begin at the same time: this proves nothing")
	}
}
