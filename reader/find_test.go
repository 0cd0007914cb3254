package reader

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// newFake returns a series of measurements of one partition. Each bucket is given by the minutes of its measurements.
func newFake(o timeseries.Options, meta any, buckets ...[]int) (*Series, *fake) {
	f, offset := &fake{}, int64(0)
	for _, minutes := range buckets {
		var list []fact
		for _, minute := range minutes {
			fields := bson.D{{Key: "minute", Value: int32(minute)}, {Key: "wind", Value: bson.D{{Key: "speed", Value: 3.5}, {Key: "from", Value: "N"}}}}
			list = append(list, fact{valueOf(meta), int64(minute) * 60_000, timeseries.Source{Topic: "events", TopicID: [16]byte{1}}, timeseries.Position{Offset: offset}, fields})
			offset++
		}
		f.buckets = append(f.buckets, bucketOf(o, list...))
	}
	return newSeries("s", "db.s.buckets", o, f), f
}

// minutesOf returns the times of the measurements in minutes, and the errors between them.
func minutesOf(t *testing.T, s *Series, q Query) (minutes []int, failures []error) {
	t.Helper()
	for m, err := range s.Find(t.Context(), q) {
		if err != nil {
			failures = append(failures, err)
			continue
		}
		minutes = append(minutes, int(m.Time.UnixMilli()/60_000))
	}
	return minutes, failures
}

func TestFindBoundsTimesOnBothSides(t *testing.T) {
	s, _ := newFake(testOptions, "a", []int{0, 10, 20}, []int{15, 30, 40}, []int{60})
	at := func(minute int) time.Time { return time.UnixMilli(int64(minute) * 60_000) }
	for _, c := range []struct {
		from, to time.Time
		want     []int
	}{
		{time.Time{}, time.Time{}, []int{0, 10, 15, 20, 30, 40, 60}},
		{at(10), at(30), []int{10, 15, 20}},
		{at(10).Add(time.Nanosecond), at(30).Add(time.Nanosecond), []int{15, 20, 30}},
		{at(60), time.Time{}, []int{60}},
		{time.Time{}, at(0), nil},
		{at(20), at(20), nil},
	} {
		if got, failures := minutesOf(t, s, Query{From: c.from, To: c.to}); !slices.Equal(got, c.want) || failures != nil {
			t.Errorf("from %v to %v: %v, %v; want %v", c.from, c.to, got, failures, c.want)
		}
	}
}

// TestFindOrdersEqualTimesByPosition also covers the first measurement of a bucket that begins at that time.
func TestFindOrdersEqualTimesByPosition(t *testing.T) {
	var list []fact
	f := &fake{}
	for partition := range 3 {
		one := fact{
			meta: valueOf("a"), time: 600_000, fields: bson.D{}, at: timeseries.Position{Offset: 9},
			source: timeseries.Source{Topic: "events", TopicID: [16]byte{1}, Partition: int32(2 - partition)},
		}
		early := one
		early.time, early.at.Offset = int64(partition)*120_000, 8
		if partition == 2 {
			early.time = 600_000
		}
		list = append(list, early, one)
		f.buckets = append(f.buckets, bucketOf(testOptions, early, one))
	}
	s := newSeries("s", "db.s.buckets", testOptions, f)
	for _, newest := range []bool{false, true} {
		want := texts(list, math.MinInt64, math.MaxInt64, newest)
		if got, err := facts(s.Find(t.Context(), Query{Newest: newest})); err != nil || !slices.Equal(got, want) {
			t.Errorf("newest first %v: %v\n%s", newest, err, cmp.Diff(want, got))
		}
	}
}

func TestFindReadsTimesThatNoIDHasRoomFor(t *testing.T) {
	for _, year := range []int{-200, 1900, 1969, 2038, 2107, 9999} {
		at := time.Date(year, 5, 6, 7, 8, 9, 0, time.UTC)
		s, _ := newFake(testOptions, "a", []int{int(at.UnixMilli() / 60_000)})
		if got, failures := minutesOf(t, s, Query{From: at.Add(-time.Hour), To: at.Add(time.Hour)}); len(got) != 1 || failures != nil {
			t.Errorf("year %d: %v, %v", year, got, failures)
		}
	}
}

// TestFindSeesASpanThatHasGrown checks that a program that opened the time series before the granularity was raised reads the
// larger buckets.
func TestFindSeesASpanThatHasGrown(t *testing.T) {
	coarse := timeseries.Options{TimeField: "t", MetaField: "m", Granularity: timeseries.Hours}
	_, f := newFake(coarse, "a", []int{0, 60 * 24 * 20})
	s := newSeries("s", "db.s.buckets", testOptions, f)
	f.options = coarse
	if got, failures := minutesOf(t, s, Query{From: time.UnixMilli(60_000 * 60 * 24)}); !slices.Equal(got, []int{60 * 24 * 20}) || failures != nil {
		t.Errorf("%v, %v", got, failures)
	}
}

func TestFindGoesOnPastBucketsThatCannotBeRead(t *testing.T) {
	s, f := newFake(testOptions, "a", []int{0}, []int{60, 61}, []int{120}, []int{180})
	damage := func(i int, change func(b bson.M)) {
		var b bson.M
		if err := bson.Unmarshal(f.buckets[i], &b); err != nil {
			t.Fatal(err)
		}
		change(b)
		f.buckets[i] = encode(b)
	}
	damage(0, func(b bson.M) { b["control"] = set(b["control"], "version", int32(2)) })
	damage(1, func(b bson.M) {
		b["data"] = set(b["data"], "t", bson.D{{Key: "0", Value: bson.DateTime(3_600_000)}, {Key: "1", Value: "noon"}})
	})
	damage(2, func(b bson.M) { b["control"] = set(b["control"], "min", bson.D{{Key: "t", Value: "noon"}}) })
	got, failures := minutesOf(t, s, Query{})
	if !slices.Equal(got, []int{60, 180}) || len(failures) != 3 {
		t.Fatalf("%v and %v", got, failures)
	}
	for _, failure := range failures {
		var bad *BucketError
		if !errors.As(failure, &bad) || !slices.ContainsFunc(f.buckets, func(b bson.Raw) bool { return idOf(b).Equal(bad.ID) }) {
			t.Errorf("%v names no bucket", failure)
		}
		for _, part := range []string{"db.s.buckets", "ObjectID"} {
			if !strings.Contains(failure.Error(), part) && !strings.Contains(failure.Error(), "$oid") {
				t.Errorf("%q does not say %q", failure, part)
			}
		}
	}
	n := 0
	for range s.Find(t.Context(), Query{}) {
		if n++; n == 1 {
			break // like a caller that stops at the first error
		}
	}
}

func set(document any, name string, value any) bson.D {
	d := document.(bson.D)
	for i := range d {
		if d[i].Key == name {
			d[i].Value = value
			return d
		}
	}
	return append(d, bson.E{Key: name, Value: value})
}

func TestFindReturnsTheFieldsAskedFor(t *testing.T) {
	s, f := newFake(testOptions, "a", []int{7})
	for _, c := range []struct {
		fields []string
		want   string
	}{
		{nil, `{"minute": {"$numberInt":"7"},"wind": {"speed": {"$numberDouble":"3.5"},"from": "N"}}`},
		{[]string{"wind.from"}, `{"wind": {"from": "N"}}`},
		{[]string{"wind.from", "wind"}, `{"wind": {"speed": {"$numberDouble":"3.5"},"from": "N"}}`},
		{[]string{"wind.other", "minute.x"}, `{"wind": {}}`},
	} {
		for m, err := range s.Find(t.Context(), Query{Fields: c.fields}) {
			if err != nil || m.Fields.String() != c.want {
				t.Errorf("%v: %s, %v; want %s", c.fields, m.Fields, err, c.want)
			}
		}
	}
	minutesOf(t, s, Query{Fields: []string{"wind.from", "minute", "t", "m.x"}})
	want := []string{"meta", "control.version", "control.count", "control.source", "control.min.t", "control.max.t", "data.t", "data.wind", "data.minute"}
	var asked []string
	for _, e := range f.requests[len(f.requests)-1].projection {
		asked = append(asked, e.Key)
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
}

func TestQueriesThatCannotBe(t *testing.T) {
	s, _ := newFake(testOptions, "a", []int{0})
	at := time.UnixMilli(0)
	for name, c := range map[string]struct {
		query Query
		says  string
	}{
		"swapped times":      {Query{From: at.Add(time.Hour), To: at}, "swap From and To"},
		"negative limit":     {Query{Limit: -1}, "Limit is -1"},
		"field of dots":      {Query{Fields: []string{"a..b"}}, `"a..b"`},
		"operator as field":  {Query{Fields: []string{"$a"}}, `"$a"`},
		"filter on a field":  {Query{Meta: bson.D{{Key: "celsius", Value: 3}}}, "celsius is not part of the meta"},
		"filter no document": {Query{Meta: 5}, "not a document"},
		"malformed filter":   {Query{Meta: bson.Raw{9, 0, 0, 0, 1}}, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			got, failures := minutesOf(t, s, c.query)
			if got != nil || len(failures) != 1 || !strings.Contains(failures[0].Error(), c.says) || !errors.As(failures[0], new(*QueryError)) {
				t.Errorf("got %v, %v; want a QueryError that says %q", got, failures, c.says)
			}
		})
	}
}

// TestAMonthStreamsInTheMemoryOfAFewBuckets checks that a long stream with late data needs no more memory at its end than at its
// beginning.
func TestAMonthStreamsInTheMemoryOfAFewBuckets(t *testing.T) {
	const hours = 24 * 30
	for _, newest := range []bool{false, true} {
		s := newSeries("s", "db.s.buckets", testOptions, streamed{hours: hours})
		p, err := s.prepare(t.Context(), Query{Newest: newest})
		if err != nil {
			t.Fatal(err)
		}
		var r *reading
		measurements, most, last := 0, 0, int64(0)
		r = newReading(s, &p, func(m Measurement, err error) bool {
			if err != nil {
				t.Fatal(err)
			}
			if now := m.Time.UnixMilli(); measurements > 0 && (now > last) == newest && now != last {
				t.Fatalf("%d comes after %d", now, last)
			}
			last = m.Time.UnixMilli()
			measurements++
			bytes := 0
			for _, h := range append(slices.Clone(r.merge.heap), r.merge.free...) {
				bytes += cap(h.bucket) + cap(h.arena) + cap(h.rows)*40
			}
			most = max(most, bytes)
			return true
		})
		if err := r.find(t.Context(), group{meta: valueOf("a")}, nil); err != nil {
			t.Fatal(err)
		}
		if measurements != 2*hours*100 || most > 10*len(streamedBucket(0, 0)) {
			t.Errorf("newest first %v: %d measurements held %d bytes; one bucket has %d", newest, measurements, most, len(streamedBucket(0, 0)))
		}
	}
}

func (streamed) definition(context.Context) (bson.Raw, error) { return definitionOf(testOptions), nil }

// streamed is a port with two buckets an hour, made when they are read.
type streamed struct {
	port
	hours int
}

func (s streamed) find(_ context.Context, r request) (documents, error) {
	return &streamedAnswer{step: r.sort[0].Value.(int), n: 2 * s.hours, next: -1}, nil
}

type streamedAnswer struct{ step, n, next int }

func (a *streamedAnswer) Next(context.Context) bool { a.next++; return a.next < a.n }
func (a *streamedAnswer) Document() bson.Raw {
	i := a.next
	if a.step < 0 {
		i = a.n - 1 - i
	}
	return streamedBucket(i/2, i%2)
}
func (*streamedAnswer) Err() error                  { return nil }
func (*streamedAnswer) Close(context.Context) error { return nil }

// streamedBucket returns a bucket with a hundred measurements of an hour, some of them late.
func streamedBucket(hour, partition int) bson.Raw {
	var list []fact
	for i := range 100 {
		f := fact{
			meta: valueOf("a"), time: int64(hour)*3_600_000 + int64(i)*36_000, at: timeseries.Position{Offset: int64(hour*100 + i)},
			source: timeseries.Source{Topic: "events", TopicID: [16]byte{1}, Partition: int32(partition)},
			fields: bson.D{{Key: "x", Value: 1.5}},
		}
		if i%10 == 9 && partition == 1 {
			f.time -= 300_000
		}
		list = append(list, f)
	}
	return bucketOf(testOptions, list...)
}
