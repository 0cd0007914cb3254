package reader

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// endless is a port with any number of series, whose buckets are made when they are read.
type endless struct {
	port
	series, buckets int
}

func (e endless) definition(context.Context) (bson.Raw, error) { return definitionOf(testOptions), nil }

func (e endless) aggregate(ctx context.Context, pipeline bson.A) (documents, error) {
	if pipeline[0].(bson.D)[0].Key == "$limit" {
		return (&fake{buckets: []bson.Raw{e.bucket(0)}}).aggregate(ctx, pipeline)
	}
	f := &fake{}
	for i := range e.series {
		f.buckets = append(f.buckets, encode(bson.D{{Key: "_id", Value: e.meta(i)}}))
	}
	return f.find(ctx, request{projection: bson.D{}, filter: bson.D{}})
}

func (endless) meta(series int) bson.RawValue { return valueOf(fmt.Sprintf("s-%05d", series)) }

func (e endless) bucket(n int) bson.Raw {
	var list []fact
	for i := range int64(100) {
		list = append(list, fact{meta: e.meta(n / e.buckets), time: int64(n%e.buckets)*3_600_000 + i, fields: bson.D{{Key: "x", Value: i}}})
	}
	return bucketOf(testOptions, list...)
}

func (e endless) find(_ context.Context, r request) (documents, error) {
	metas := r.filter[0].Value.(bson.D)[0].Value.(bson.A)
	first := 0
	for first < e.series && !e.meta(first).Equal(metas[0].(bson.RawValue)) {
		first++
	}
	return &endlessAnswer{endless: e, next: first * e.buckets, end: (first + len(metas)) * e.buckets}, nil
}

type endlessAnswer struct {
	endless
	next, end int
	current   bson.Raw
}

func (a *endlessAnswer) Next(context.Context) bool {
	if a.next == a.end {
		return false
	}
	a.current = a.bucket(a.next)
	a.next++
	return true
}

func (a *endlessAnswer) Document() bson.Raw { return a.current }

func (*endlessAnswer) Err() error { return nil }

func (*endlessAnswer) Close(context.Context) error { return nil }

// TestReadingManySeriesHoldsFewBuckets checks this for any number of series in one request.
func TestReadingManySeriesHoldsFewBuckets(t *testing.T) {
	e := endless{series: 1500, buckets: 3}
	s := newSeries("s", "db.s.buckets", testOptions, e)
	p, err := s.prepare(t.Context(), Query{})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := s.groups(t.Context(), &p, leaveOut)
	if err != nil || len(groups) != e.series {
		t.Fatal(len(groups), err)
	}
	most, measurements := 0, 0
	var r *reading
	r = newReading(s, &p, func(_ Measurement, err error) bool {
		if err != nil {
			t.Fatal(err)
		}
		measurements++
		bytes := 0
		for _, h := range append(slices.Clone(r.merge.heap), r.merge.free...) {
			bytes += cap(h.bucket) + cap(h.arena) + cap(h.rows)*40
		}
		most = max(most, bytes)
		return true
	})
	if err := r.findAll(t.Context(), groups); err != nil {
		t.Fatal(err)
	}
	if one := len(e.bucket(0)); measurements != e.series*e.buckets*100 || most > 5*one {
		t.Errorf("%d measurements held %d bytes; one bucket has %d", measurements, most, one)
	}
}

// TestWhatIsNewestOfManyHoldsOneMeasurementOfEach checks that it does not hold their buckets.
func TestWhatIsNewestOfManyHoldsOneMeasurementOfEach(t *testing.T) {
	s, _ := manySeries(500)
	p, err := s.prepare(t.Context(), Query{Newest: true})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := s.groups(t.Context(), &p, leaveOut)
	if err != nil {
		t.Fatal(err)
	}
	r := newReading(s, &p, func(Measurement, error) bool { return true })
	if err := r.latestAll(t.Context(), groups); err != nil || r.given != 500 || len(r.merge.free) != 1 {
		t.Errorf("%d measurements with %d buckets in memory, %v", r.given, len(r.merge.free), err)
	}
}
