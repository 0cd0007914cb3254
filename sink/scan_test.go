package sink

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
)

// unsteady returns documents in the order of their largest offset, and fails after some documents. If a repetition makes no
// progress, smaller answers succeed, unless it is stubborn.
type unsteady struct {
	mongodb.Collection
	documents []bson.Raw
	after     int
	stubborn  bool // smaller answers fail too
	batches   []int32
}

var errUnsteady = errors.New("length of read message too large")

func (u *unsteady) Find(_ context.Context, q mongodb.Query, each func(bson.Raw) error) error {
	u.batches = append(u.batches, q.Batch)
	from := q.Filter.Lookup("control.source.last", "$not", "$lt").AsInt64()
	given := 0
	for _, d := range u.documents {
		if last, ok := d.Lookup("control", "source", "last").AsInt64OK(); ok && last < from {
			continue
		}
		if given++; given > u.after {
			if q.Batch == 1 && !u.stubborn {
				u.after++
			}
			return errUnsteady
		}
		if err := each(d); err != nil {
			return err
		}
	}
	return nil
}

// scanned counts how often a scan returns each document, in virtual time.
func scanned(t *testing.T, u *unsteady) (came map[bson.ObjectID]int, err error) {
	came = map[bson.ObjectID]int{}
	synctest.Test(t, func(t *testing.T) {
		s := scan{c: u, timeField: "time", from: 3, to: 20, beside: map[[3]string]bool{}, odd: map[[3]string]bool{}}
		err = s.run(t.Context(), func(d bson.Raw) error {
			came[d.Lookup("_id").ObjectID()]++
			return nil
		})
	})
	return came, err
}

func listings(lasts ...any) (documents []bson.Raw) {
	for i, last := range lasts {
		documents = append(documents, mongodb.Document(bson.D{
			{Key: "_id", Value: bson.ObjectID{11: byte(i)}},
			{Key: "control", Value: bson.D{{Key: "source", Value: bson.D{{Key: "last", Value: last}}}}},
		}))
	}
	return documents
}

func TestScanGoesOnWhereItWas(t *testing.T) {
	u := &unsteady{after: 4, documents: listings(nil, int64(5), int64(7), int64(7), int64(7), int32(8), int64(9), int64(12))}
	came, err := scanned(t, u)
	if err != nil {
		t.Fatal(err)
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

func TestScanGivesUpWhereItGetsNoFurther(t *testing.T) {
	u := &unsteady{after: 1, stubborn: true, documents: listings(int64(5), int64(7), int64(9))}
	came, err := scanned(t, u)
	if _, ok := errors.AsType[*mongodb.OutageError](err); !ok || len(came) != 1 {
		t.Errorf("%d buckets came, %v", len(came), err)
	}
	if n := len(u.batches); n != scanTries {
		t.Errorf("tried %d times", n)
	}
}

func TestScanEndsWithItsUser(t *testing.T) {
	s := scan{c: &unsteady{after: 4, documents: listings(int64(5))}, to: 20, beside: map[[3]string]bool{}, odd: map[[3]string]bool{}}
	full := errors.New("full")
	if err := s.run(t.Context(), func(bson.Raw) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
}

// TestScanTellsBucketsOfTwoShardsApart checks this because an _id is unique only within a shard.
func TestScanTellsBucketsOfTwoShardsApart(t *testing.T) {
	bucket := func(meta string, least bson.DateTime) bson.Raw {
		return mongodb.Document(bson.D{{Key: "_id", Value: bson.ObjectID{11: 1}}, {Key: "meta", Value: meta}, {Key: "control", Value: bson.D{
			{Key: "min", Value: bson.D{{Key: "time", Value: least}}}, {Key: "source", Value: bson.D{{Key: "last", Value: int64(5)}}},
		}}})
	}
	u := &unsteady{after: 9, documents: []bson.Raw{bucket("a", 0), bucket("b", 0), bucket("a", 1), bucket("a", 1)}}
	came, err := scanned(t, u)
	if n := came[bson.ObjectID{11: 1}]; err != nil || n != 3 {
		t.Errorf("%d buckets came, want 3, and one of them not again: %v", n, err)
	}
}
