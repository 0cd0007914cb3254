package reader

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

var testOptions = timeseries.Options{TimeField: "t", MetaField: "m", Granularity: timeseries.Seconds, MaxSpanSeconds: 3600}

// fact is a stored measurement.
type fact struct {
	meta   bson.RawValue
	time   int64
	source timeseries.Source
	at     timeseries.Position
	fields bson.D
}

// compare is the order of Find within a series.
func (f fact) compare(g fact) int {
	return cmp.Or(cmp.Compare(f.time, g.time), bytes.Compare(f.source.TopicID[:], g.source.TopicID[:]),
		cmp.Compare(f.source.Partition, g.source.Partition), f.at.Compare(g.at))
}

// String returns the text that tests compare.
func (f fact) String() string {
	return fmt.Sprintf("%s/%x @%d %d.%d.%d %s", f.meta.Type, f.meta.Value, f.time, f.source.Partition, f.at.Offset, f.at.Part, encode(f.fields))
}

var buckets uint64

// bucketOf returns the bucket of measurements of one series and source, in their order of arrival.
func bucketOf(o timeseries.Options, facts ...fact) bson.Raw {
	minimum, maximum := int64(math.MaxInt64), int64(math.MinInt64)
	first, last := int64(math.MaxInt64), int64(-1)
	columns, names := map[string]bson.D{}, []string{}
	var positions []timeseries.Position
	for i, f := range facts {
		index := strconv.Itoa(i)
		for _, e := range append(bson.D{{Key: o.TimeField, Value: bson.DateTime(f.time)}}, f.fields...) {
			if columns[e.Key] == nil {
				names = append(names, e.Key)
			}
			columns[e.Key] = append(columns[e.Key], bson.E{Key: index, Value: e.Value})
		}
		minimum, maximum = min(minimum, f.time), max(maximum, f.time)
		first, last = min(first, f.at.Offset), max(last, f.at.Offset)
		positions = append(positions, f.at)
	}
	data := bson.D{}
	for _, name := range names {
		data = append(data, bson.E{Key: name, Value: columns[name]})
	}
	buckets++
	source := facts[0].source
	id := timeseries.BucketID(source, timeseries.Position{Offset: int64(buckets)}, 0, o.Round(minimum))
	bucket := bson.D{{Key: "_id", Value: id}, {Key: "control", Value: bson.D{
		{Key: "version", Value: int32(1)},
		{Key: "min", Value: bson.D{{Key: o.TimeField, Value: bson.DateTime(o.Round(minimum))}}},
		{Key: "max", Value: bson.D{{Key: o.TimeField, Value: bson.DateTime(maximum)}}},
		{Key: "count", Value: int32(len(facts))},
		{Key: "source", Value: bson.D{
			{Key: "topic", Value: source.Topic},
			{Key: "partition", Value: source.Partition},
			{Key: "topicId", Value: bson.Binary{Subtype: 4, Data: source.TopicID[:]}},
			{Key: "first", Value: first},
			{Key: "last", Value: last},
			{Key: "offsets", Value: bson.A{bson.Binary{Data: timeseries.AppendPositions(nil, positions)}}},
		}},
	}}}
	if facts[0].meta.Type != 0 {
		bucket = append(bucket, bson.E{Key: "meta", Value: facts[0].meta})
	}
	return encode(append(bucket, bson.E{Key: "data", Value: data}))
}

// randomFacts returns measurements of a few series and partitions around a time, and the buckets that hold them. The buckets of a
// series overlap, times go back and forth, and many are equal.
func randomFacts(random *rand.Rand, o timeseries.Options, metas []bson.RawValue, about int64, n int) (facts []fact, stored []bson.Raw) {
	for i := range n {
		f := fact{
			meta:   metas[random.IntN(len(metas))],
			time:   about + int64(i)*o.Span()/int64(n/4+1) - random.Int64N(1+o.Span()/int64(1+random.IntN(4)))/1000*1000,
			source: timeseries.Source{Topic: "events", TopicID: [16]byte{1}, Partition: int32(random.IntN(3))},
			at:     timeseries.Position{Offset: int64(i)},
			fields: bson.D{{Key: "x", Value: int32(i)}},
		}
		if random.IntN(3) == 0 {
			f.fields = append(f.fields, bson.E{Key: "w", Value: bson.D{{Key: "speed", Value: float64(i)}, {Key: "gust", Value: "g"}}})
		}
		facts = append(facts, f)
	}
	return facts, inBuckets(random, o, facts)
}

// inBuckets returns buckets that hold these measurements.
func inBuckets(random *rand.Rand, o timeseries.Options, facts []fact) []bson.Raw {
	key := func(f fact) string { return fmt.Sprintf("%d %s %x", f.source.Partition, f.meta.Type, f.meta.Value) }
	return cut(random, o, facts, key, func(list []fact) bson.Raw { return bucketOf(o, list...) })
}

// cut makes documents of measurements with the same key. None exceeds the span of a bucket.
func cut(random *rand.Rand, o timeseries.Options, facts []fact, key func(fact) string, document func([]fact) bson.Raw) (stored []bson.Raw) {
	open := map[string][]fact{}
	for _, f := range facts {
		k := key(f)
		low, high := f.time, f.time
		for _, g := range open[k] {
			low, high = min(low, g.time), max(high, g.time)
		}
		if b := open[k]; len(b) > 0 && (high-o.Round(low) >= o.Span() || random.IntN(8) == 0) {
			stored = append(stored, document(b))
			delete(open, k)
		}
		open[k] = append(open[k], f)
	}
	for _, k := range slices.Sorted(maps.Keys(open)) {
		stored = append(stored, document(open[k]))
	}
	random.Shuffle(len(stored), func(i, j int) { stored[i], stored[j] = stored[j], stored[i] })
	return stored
}

func facts(seq iter.Seq2[Measurement, error]) (list []string, err error) {
	for m, err := range seq {
		if err != nil {
			return list, err
		}
		var fields bson.D
		if err := bson.Unmarshal(m.Fields, &fields); err != nil {
			return list, err
		}
		list = append(list, fact{m.Meta, m.Time.UnixMilli(), m.Source, m.Position, fields}.String())
	}
	return list, nil
}

// texts returns the facts of a window in the order of Find, that is, by series and then by compare.
func texts(list []fact, first, last int64, newest bool) (all []string) {
	list = slices.DeleteFunc(slices.Clone(list), func(f fact) bool { return f.time < first || f.time > last })
	slices.SortStableFunc(list, func(a, b fact) int {
		c := a.compare(b)
		if newest {
			c = -c
		}
		return cmp.Or(timeseries.Compare(orNull(a.meta), orNull(b.meta)), cmp.Compare(a.meta.Type, b.meta.Type), c)
	})
	for _, f := range list {
		all = append(all, f.String())
	}
	return all
}

func stringMetas(n int) (metas []bson.RawValue) {
	for i := range n {
		metas = append(metas, valueOf(bson.D{{Key: "sensor", Value: fmt.Sprintf("s-%d", i)}}))
	}
	return metas
}

func TestFindGivesWhatWasStoredInOrder(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		about := []int64{0, -5e12, 1.7e12, 6e12}[random.IntN(4)]
		stored, buckets := randomFacts(random, testOptions, stringMetas(1+random.IntN(3)), about, 1+random.IntN(300))
		s := newSeries("s", "db.s.buckets", testOptions, &fake{buckets: buckets})
		q, first, last := Query{Newest: random.IntN(3) == 0}, int64(math.MinInt64), int64(math.MaxInt64)
		if random.IntN(2) == 0 {
			first = about + random.Int64N(testOptions.Span()*4)
			q.From = time.UnixMilli(first)
		}
		if random.IntN(2) == 0 {
			last = max(first, about) + random.Int64N(testOptions.Span()*2)
			q.To = time.UnixMilli(last + 1)
		}
		want := texts(stored, first, last, q.Newest)
		got, err := facts(s.Find(t.Context(), q))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("seed %d, %+v: %v\n got %d %q\nwant %d %q", seed, q, err, len(got), got, len(want), want)
		}
		if q.Limit = int64(random.IntN(10)); q.Limit > 0 {
			want = want[:min(len(want), int(q.Limit))]
			if got, err := facts(s.Find(t.Context(), q)); err != nil || !slices.Equal(got, want) {
				t.Fatalf("seed %d, %+v: %v, got %q, want %q", seed, q, err, got, want)
			}
		}
	}
}

func TestLatestGivesTheNewestOfEachSeries(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 2))
		stored, buckets := randomFacts(random, testOptions, stringMetas(1+random.IntN(4)), 0, 1+random.IntN(300))
		s := newSeries("s", "db.s.buckets", testOptions, &fake{buckets: buckets})
		q, last := Query{}, int64(math.MaxInt64)
		if random.IntN(2) == 0 {
			last = random.Int64N(testOptions.Span() * 4)
			q.To = time.UnixMilli(last + 1)
		}
		newest := map[string]fact{}
		for _, f := range stored {
			key := string(f.meta.Value)
			if have, ok := newest[key]; f.time <= last && (!ok || f.compare(have) > 0) {
				newest[key] = f
			}
		}
		var list []fact
		for _, f := range newest {
			list = append(list, f)
		}
		want := texts(list, math.MinInt64, last, false)
		if got, err := facts(s.Latest(t.Context(), q)); err != nil || !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v\n got %q\nwant %q", seed, err, got, want)
		}
	}
}
