package reader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/internal/timeseries"
)

// oddMetas returns metas that a request for many series cannot contain, and metas that match together with them.
func oddMetas() []bson.RawValue {
	return append(stringMetas(6), valueOf("plain"), valueOf("a"), valueOf(int32(5)), valueOf(7.5), valueOf(true), valueOf(bson.D{}),
		valueOf(bson.A{"plain", "a"}), valueOf(bson.A{int32(5)}), valueOf(bson.A{}), valueOf(bson.A{bson.D{{Key: "sensor", Value: "s-1"}}}),
		valueOf(bson.D{{Key: "$gt", Value: "s-1"}}), valueOf(bson.Regex{Pattern: "^p"}), valueOf(bson.DateTime(12)), bson.RawValue{})
}

// wideOptions has buckets of up to 30 days.
var wideOptions = timeseries.Options{TimeField: "t", MetaField: "m", Granularity: timeseries.Hours}

// abouts are times around which measurements lie, including the bounds of an _id's range.
var abouts = []int64{0, -5e12, 1.7e12, 1 << 31 * 1000, 1 << 32 * 1000, 6e12}

// naive unpacks every bucket, and drops the measurements that a query does not select.
func naive(t *testing.T, o timeseries.Options, buckets []bson.Raw, q Query, takes func(bson.RawValue) bool) (all []fact) {
	t.Helper()
	u := timeseries.NewUnpacker(o)
	for _, b := range buckets {
		if err := u.Reset(b); err != nil {
			t.Fatal(err)
		}
		for m := (timeseries.Unpacked{}); u.Next(&m); {
			at := time.UnixMilli(m.Time)
			if !takes(m.Meta) || !q.From.IsZero() && at.Before(q.From) || !q.To.IsZero() && !at.Before(q.To) {
				continue
			}
			var fields bson.D
			if err := bson.Unmarshal(m.Fields, &fields); err != nil {
				t.Fatal(err)
			}
			all = append(all, fact{timeseries.Clone(m.Meta), m.Time, u.Source(), m.Position, fields})
		}
		if err := u.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// scattered returns buckets of series that begin and end at their own times, with gaps, some of them late.
func scattered(random *rand.Rand, o timeseries.Options, metas []bson.RawValue, about int64) (stored []bson.Raw) {
	for range 1 + random.IntN(6) {
		some := slices.Clone(metas)
		random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		facts, _ := randomFacts(random, o, some[:1+random.IntN(len(some))], about+random.Int64N(8*o.Span())/1000*1000, 1+random.IntN(60))
		stored = append(stored, inBuckets(random, o, facts)...)
	}
	return stored
}

// randomTimes returns a query with random bounds.
func randomTimes(random *rand.Rand, o timeseries.Options, about int64) (q Query) {
	if random.IntN(3) > 0 {
		q.From = time.UnixMilli(about + random.Int64N(8*o.Span()) - o.Span())
	}
	if random.IntN(3) > 0 {
		q.To = time.UnixMilli(about + random.Int64N(8*o.Span()))
		if q.To.Before(q.From) {
			q.To = q.From.Add(time.Duration(random.Int64N(o.Span())) * time.Millisecond)
		}
	}
	q.Newest = random.IntN(4) == 0
	return q
}

// compareWithNaive compares both ways of reading with a read of everything.
func compareWithNaive(t *testing.T, s *Series, o timeseries.Options, buckets []bson.Raw, q Query, takes func(bson.RawValue) bool, what string) {
	t.Helper()
	selected := naive(t, o, buckets, q, takes)
	want := texts(selected, math.MinInt64, math.MaxInt64, q.Newest)
	if got, err := facts(s.Find(t.Context(), q)); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%s, %+v: %v\n%s", what, q, err, cmp.Diff(want, got))
	}
	want = texts(newestOf(selected), math.MinInt64, math.MaxInt64, false)
	if got, err := facts(s.Latest(t.Context(), q)); err != nil || !slices.Equal(got, want) {
		t.Fatalf("the newest, %s, %+v: %v\n%s", what, q, err, cmp.Diff(want, got))
	}
	if len(want) > 2 {
		few := q
		few.Limit = 2
		if got, err := facts(s.Latest(t.Context(), few)); err != nil || !slices.Equal(got, want[:2]) {
			t.Fatalf("two of the newest, %s, %+v: %v\n%s", what, q, err, cmp.Diff(want[:2], got))
		}
	}
}

// partly returns a filter on a part of the meta, and the condition it stands for.
func partly() (bson.D, func(bson.RawValue) bool) {
	s := selections()
	i := slices.IndexFunc(s, func(s selection) bool { return s.name == "not a part" })
	return s[i].filter.(bson.D), s[i].takes
}

// TestReadingIsAsReadingEverything covers narrow and wide buckets, which overlap, begin at any time and have gaps, with metas of
// every kind.
func TestReadingIsAsReadingEverything(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 21))
		o, about := testOptions, abouts[random.IntN(len(abouts))]
		if random.IntN(2) == 0 {
			o = wideOptions
		}
		f := &fake{options: o, buckets: scattered(random, o, oddMetas(), about), disorder: random.IntN(4) == 0}
		s := newSeries("s", "db.s.buckets", o, f)
		for range 3 {
			compareWithNaive(t, s, o, slices.Clone(f.buckets), randomTimes(random, o, about), func(bson.RawValue) bool { return true }, fmt.Sprintf("seed %d", seed))
			q := randomTimes(random, o, about)
			// A filter on a part matches an array if one of its elements matches. The server decides this, and the fake does not
			// support it.
			if f.buckets = slices.DeleteFunc(f.buckets, func(b bson.Raw) bool { return metaOf(b).Type == bson.TypeArray }); len(f.buckets) == 0 {
				break
			}
			filter, takes := partly()
			q.Meta = filter
			compareWithNaive(t, s, o, slices.Clone(f.buckets), q, takes, fmt.Sprintf("seed %d, a part", seed))
		}
	}
}

// TestReadingOnAServerIsAsReadingEverything does the same on a server.
func TestReadingOnAServerIsAsReadingEverything(t *testing.T) {
	db := connected(t)
	arrays := tellsArrays(t, db)
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 22))
		o, about := testOptions, abouts[seed%uint64(len(abouts))]
		if random.IntN(2) == 0 {
			o = wideOptions
		}
		metas := slices.DeleteFunc(oddMetas(), func(m bson.RawValue) bool { // names that servers refuse, and arrays in two of three cases
			return m.Type == bson.TypeEmbeddedDocument && timeseries.HasOperators(m) || m.Type == bson.TypeRegex || m.Type == bson.TypeArray && seed%3 != 0
		})
		if !arrays {
			metas = slices.DeleteFunc(metas, func(m bson.RawValue) bool { return m.Type == bson.TypeArray })
		}
		buckets := scattered(random, o, metas, about)
		s := setUp(t, db, fmt.Sprintf("everything%d", seed), o, buckets)
		for range 4 {
			compareWithNaive(t, s, o, buckets, randomTimes(random, o, about), func(bson.RawValue) bool { return true }, fmt.Sprintf("seed %d", seed))
			if seed%3 == 0 {
				continue
			}
			q := randomTimes(random, o, about)
			filter, takes := partly()
			q.Meta = filter
			compareWithNaive(t, s, o, buckets, q, takes, fmt.Sprintf("seed %d, a part", seed))
		}
	}
}

// tellsArrays reports whether a server distinguishes an array from its only element in a group. An imitation may not.
func tellsArrays(t *testing.T, db *mongo.Database) bool {
	t.Helper()
	c := db.Collection("arrays")
	if _, err := c.InsertMany(t.Context(), []bson.D{{{Key: "meta", Value: int32(5)}}, {{Key: "meta", Value: bson.A{int32(5)}}}}); err != nil {
		t.Fatal(err)
	}
	answer, err := c.Aggregate(t.Context(), bson.A{bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$meta"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var groups []bson.Raw
	if err := answer.All(t.Context(), &groups); err != nil {
		t.Fatal(err)
	}
	return len(groups) == 2
}

// manySeries returns a fake with three buckets of each series, an hour apart.
func manySeries(n int) (*Series, *fake) {
	f := &fake{}
	for i := range n {
		meta := valueOf(bson.D{{Key: "sensor", Value: fmt.Sprintf("s-%05d", i)}})
		for hour := range int64(3) {
			f.buckets = append(f.buckets, bucketOf(testOptions, fact{meta: meta, time: hour*3_600_000 + int64(i), fields: bson.D{}}))
		}
	}
	return newSeries("s", "db.s.buckets", testOptions, f), f
}

// TestManySeriesAreAskedForTogether checks that one request covers a thousand series.
func TestManySeriesAreAskedForTogether(t *testing.T) {
	const series = sweptAtOnce + 10
	s, f := manySeries(series)
	last := Query{From: time.UnixMilli(2 * 3_600_000), To: time.UnixMilli(3 * 3_600_000)}
	for name, c := range map[string]struct {
		query        Query
		read         func(context.Context, Query) ([]string, error)
		come, sent   int
		requestsMost int
	}{
		"all":                   {Query{}, s.findTexts, 3 * series, 3 * series, 2},
		"an hour":               {last, s.findTexts, series, series, 2},
		"a part":                {Query{Meta: bson.D{{Key: "m.sensor", Value: bson.D{{Key: "$lt", Value: "s-00100"}}}}}, s.findTexts, 300, 300, 1},
		"the newest":            {Query{}, s.latestTexts, series, series, 2},
		"the newest of an hour": {last, s.latestTexts, series, series, 2},
		"the newest of ten":     {Query{Limit: 10}, s.latestTexts, 10, 10, 1},
		"the first of three":    {Query{Limit: 9}, s.findTexts, 9, 10, 1},
	} {
		f.sent, f.requests = 0, nil
		got, err := c.read(t.Context(), c.query)
		if err != nil || len(got) != c.come || f.sent != c.sent || len(f.requests) > c.requestsMost {
			t.Errorf("%s: %d measurements, %v, from %d buckets by %d requests; want %d from %d by %d",
				name, len(got), err, f.sent, len(f.requests), c.come, c.sent, c.requestsMost)
		}
	}
}

func (s *Series) findTexts(ctx context.Context, q Query) ([]string, error) {
	return facts(s.Find(ctx, q))
}

func (s *Series) latestTexts(ctx context.Context, q Query) ([]string, error) {
	return facts(s.Latest(ctx, q))
}

// TestServersOfAnotherOrderAreAskedForEachSeries checks this because combined answers could not be separated.
func TestServersOfAnotherOrderAreAskedForEachSeries(t *testing.T) {
	s, f := manySeries(10)
	f.disorder = true
	if got, err := facts(s.Find(t.Context(), Query{})); err != nil || len(got) != 30 || len(f.requests) != 10 {
		t.Errorf("%d measurements by %d requests, %v", len(got), len(f.requests), err)
	}
}

// TestRoutersAreAskedForTheNewestOfEachSeries checks this because a router would get the keys of all their buckets to group.
func TestRoutersAreAskedForTheNewestOfEachSeries(t *testing.T) {
	s, f := manySeries(10)
	f.sharded = true
	got, err := facts(s.Latest(t.Context(), Query{}))
	if err != nil || len(got) != 10 || f.sent != 10 {
		t.Errorf("%d measurements from %d buckets, %v", len(got), f.sent, err)
	}
	for _, r := range f.requests {
		if strings.Contains(fmt.Sprint(r.filter), "$in") {
			t.Errorf("it asked for many: %v", r.filter)
		}
	}
}

// TestAnotherOrderThanWasShownIsAnError checks that nothing is left out silently.
func TestAnotherOrderThanWasShownIsAnError(t *testing.T) {
	s, f := manySeries(10)
	if !s.ordersMetas(t.Context()) {
		t.Fatal("the fake has another order")
	}
	f.disorder = true
	if _, err := facts(s.Find(t.Context(), Query{})); !errors.Is(err, errDisorder) {
		t.Errorf("it gave %v", err)
	}
}

// TestRefusedRequestsForManyAreNotRepeated checks that each series is queried separately afterwards.
func TestRefusedRequestsForManyAreNotRepeated(t *testing.T) {
	s, f := manySeries(10)
	many := 0
	f.refuse = func(r request) error {
		if strings.Contains(fmt.Sprint(r.filter), "$in") {
			many++
			return mongo.CommandError{Code: 292, Name: "QueryExceededMemoryLimitNoDiskUseAllowed"}
		}
		return nil
	}
	if got, err := facts(s.Find(t.Context(), Query{})); err != nil || len(got) != 30 || many != 1 {
		t.Errorf("%d measurements, %v, after %d requests for many", len(got), err, many)
	}
	if got, err := facts(s.Latest(t.Context(), Query{})); err != nil || len(got) != 10 {
		t.Errorf("%d of the newest, %v", len(got), err)
	}
}

// TestOnePassTellsWhereTheLastBucketsBegin checks that the server examines few keys of each series in a long history, with and
// without a time.
func TestOnePassTellsWhereTheLastBucketsBegin(t *testing.T) {
	const series, hours = 30, 100
	var buckets []bson.Raw
	var metas bson.A
	for i := range series {
		meta := stringMetas(series)[i]
		for hour := range int64(hours) {
			buckets = append(buckets, bucketOf(testOptions, fact{meta: meta, time: hour * 3_600_000, fields: bson.D{}}))
		}
		metas = append(metas, meta)
	}
	s := setUp(t, connected(t), "history", testOptions, buckets)
	for name, q := range map[string]Query{"no bound": {}, "bounds": {From: time.UnixMilli(3_600_000), To: time.UnixMilli(90 * 3_600_000)}} {
		p, err := s.prepare(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		var c Cost
		if err := c.add(s.port.explainAggregate(t.Context(), s.lastBeginnings(&p, metas))); errors.Is(err, ErrNoExplain) {
			t.Skipf("nothing to test here: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
		if c.KeysExamined > 3*series || c.DocumentsExamined > 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestTheIDsOfSelectedBucketsAreWithinBounds checks this for every time. Ids of other times are outside, if an _id can express
// them.
func TestTheIDsOfSelectedBucketsAreWithinBounds(t *testing.T) {
	s := newSeries("s", "db.s.buckets", testOptions, &fake{})
	random := rand.New(rand.NewPCG(1, 23))
	narrowed := 0
	for range 20_000 {
		about := abouts[random.IntN(len(abouts))] + random.Int64N(4*testOptions.Span()) - 2*testOptions.Span()
		p := plan{span: testOptions.Span(), first: about, last: about + random.Int64N(5000)}
		switch random.IntN(4) {
		case 0:
			p.first = math.MinInt64
		case 1:
			p.last = math.MaxInt64
		}
		begins := []int64{about - p.span + random.Int64N(3000), about + random.Int64N(3000), p.first, p.last, abouts[random.IntN(len(abouts))]}[random.IntN(5)]
		if begins == math.MinInt64 || begins == math.MaxInt64 {
			continue
		}
		bucket := encode(bson.D{
			{Key: "_id", Value: timeseries.BucketID(timeseries.Source{}, timeseries.Position{}, 0, begins)},
			{Key: "control", Value: bson.D{{Key: "min", Value: bson.D{{Key: "t", Value: bson.DateTime(begins)}}}, {Key: "max", Value: bson.D{{Key: "t", Value: bson.DateTime(max(begins, p.first))}}}}},
		})
		within := matches(bucket, idFilter(&p))
		if matches(bucket, s.timeFilter(&p)) && !within {
			t.Fatalf("a bucket that begins at %d is not found for %d to %d: %v", begins, p.first, p.last, idFilter(&p))
		}
		if !within {
			narrowed++
		}
	}
	if narrowed < 500 {
		t.Errorf("only %d were left out", narrowed)
	}
}

// TestTheNewestIsLookedForBehindABucketOfLaterTimes covers a last bucket without a measurement in the range of time. An earlier
// one may have it.
func TestTheNewestIsLookedForBehindABucketOfLaterTimes(t *testing.T) {
	s, f := newFake(testOptions, "a", []int{600, 630}, []int{555, 620}, []int{550, 590}, []int{500})
	later := bucketOf(testOptions, fact{meta: valueOf("a"), time: 600 * 60_000, fields: bson.D{}})
	f.buckets[0] = bucketOf(testOptions, fact{meta: valueOf("a"), time: 600*60_000 + 30_000, fields: bson.D{}})
	_, other := newFake(testOptions, "b", []int{500, 590})
	f.buckets = append(f.buckets, other.buckets...)
	if begins, _ := s.begins(f.buckets[0]); begins != at(later, "control.min.t").Time().UnixMilli() {
		t.Fatal("the last bucket does not begin before its measurements")
	}
	var got []int64
	for m, err := range s.Latest(t.Context(), Query{To: time.UnixMilli(600*60_000 + 1)}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Time.UnixMilli()/60_000)
	}
	if !slices.Equal(got, []int64{590, 590}) {
		t.Errorf("the newest are of the minutes %v", got)
	}
}

// TestTheNewestIsLookedForBehindAHiddenBucket has a last bucket that is not shown yet, and segments without measurements in the
// range of time.
func TestTheNewestIsLookedForBehindAHiddenBucket(t *testing.T) {
	s, f := newFake(testOptions, "a", []int{0, 10}, []int{60, 70})
	_, other := newFake(testOptions, "b", []int{0, 20})
	f.buckets = append(f.buckets, other.buckets...)
	f.segments, f.clock = true, time.UnixMilli(1.8e12)
	f.buckets[1] = from(f.buckets[1], f.clock.Add(time.Minute))
	got, err := facts(s.Latest(t.Context(), Query{}))
	if err != nil || len(got) != 2 || !strings.Contains(got[0], "@600000 ") || !strings.Contains(got[1], "@1200000 ") {
		t.Errorf("%q, %v", got, err)
	}
}
