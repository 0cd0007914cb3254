package verify_test

import (
	"bytes"
	"context"
	"testing"

	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/verify"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// twoBuckets returns an arbitrary document, and a good one that lists the same positions.
type twoBuckets struct{ any, good bson.Raw }

func (b twoBuckets) Find(_ context.Context, _ timeseries.Source, _, _ int64, _ bool, each func(bson.Raw) error) error {
	if err := each(b.any); err != nil {
		return err
	}
	return each(b.good)
}

func (twoBuckets) Update(context.Context, bson.Raw, bson.Raw) (bool, error) { return true, nil }
func (twoBuckets) Delete(context.Context, bson.Raw) (bool, error)           { return true, nil }

// FuzzBucket verifies and repairs arbitrary documents. Nothing panics, and damaged documents stay unchanged.
func FuzzBucket(f *testing.F) {
	w := newWorld(f)
	w.fill(40)
	good := []byte(w.docs[w.full()])
	for _, id := range w.ids() {
		f.Add([]byte(w.docs[id]))
	}
	w.double(w.full())
	w.edit(w.full(), "data.x.99", 1)
	for _, id := range w.ids() {
		f.Add([]byte(w.docs[id]))
	}
	for at := range min(len(good), 200) { // damaged further and further inside
		broken := bytes.Clone(good)
		broken[at] ^= 0x42
		f.Add(broken)
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		v, err := verify.New(verify.Options{
			Collection: w.options, Decoder: w.decoder, Log: w, Buckets: twoBuckets{document, good}, Content: true, Repair: verify.Repair, Claims: w,
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := v.Partition(t.Context(), verify.Range{Source: w.source, From: 100, To: 140})
		if err != nil {
			t.Fatal(err)
		}
		if r.Repair.Repaired > r.Doubled.Count || r.StoredOnce < 0 {
			t.Errorf("%+v", r)
		}
	})
}

// Unfinished implements verify.Buckets.
func (twoBuckets) Unfinished(context.Context) (map[claim.Token]bool, error) { return nil, nil }
