package sink_test

import (
	"context"
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/sink"
)

// unsteady finds documents in the order of their largest offset, and fails after so many.
type unsteady struct {
	documents []bson.Raw
	after     int
	batches   []int32
}

var errUnsteady = errors.New("length of read message too large")

func (u *unsteady) Find(_ context.Context, q sink.Query, each func(bson.Raw) error) error {
	u.batches = append(u.batches, q.Batch)
	from := q.Filter.Lookup("control.source.last", "$not", "$lt").AsInt64()
	given := 0
	for _, d := range u.documents {
		if last, ok := d.Lookup("control", "source", "last").AsInt64OK(); ok && last < from {
			continue
		}
		if given++; given > u.after {
			return errUnsteady
		}
		if err := each(d); err != nil {
			return err
		}
	}
	return nil
}

func TestScanGoesOnWhereItWas(t *testing.T) {
	u := &unsteady{after: 4}
	for i, last := range []any{nil, int64(5), int64(7), int64(7), int64(7), int32(8), int64(9), int64(12)} {
		u.documents = append(u.documents, marshal(bson.D{
			{Key: "_id", Value: bson.ObjectID{11: byte(i)}},
			{Key: "control", Value: bson.D{{Key: "source", Value: bson.D{{Key: "last", Value: last}}}}},
		}))
	}
	scan := sink.Scan{Buckets: u, Source: source, From: 3, To: 20}
	came := map[bson.ObjectID]int{}
	for tries := 1; ; tries++ {
		progress, err := scan.Each(t.Context(), func(d bson.Raw) error {
			came[d.Lookup("_id").ObjectID()]++
			return nil
		})
		if err == nil {
			break
		}
		if !errors.Is(err, errUnsteady) || tries > 10 {
			t.Fatal(err)
		}
		if !progress {
			u.after++ // smaller answers come through
		}
	}
	for _, d := range u.documents {
		if n := came[d.Lookup("_id").ObjectID()]; n != 1 {
			t.Errorf("%v came %d times", d, n)
		}
	}
	if u.batches[0] != 0 || u.batches[1] == 0 {
		t.Errorf("batches of %v", u.batches)
	}
}

func TestScanEndsWithItsUser(t *testing.T) {
	u := &unsteady{after: 4, documents: []bson.Raw{marshal(bson.D{{Key: "_id", Value: bson.NewObjectID()}})}}
	scan := sink.Scan{Buckets: u, Source: source, To: 20}
	full := errors.New("full")
	if _, err := scan.Each(t.Context(), func(bson.Raw) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
}
