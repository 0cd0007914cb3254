package sink

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
)

func TestSplitBoundsCallsAndKeepsKindsApart(t *testing.T) {
	write := func(kind bucketer.Kind, bytes int) *bucketer.Write {
		return &bucketer.Write{Kind: kind, Document: make(bson.Raw, bytes-mongodb.WriteOverhead)}
	}
	many := make([]*bucketer.Write, 2500)
	for i := range many {
		many[i] = write(bucketer.Kind(i%2), 100)
	}
	for name, c := range map[string]struct {
		writes []*bucketer.Write
		want   []int // numbers of writes per call
	}{
		"none":      {nil, nil},
		"kinds":     {[]*bucketer.Write{write(bucketer.Update, 100), write(bucketer.Insert, 100), write(bucketer.Update, 100)}, []int{1, 2}},
		"number":    {many, []int{1000, 250, 1000, 250}},
		"bytes":     {[]*bucketer.Write{write(0, mongodb.MaxCallBytes*5/8), write(0, mongodb.MaxCallBytes*3/8), write(0, 100)}, []int{2, 1}},
		"large one": {[]*bucketer.Write{write(0, 100), write(0, 12<<20), write(0, 100)}, []int{1, 1, 1}},
	} {
		var got []int
		seen := make([]bool, len(c.writes))
		for _, call := range split(c.writes, mongodb.MaxCallWrites) {
			got = append(got, len(call.indexes))
			for _, i := range call.indexes {
				if c.writes[i].Kind != call.kind || seen[i] {
					t.Errorf("%s: write %d is of another kind, or twice in a call", name, i)
				}
				seen[i] = true
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// scripted is a Collection that answers with functions.
type scripted struct {
	mongodb.Editable
	insert func([]bson.Raw) (mongodb.Reply, error)
}

func (s scripted) Insert(_ context.Context, documents []bson.Raw) (mongodb.Reply, error) {
	return s.insert(documents)
}

func TestSendAsksTheLeaseBeforeEachCommand(t *testing.T) {
	left, sent := 2, 0
	buckets := scripted{insert: func(documents []bson.Raw) (mongodb.Reply, error) {
		sent++
		return mongodb.Reply{N: len(documents)}, nil
	}}
	store := NewStore(collection.Ready{Ports: collection.Ports{Buckets: buckets}}, StoreOptions{
		WriteTimeout: time.Second, Parallel: 1, Lease: func() bool { left--; return left >= 0 },
	})
	p := &Partition{store: store, standing: holding}
	writes := make([]*bucketer.Write, 3)
	for i := range writes {
		writes[i] = &bucketer.Write{Document: make(bson.Raw, mongodb.MaxCallBytes)}
	}
	got := p.Send(t.Context(), writes)
	if sent != 2 || got[1].Result != bucketer.Applied || got[2].Result != bucketer.NotExecuted || !errors.Is(got[2].Err, claim.ErrLapsed) {
		t.Errorf("%d commands, %+v", sent, got)
	}
}
