package bucketer

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// binaryAt returns a binary field of control.segment as a string.
func binaryAt(document bson.Raw, name string) string {
	_, data := document.Lookup("control", "segment", name).Binary()
	return string(data)
}

// metaKey returns the key of the series with a meta.
func metaKey(t *testing.T, meta any) string {
	t.Helper()
	kind, data, err := bson.MarshalValue(meta)
	if err != nil {
		t.Fatal(err)
	}
	return string(append([]byte{byte(kind)}, data...))
}

// TestSeriesLieAsMongoDBOrdersTheirValues checks the order, first by the paths of META_INDEXES, then by the whole meta.
func TestSeriesLieAsMongoDBOrdersTheirValues(t *testing.T) {
	c := New(Options{SegmentOrder: []string{"site.name", "n"}, Limits: testLimits})
	meta := func(site, n, other any) bson.D {
		d := bson.D{{Key: "a", Value: other}}
		if n != nil {
			d = append(d, bson.E{Key: "n", Value: n})
		}
		if site != nil {
			d = append(d, bson.E{Key: "site", Value: bson.D{{Key: "name", Value: site}}})
		}
		return d
	}
	ordered := []bson.D{
		meta(nil, nil, 5), meta(nil, math.Inf(-1), 4), meta(nil, -2.5, 9), meta(nil, int32(-1), 3), meta(nil, int64(0), 2),
		meta(nil, 0.5, 1), meta(nil, int32(7), 0), meta(nil, "7", 0), meta(3.0, nil, 9), meta(int64(4), nil, 9), meta("a", nil, 9), meta("a", int32(1), 8),
		meta("a", int32(1), 8.5), meta("a\x01", nil, 1), meta("ab", nil, 0), meta("b", nil, -1), meta(bson.DateTime(-5), nil, -2), meta(bson.DateTime(5), nil, -3),
	}
	var before []byte
	for i, m := range ordered {
		at := c.appendOrder(nil, metaKey(t, m))
		if i > 0 && bytes.Compare(before, at) >= 0 {
			t.Errorf("%v does not lie behind %v: %q, %q", m, ordered[i-1], at, before)
		}
		before = at
	}
	if at := c.appendOrder(nil, metaKey(t, meta(strings.Repeat("x", 1000), nil, 1))); len(at) != maxOrder {
		t.Errorf("a long one has %d bytes", len(at))
	}
}

// TestBordersOfSegments checks that all measurements stay in order, that no part is too large, and that none is small without
// need. Flushes of the same series are divided at the same places.
func TestBordersOfSegments(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		b := borders{}
		most := int32(10 + random.IntN(150))
		series, late := 1+random.IntN(3000), random.IntN(2) == 0
		same := 0
		last := ""
		for range 8 {
			var list []sparse
			total := int32(0)
			for i := range series {
				if late && random.IntN(50) == 0 {
					continue
				}
				n := int32(1)
				if random.IntN(20) == 0 {
					n += int32(random.IntN(int(min(most, 63))))
				}
				total += n
				list = append(list, sparse{order: fmt.Appendf(nil, "%07d", i), rows: rows{n: n}})
			}
			if len(list) == 0 {
				continue
			}
			ends := b.divide(list, most)
			b.flushed()
			begin, sizes, text := 0, []int32{}, ""
			for _, end := range ends {
				n := int32(0)
				for _, s := range list[begin:end] {
					n += s.rows.n
				}
				if n == 0 || n > most && end-begin > 1 {
					t.Fatalf("seed %d: a part of %d measurements, at most %d", seed, n, most)
				}
				sizes, begin = append(sizes, n), end
				text += fmt.Sprintf("%s ", list[end-1].order)
			}
			if begin != len(list) {
				t.Fatalf("seed %d: the parts end at %d of %d", seed, begin, len(list))
			}
			if int32(len(ends)) > 2+4*total/most {
				t.Errorf("seed %d: %d parts of %d measurements, at most %d each: %d", seed, len(ends), total, most, sizes)
			}
			if text == last {
				same++
			}
			last = text
		}
		if !late && series < int(most)/3 && same == 0 {
			t.Errorf("seed %d: %d series are divided in another way each time", seed, series)
		}
	}
}

// TestSegmentsOfFlushesCoverTheSameSeries checks that each segment of a flush covers a narrow range of the values of
// META_INDEXES. The segments of the next flush cover the same ranges, although not every series is in each flush.
func TestSegmentsOfFlushesCoverTheSameSeries(t *testing.T) {
	o := testOptions(t)
	o.DenseFrom, o.SegmentRows, o.SegmentOrder = 64, 100, []string{"sensor"}
	c := New(o)
	random := rand.New(rand.NewPCG(7, 7))
	const series, flushes = 3000, 20
	ranges := map[string]bool{}
	segments, read, offset := 0, 0, int64(0)
	for f := range flushes {
		for _, i := range random.Perm(series) {
			if random.IntN(200) == 0 {
				continue
			}
			meta := bson.D{{Key: "a", Value: int32(i * 7919 % series)}, {Key: "sensor", Value: fmt.Sprintf("s-%05d", i)}}
			offset++
			r := reading{
				position: timeseries.Position{Offset: offset}, time: 1_700_000_000_000 + int64(f)*5000, series: metaKey(t, meta),
				fields: bson.D{{Key: "v", Value: int32(i)}},
			}
			if err := c.Insert(r.measurement(t)); err != nil {
				t.Fatal(err)
			}
		}
		flush := c.Prepare(0)
		for _, w := range flush.Writes {
			low := w.Document.Lookup("control", "min", "sensor", "sensor").StringValue()
			high := w.Document.Lookup("control", "max", "sensor", "sensor").StringValue()
			if !w.Segment || w.Added > 100 || binaryAt(w.Document, "low") != w.Low || binaryAt(w.Document, "high") != w.High {
				t.Errorf("the write %v of %d measurements, from %q to %q", w.Kind, w.Added, w.Low, w.High)
			}
			ranges[low+" "+high] = true
			if segments++; low <= "s-01500" && high >= "s-01500" {
				read++
			}
		}
		c.Finish(flush, make([]Outcome, len(flush.Writes)), 0)
	}
	if segments > flushes*series/23 || read > flushes || len(ranges) > segments/4 {
		t.Errorf("%d segments with %d ranges, %d of them to be read for one series", segments, len(ranges), read)
	}
}

// TestLargeFlushesHaveLargerSegments checks that a large flush has about as many segments as a smaller one, within bounds.
func TestLargeFlushesHaveLargerSegments(t *testing.T) {
	for total, want := range map[int32]int32{1: 32, 2_500: 33, 6_000: 80, 15_000: 200, 25_000: 250, 1_000_000: 250} {
		b := borders{}
		for range 3 {
			if got := b.most(total, 250); got != want {
				t.Errorf("%d measurements: at most %d in a segment, want %d", total, got, want)
			}
		}
	}
	b := borders{}
	b.most(25_000, 250)
	if got := b.most(100, 250); got < 200 {
		t.Errorf("a small flush among large ones has segments of at most %d", got)
	}
	for range 40 {
		b.most(100, 250)
	}
	if got := b.most(100, 250); got != 32 {
		t.Errorf("after many small flushes segments have at most %d", got)
	}
	if got := b.most(25_000, 250); got != 250 {
		t.Errorf("a large flush after small ones has segments of at most %d", got)
	}
	if got := b.most(25_000, 20); got != 20 {
		t.Errorf("at most 20 are wanted, and there are %d", got)
	}
}

// TestBordersThatNothingUsesAreForgotten checks that series that have disappeared do not divide the present ones.
func TestBordersThatNothingUsesAreForgotten(t *testing.T) {
	b := borders{}
	of := func(name string) (list []sparse) {
		for i := range 1000 {
			list = append(list, sparse{order: fmt.Appendf(nil, "%s%07d", name, i), rows: rows{n: 1}})
		}
		return list
	}
	for range 3 * idleFlushes {
		for _, name := range []string{"a", "b"} {
			b.divide(of(name), 100)
		}
		b.flushed()
	}
	both := len(b.all)
	for range 2 * idleFlushes {
		b.divide(of("b"), 100)
		b.flushed()
	}
	if len(b.all) >= both || slices.ContainsFunc(b.all, func(one border) bool { return one.at[0] == 'a' }) {
		t.Errorf("of %d borders %d are left", both, len(b.all))
	}
}

// TestMetasWithArraysGoIntoBuckets checks this because MongoDB can neither index two array bounds nor shard by an array.
func TestMetasWithArraysGoIntoBuckets(t *testing.T) {
	for name, c := range map[string]struct {
		meta      any
		segment   bool
		unordered bool // META_INDEXES is empty
	}{
		"an array, without an order":       {bson.A{"a"}, false, true},
		"an array below, without an order": {bson.D{{Key: "site", Value: bson.D{{Key: "tag", Value: bson.A{"a"}}}}}, true, true},
		"a text":                           {bson.D{{Key: "site", Value: bson.D{{Key: "tag", Value: "a"}}}}, true, false},
		"nothing":                          {bson.D{{Key: "b", Value: bson.A{"a"}}}, true, false},
		"no object":                        {"text", true, false},
		"an array":                         {bson.D{{Key: "site", Value: bson.D{{Key: "tag", Value: bson.A{"a"}}}}}, false, false},
		"an array on the way":              {bson.D{{Key: "site", Value: bson.A{bson.D{{Key: "tag", Value: "a"}}}}}, false, false},
		"an array as the whole":            {bson.A{"a"}, false, false},
		"an array deeper":                  {bson.D{{Key: "site", Value: bson.D{{Key: "tag", Value: bson.D{{Key: "x", Value: bson.A{}}}}}}}, true, false},
	} {
		o := testOptions(t)
		if o.DenseFrom = 64; !c.unordered {
			o.SegmentOrder = []string{"site.tag"}
		}
		catalog := New(o)
		r := reading{time: 1_700_000_000_000, series: metaKey(t, c.meta), fields: bson.D{{Key: "v", Value: 1}}}
		if err := catalog.Insert(r.measurement(t)); err != nil {
			t.Fatal(err)
		}
		if w := catalog.Prepare(0).Writes[0]; w.Segment != c.segment {
			t.Errorf("%s: in a segment %v", name, w.Segment)
		}
	}
}

// TestKeptOutOfSegments checks a series whose bucket MongoDB refuses. The series gets buckets, and those refused again are
// rejected. After an accepted bucket the series goes into segments again.
func TestKeptOutOfSegments(t *testing.T) {
	o := testOptions(t)
	o.DenseFrom, o.Owner = 64, "p/0"
	c := New(o)
	meta := func(of string) bson.RawValue {
		return bson.RawValue{Type: bson.TypeString, Value: []byte(metaKey(t, of)[1:])}
	}
	next := int64(0)
	flush := func(result Result) (segments, buckets int, rejected []Rejected) {
		t.Helper()
		for _, of := range []string{"a", "b", "c"} {
			r := reading{
				position: timeseries.Position{Offset: next}, time: 1_700_000_000_000 + next, series: metaKey(t, of), fields: bson.D{{Key: "v", Value: next}},
			}
			if err := c.Insert(r.measurement(t)); err != nil {
				t.Fatal(err)
			}
			next++
		}
		f := c.Prepare(0)
		outcomes := make([]Outcome, len(f.Writes))
		for i, w := range f.Writes {
			if w.Segment {
				if in, err := HoldsSeries(o.Collection, w.Document, []bson.RawValue{meta("x"), meta("a")}); err != nil || in != (len(f.Writes) == 1) {
					t.Errorf("a segment of %d writes has the series: %t, %v", len(f.Writes), in, err)
				}
				segments++
			} else if outcomes[i].Result = result; true {
				buckets++
			}
		}
		return segments, buckets, c.Finish(f, outcomes, 0)
	}
	want := func(when string, result Result, segments, buckets, rejected int) {
		t.Helper()
		s, b, r := flush(result)
		if s != segments || b != buckets || len(r) != rejected {
			t.Fatalf("%s: %d segments, %d buckets and %d rejected; want %d, %d and %d", when, s, b, len(r), segments, buckets, rejected)
		}
	}
	want("at first", Applied, 1, 0, 0)
	before := c.Bytes()
	c.KeepOut(meta("a"))
	c.KeepOut(meta("a"))
	if c.Bytes() <= before {
		t.Error("what is kept out takes no memory")
	}
	want("kept out, refused", Refused, 1, 1, 1)
	want("still kept out, and taken", Applied, 1, 1, 0)
	want("in segments again", Applied, 1, 0, 0)
	for i := range maxKeptOut + 5 {
		c.KeepOut(meta(fmt.Sprint(i)))
	}
	if n := len(c.keptOut.keys); n != maxKeptOut {
		t.Errorf("%d series are kept out", n)
	}
}
