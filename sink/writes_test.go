package sink_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func itoa(n int) string { return strconv.Itoa(n) }

func sendAll(t testing.TB, p *sink.Partition, want bucketer.Result, writes ...*bucketer.Write) []bucketer.Sent {
	t.Helper()
	sent := p.Send(t.Context(), writes)
	for i, s := range sent {
		if s.Result != want {
			t.Fatalf("write %d is %v (%d %s, %v), not %v", i, s.Result, s.Code, s.Message, s.Err, want)
		}
	}
	return sent
}

func TestSendTellsWhichWritesFoundTheirBucket(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	a := insertOf("a", run(0, 2)...)
	sendAll(t, p, bucketer.Applied, a)
	b := insertOf("b", run(10, 1)...)
	got := p.Send(t.Context(), []*bucketer.Write{a, b})
	if got[0].Result != bucketer.Unknown || got[0].Code != 11000 {
		t.Errorf("a duplicate _id: %+v", got)
	}
	// A server that counts the duplicate as inserted leaves the other write in doubt.
	if found, err := p.Resolve(t.Context(), []*bucketer.Write{a, b}); err != nil || found[0] != bucketer.Applied || found[1] != bucketer.Applied {
		t.Errorf("read back: %v, %v (sent %+v)", found, err, got)
	}
	missing := insertOf("c", run(20, 1)...)
	sent := p.Send(t.Context(), []*bucketer.Write{updateOf(a, run(5, 1)[0]), updateOf(missing, run(21, 1)[0])})
	for i, s := range sent {
		if s.Result != bucketer.Unknown { // the server reports only the sum
			t.Errorf("update %d: %+v", i, s)
		}
	}
	sendAll(t, p, bucketer.Unknown, updateOf(missing, run(21, 1)[0]))
}

func TestSendOfThousandsOfWrites(t *testing.T) {
	for _, parallel := range []int{1, 4} {
		e := connect(t)
		store := e.setup(t)
		store.Parallel = parallel
		p := e.claimed(t, store)
		var inserts, updates []*bucketer.Write
		for i := range 1100 {
			w := insertOf(itoa(i), run(int64(i)*10, 1)...)
			inserts, updates = append(inserts, w), append(updates, updateOf(w, run(int64(i)*10+1, 1)[0]))
		}
		sendAll(t, p, bucketer.Applied, inserts...)
		sendAll(t, p, bucketer.Applied, updates[:20]...)
		if d, err := p.Stored(t.Context(), 0, 1<<31); err != nil || d.Len() != 1120 {
			t.Errorf("parallel %d: %v, %v", parallel, d.Len(), err)
		}
	}
}

// TestCallsWithoutATurnAreNotSent covers a Send that is too slow. Calls in progress are answered, and the others are not sent.
func TestCallsWithoutATurnAreNotSent(t *testing.T) {
	var now atomic.Int64
	calls := 0
	buckets := &slowInserts{took: func() { calls++; now.Add(int64(400 * time.Millisecond)) }}
	store := sink.NewStore(collection.Ready{Ports: collection.Ports{Buckets: buckets}}, sink.StoreOptions{
		WriteTimeout: time.Second, Parallel: 1, CallWrites: 1, Clock: func() time.Duration { return time.Duration(now.Load()) },
	})
	p := sink.HoldingPartition(store)
	writes := make([]*bucketer.Write, 4)
	for i := range writes {
		writes[i] = insertOf("a", timeseries.Position{Offset: int64(i)})
	}
	sent := p.Send(t.Context(), writes)
	if calls != 2 { // the third would have 200 ms, less than each of the others took
		t.Errorf("%d calls", calls)
	}
	for i, s := range sent {
		if began := i < 2; began != (s.Result == bucketer.Applied) || !began && (s.Result != bucketer.NotExecuted || !errors.Is(s.Err, claim.ErrNoTurn)) {
			t.Errorf("write %d: %+v", i, s)
		}
	}
	now.Store(0)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if calls = 0; p.Send(cancelled, writes)[0].Result != bucketer.NotExecuted || calls != 0 {
		t.Errorf("%d calls were made when the term was over", calls)
	}
}

// slowInserts is a Collection with slow inserts.
type slowInserts struct {
	mongodb.Editable
	took func()
}

// Insert implements mongodb.Collection.
func (s *slowInserts) Insert(_ context.Context, documents []bson.Raw) (mongodb.Reply, error) {
	s.took()
	return mongodb.Reply{N: len(documents)}, nil
}
