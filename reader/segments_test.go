package reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// TestEachMeasurementComesOnce covers measurements in a bucket, in a segment or in both, shown or not.
func TestEachMeasurementComesOnce(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 8))
		about := []int64{0, -5e12, 1.7e12}[random.IntN(3)]
		w := newWorld(random, segmentMetas()[random.IntN(4):][:1+random.IntN(11)], about, 1+random.IntN(200))
		w.plain, w.bitless = random.IntN(3) == 0, random.IntN(3) == 0
		s := newSeries("s", "db.s.buckets", testOptions, w)
		for range 3 {
			w.checkWays(t, s, about)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestWhatIsCompactedWhileReadingComesOnce has compactions that continue, or are rolled back, between any two steps of a read.
func TestWhatIsCompactedWhileReadingComesOnce(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 9))
		w := newWorld(random, segmentMetas()[random.IntN(4):][:1+random.IntN(11)], 0, 1+random.IntN(200))
		steps := 0
		w.before = func() {
			if steps++; random.IntN(2) == 0 {
				w.goOn()
			}
		}
		s := newSeries("s", "db.s.buckets", testOptions, w)
		w.checkWays(t, s, 0)
		if steps == 0 {
			t.Errorf("seed %d: nothing was asked for", seed)
		}
	}
}

// TestSegmentsAreReadOnAfterFailures checks that nothing is lost, doubled or out of order after any failure.
func TestSegmentsAreReadOnAfterFailures(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 10))
			w := newWorld(random, segmentMetas()[random.IntN(4):][:1+random.IntN(11)], 0, 1+random.IntN(200))
			// Each failure costs a pause of up to three seconds. All together take less time than the reader waits, because a listing
			// is read in one go, and each try may fail somewhere.
			down, outages, failures := time.Time{}, 2, 8
			w.fail = func() error {
				switch {
				case time.Now().Before(down):
					return io.ErrUnexpectedEOF
				case failures == 0 || random.IntN(40) > 0:
					return nil
				case random.IntN(4) == 0 && outages > 0:
					down = time.Now().Add(time.Duration(random.IntN(12)) * time.Second)
					outages--
				}
				failures--
				return io.ErrUnexpectedEOF
			}
			started, clock := time.Now(), w.clock
			w.before = func() {
				if passed := time.Since(started); w.clock.Before(clock.Add(passed)) {
					w.clock = clock.Add(passed)
					w.goOn()
				}
			}
			s := newSeries("s", "db.s.buckets", testOptions, w)
			q, name, selected := w.randomQuery(0)
			want := texts(selected, math.MinInt64, math.MaxInt64, q.Newest)
			if got, err := facts(s.Find(t.Context(), q)); err != nil || !slices.Equal(got, want) {
				t.Fatalf("seed %d: %s, %+v: %v\n%s", seed, name, q, err, cmp.Diff(want, got))
			}
		})
	}
}

// TestSegmentsAreReadAnewAfterLongOutages checks that the buckets of ended segments are read instead, because those are deleted
// soon.
func TestSegmentsAreReadAnewAfterLongOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{fake: &fake{segments: true, clock: time.UnixMilli(1.8e12)}, random: rand.New(rand.NewPCG(1, 13))}
		s := &compaction{at: w.clock.Add(ahead)}
		for i := range 3 {
			f := fact{meta: valueOf("a"), time: int64(i) * 1000, at: timeseries.Position{Offset: int64(i)}, fields: bson.D{}}
			w.facts = append(w.facts, f)
			s.segments, s.buckets = append(s.segments, segmentOf(testOptions, f)), append(s.buckets, bucketOf(testOptions, f))
		}
		w.compactions = append(w.compactions, s)
		w.show()
		began, answers := time.Now(), 0
		w.fail = func() error {
			answers++
			switch passed := time.Since(began); {
			case passed < 40*time.Second && answers <= 4: // the definition, the time, the query, a segment
				return nil
			case passed >= 40*time.Second && passed < 80*time.Second && answers <= 4+3: // the query, the same segment, another one
				return nil
			case passed >= 80*time.Second:
				w.clock = s.at.Add(kept + time.Minute)
				return nil
			}
			answers--
			return io.ErrUnexpectedEOF
		}
		w.before = func() {
			if w.clock.After(s.at) {
				s.stage = forgotten
				w.show()
			}
		}
		got, err := facts(newSeries("s", "db.s.buckets", testOptions, w).Find(t.Context(), Query{Meta: bson.D{{Key: "m", Value: "a"}}}))
		if want := texts(w.facts, math.MinInt64, math.MaxInt64, false); err != nil || !slices.Equal(got, want) || w.asked < 2 {
			t.Errorf("%v, asked for the time %d times\n%s", err, w.asked, cmp.Diff(want, got))
		}
	})
}

// TestEqualMetasInSegments checks that a query selects all metas that MongoDB considers equal, in buckets and in segments.
func TestEqualMetasInSegments(t *testing.T) {
	metas := append(segmentMetas(), valueOf(5.0), valueOf(int64(5)), bson.RawValue{Type: bson.TypeNull}, valueOf(1.0))
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 11))
		w := newWorld(random, metas, 0, 1+random.IntN(200))
		s := newSeries("s", "db.s.buckets", testOptions, w)
		q, name, selected := w.randomQuery(0)
		if name == "none" {
			continue // buckets return null too
		}
		want := texts(selected, math.MinInt64, math.MaxInt64, q.Newest)
		got, err := facts(s.Find(t.Context(), q))
		slices.Sort(got)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("seed %d: %s, %+v: %v\n%s", seed, name, q, err, cmp.Diff(want, got))
		}
	}
}

// TestSegmentsAreAskedForByBounds checks that segments with metas outside of the query are not sent, and that simple filters need
// one request.
func TestSegmentsAreAskedForByBounds(t *testing.T) {
	f := &fake{segments: true, clock: time.UnixMilli(1.8e12)}
	var buckets []bson.Raw
	for i := range 50 {
		var list []fact
		for k := range 4 {
			meta := bson.D{{Key: "n", Value: int32(4*i + k)}, {Key: "sensor", Value: fmt.Sprintf("s-%03d", 4*i+k)}}
			list = append(list, fact{meta: valueOf(meta), time: int64(i) * 1000, fields: bson.D{}})
		}
		buckets = append(buckets, segmentOf(testOptions, list...))
	}
	f.buckets = append(buckets, segmentOf(testOptions, fact{meta: valueOf("s-017"), fields: bson.D{}}), segmentOf(testOptions, fact{fields: bson.D{}}))
	s := newSeries("s", "db.s.buckets", testOptions, f)
	sensor := func(condition any) bson.E { return bson.E{Key: "m.sensor", Value: condition} }
	n := func(condition any) bson.E { return bson.E{Key: "m.n", Value: condition} }
	for name, c := range map[string]struct {
		meta       any
		sent, want int
	}{
		"whole":           {bson.D{{Key: "m", Value: bson.D{{Key: "n", Value: 17.0}, {Key: "sensor", Value: "s-017"}}}}, 1, 1},
		"whole text":      {bson.D{{Key: "m", Value: "s-017"}}, 1, 1},
		"part":            {bson.D{sensor("s-017")}, 1, 1},
		"number":          {bson.D{n(int64(17))}, 1, 1},
		"two parts":       {bson.D{sensor("s-017"), n(17.0)}, 1, 1},
		"whole and part":  {bson.D{{Key: "m", Value: bson.D{{Key: "n", Value: 17}, {Key: "sensor", Value: "s-017"}}}, sensor("s-017")}, 1, 1},
		"no such pair":    {bson.D{sensor("s-017"), n(16)}, 1, 0},
		"no such series":  {bson.D{sensor("s-017x")}, 0, 0},
		"beyond":          {bson.D{sensor("t")}, 0, 0},
		"a range":         {bson.D{sensor(bson.D{{Key: "$gt", Value: "s-191"}})}, 2, 8},
		"a range of both": {bson.D{sensor(bson.D{{Key: "$gte", Value: "s-100"}, {Key: "$lt", Value: "s-108"}})}, 2, 8},
		"some":            {bson.D{sensor(bson.D{{Key: "$in", Value: bson.A{"s-003", "s-004", "s-150"}}})}, 3, 3},
		"both":            {bson.D{{Key: "$and", Value: bson.A{bson.D{n(bson.D{{Key: "$gte", Value: 40}})}, bson.D{n(bson.D{{Key: "$lte", Value: 43}})}}}}, 1, 4},
	} {
		f.sent, f.requests = 0, nil
		got, err := facts(s.Find(t.Context(), Query{Meta: c.meta}))
		if err != nil || len(got) != c.want || f.sent != c.sent {
			t.Errorf("%s: %d measurements from %d segments, %v; want %d from %d", name, len(got), f.sent, err, c.want, c.sent)
		}
	}
}

// TestSegmentsOfOtherPartitionsAreSkipped checks that segments which cover the searched series, but do not have it, are not sent.
// A server without conditions on bits sends them.
func TestSegmentsOfOtherPartitionsAreSkipped(t *testing.T) {
	const partitions, each = 16, 50
	var buckets []bson.Raw
	for p := range partitions {
		var list []fact
		for i := range each {
			n := i*partitions + p
			meta := bson.D{{Key: "n", Value: int32(n)}, {Key: "sensor", Value: fmt.Sprintf("s-%03d", n)}, {Key: "site", Value: "north"}}
			list = append(list, fact{meta: valueOf(meta), fields: bson.D{}})
		}
		buckets = append(buckets, segmentOf(testOptions, list...))
	}
	whole := func(sensor string, n any) bson.D {
		return bson.D{{Key: "m", Value: bson.D{{Key: "sensor", Value: sensor}, {Key: "n", Value: n}, {Key: "site", Value: "north"}}}}
	}
	for _, bitless := range []bool{false, true} {
		f := &fake{segments: true, clock: time.UnixMilli(1.8e12), buckets: buckets, bitless: bitless}
		s := newSeries("s", "db.s.buckets", testOptions, f)
		for name, c := range map[string]struct {
			meta       bson.D
			most, want int
		}{
			"part":         {bson.D{{Key: "m.sensor", Value: "s-117"}}, 2, 1},
			"number":       {bson.D{{Key: "m.n", Value: 117.0}}, 2, 1},
			"two parts":    {bson.D{{Key: "m.n", Value: int64(117)}, {Key: "m.sensor", Value: "s-117"}}, 2, 1},
			"whole":        {whole("s-117", 117.0), 2, 1},
			"some":         {bson.D{{Key: "m.sensor", Value: bson.D{{Key: "$in", Value: bson.A{"s-117", "s-119"}}}}}, 4, 2},
			"no such meta": {whole("s-117", 118.0), 1, 0},
			"a common one": {bson.D{{Key: "m.site", Value: "north"}}, partitions, partitions * each},
		} {
			f.sent = 0
			if bitless {
				c.most = partitions
			}
			got, err := facts(s.Find(t.Context(), Query{Meta: c.meta}))
			if err != nil || len(got) != c.want || f.sent > c.most || bitless && f.sent < partitions {
				t.Errorf("%s, without bits %t: %d measurements from %d segments, %v; want %d from %d", name, bitless, len(got), f.sent, err, c.want, c.most)
			}
		}
	}
}

// TestWithoutSegmentsNobodyAsks checks that there are no requests for segments or for the time.
func TestWithoutSegmentsNobodyAsks(t *testing.T) {
	s, f := newFake(testOptions, "a", []int{0, 1})
	minutesOf(t, s, Query{})
	for _, r := range f.requests {
		for _, e := range r.filter {
			if e.Key != "meta" {
				t.Errorf("it asked for %v", e)
			}
		}
	}
	if f.asked > 0 || len(f.requests) != 1 {
		t.Errorf("it asked %d times for the time, and sent %d requests", f.asked, len(f.requests))
	}
}

// TestFindReturnsTheFieldsOfSegments checks that the requested fields are returned, without the meta, which is no field.
func TestFindReturnsTheFieldsOfSegments(t *testing.T) {
	wind := bson.D{{Key: "minute", Value: int32(7)}, {Key: "wind", Value: bson.D{{Key: "speed", Value: 3.5}, {Key: "from", Value: "N"}}}}
	f := &fake{segments: true, buckets: []bson.Raw{segmentOf(testOptions, fact{meta: valueOf("a"), fields: wind})}}
	s := newSeries("s", "db.s.buckets", testOptions, f)
	for _, c := range []struct {
		fields []string
		want   string
	}{
		{nil, `{"minute": {"$numberInt":"7"},"wind": {"speed": {"$numberDouble":"3.5"},"from": "N"}}`},
		{[]string{}, `{}`},
		{[]string{"minute", "m"}, `{"minute": {"$numberInt":"7"}}`},
		{[]string{"wind.from"}, `{"wind": {"from": "N"}}`},
	} {
		n := 0
		for _, read := range []func(context.Context, Query) iter.Seq2[Measurement, error]{s.Find, s.Latest} {
			for m, err := range read(t.Context(), Query{Fields: c.fields}) {
				if err != nil || m.Fields.String() != c.want || m.Meta.StringValue() != "a" {
					t.Errorf("%v: %s of %s, %v; want %s", c.fields, m.Fields, m.Meta, err, c.want)
				}
				n++
			}
		}
		if n != 2 {
			t.Errorf("%v: %d measurements", c.fields, n)
		}
	}
}

// TestFindGoesOnPastSegmentsThatCannotBeRead checks that each is reported once, and that the measurements before the damage are
// read.
func TestFindGoesOnPastSegmentsThatCannotBeRead(t *testing.T) {
	at := func(minute int) fact {
		return fact{meta: valueOf("a"), time: int64(minute) * 60_000, fields: bson.D{{Key: "x", Value: 1}}}
	}
	f := &fake{segments: true, buckets: []bson.Raw{
		segmentOf(testOptions, at(0)), segmentOf(testOptions, at(1), at(2)), segmentOf(testOptions, at(3)), bucketOf(testOptions, at(4)),
		segmentOf(testOptions, at(5)),
	}}
	change := func(i int, name string, value any) {
		var b bson.M
		if err := bson.Unmarshal(f.buckets[i], &b); err != nil {
			t.Fatal(err)
		}
		b["data"] = set(b["data"], name, value)
		f.buckets[i] = encode(b)
	}
	f.buckets[0] = inControl(f.buckets[0], bson.E{Key: "version", Value: int32(2)})
	change(1, "t", bson.D{{Key: "0", Value: bson.DateTime(60_000)}, {Key: "1", Value: "noon"}})
	change(4, "m", "a")
	s := newSeries("s", "db.s.buckets", testOptions, f)
	for _, meta := range []any{nil, bson.D{{Key: "m", Value: "a"}}, bson.D{{Key: "m", Value: bson.D{{Key: "$gte", Value: "a"}}}}} {
		got, failures := minutesOf(t, s, Query{Meta: meta})
		want := 3
		if meta != nil && len(meta.(bson.D)) > 0 {
			want = len(failures)
		}
		if !slices.Equal(got, []int{1, 3, 4}) || len(failures) != want || want < 2 {
			t.Fatalf("%v: %v and %v", meta, got, failures)
		}
		for _, failure := range failures {
			var bad *BucketError
			if !errors.As(failure, &bad) || !bad.Segment || !strings.Contains(failure.Error(), "the segment ") {
				t.Errorf("%v names no segment", failure)
			}
		}
	}
	for range s.Find(t.Context(), Query{}) {
		break // like a caller that stops at the first error
	}
}
