package sink_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// hurried is a context whose deadline can be moved while it is in use.
type hurried struct {
	context.Context
	until atomic.Pointer[time.Time]
}

func newHurried(parent context.Context, left time.Duration) *hurried {
	h := &hurried{Context: parent}
	h.set(left)
	return h
}

func (h *hurried) set(left time.Duration) {
	until := time.Now().Add(left)
	h.until.Store(&until)
}

// Deadline implements context.Context.
func (h *hurried) Deadline() (time.Time, bool) { return *h.until.Load(), true }

// onBuckets opens the collection of buckets on a scripted server, with a connection in the pool.
func onBuckets(t *testing.T, hello bson.D) (*fake, sink.Collection) {
	t.Helper()
	f := newFake(t, hello)
	d, err := sink.Open(t.Context(), sink.Options{
		URI: "mongodb://" + f.Addr().String() + "/?directConnection=true", Database: "db", WriteTimeout: 2 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(t.Context()) })
	f.answer("insert", counting(1))
	buckets := d.Collection("events.buckets")
	if _, err := buckets.Insert(t.Context(), documentsOf(1)); err != nil {
		t.Fatal(err)
	}
	return f, buckets
}

func documentsOf(n int) []bson.Raw {
	documents := make([]bson.Raw, n)
	for i := range documents {
		documents[i] = marshal(bson.D{{Key: "_id", Value: i}})
	}
	return documents
}

func TestWhatTheDriverHadNoTimeForWasNotSent(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{
		"the deadline is over": newHurried(t.Context(), -time.Millisecond), "the context is cancelled": cancelled,
	} {
		f, buckets := onBuckets(t, nil)
		before := len(f.sent("insert"))
		_, err := buckets.Insert(ctx, documentsOf(2))
		if not := (*sink.NotSentError)(nil); !errors.As(err, &not) || !errors.Is(err, bucketer.ErrNoTurn) {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(f.sent("insert")) - before; n != 0 {
			t.Errorf("%s: %d commands were sent", name, n)
		}
	}
}

// The driver finds the time to be over between the two commands that it has made of one call.
func TestACallThatIsSplitIsUnknownWhenTheTimeIsOverInTheMiddle(t *testing.T) {
	f, buckets := onBuckets(t, bson.D{{Key: "maxWriteBatchSize", Value: int32(1)}})
	ctx := newHurried(t.Context(), time.Minute)
	f.answer("insert", func(bson.Raw) bson.D {
		ctx.set(-time.Millisecond)
		return bson.D{{Key: "n", Value: int32(1)}}
	})
	before := len(f.sent("insert"))
	_, err := buckets.Insert(ctx, documentsOf(2))
	if n := len(f.sent("insert")) - before; n != 1 {
		t.Fatalf("%d commands were sent: %v", n, err)
	}
	if not := (*sink.NotSentError)(nil); err == nil || errors.As(err, &not) {
		t.Errorf("a call of which the first command was executed is said to be not sent: %v", err)
	}
}

func TestWhatWasSentAndNotAnsweredInItsTimeIsUnknown(t *testing.T) {
	f, buckets := onBuckets(t, nil)
	release := make(chan struct{})
	f.answer("insert", func(bson.Raw) bson.D { <-release; return counting(1)(nil) })
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := buckets.Insert(ctx, documentsOf(1))
	if not := (*sink.NotSentError)(nil); err == nil || errors.As(err, &not) {
		t.Errorf("what was sent is said to be not sent: %v", err)
	}
	if len(f.sent("insert")) == 0 {
		t.Error("nothing was sent")
	}
}

// Calls of one Send that is too slow: those that began are answered, the others are not begun.
func TestCallsWithoutATurnAreNotSent(t *testing.T) {
	var now atomic.Int64
	calls := 0
	buckets := &slowInserts{took: func() { calls++; now.Add(int64(400 * time.Millisecond)) }}
	store := sink.NewStore(sink.Ready{Ports: sink.Ports{Buckets: buckets}}, sink.StoreOptions{
		WriteTimeout: time.Second, Parallel: 1, CallWrites: 1, Clock: func() time.Duration { return time.Duration(now.Load()) },
	})
	p := sink.HoldingPartition(store)
	writes := make([]*bucketer.Write, 4)
	for i := range writes {
		writes[i] = insertOf("a", timeseries.Position{Offset: int64(i)})
	}
	sent := p.Send(t.Context(), writes)
	if calls != 2 { // the third would have 200 ms, less than either of those before took
		t.Errorf("%d calls", calls)
	}
	for i, s := range sent {
		if began := i < 2; began != (s.Result == bucketer.Applied) || !began && (s.Result != bucketer.NotExecuted || !errors.Is(s.Err, bucketer.ErrNoTurn)) {
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

// slowInserts is a Collection that takes its time.
type slowInserts struct {
	sink.Editable
	took func()
}

// Insert implements sink.Collection.
func (s *slowInserts) Insert(_ context.Context, documents []bson.Raw) (sink.Reply, error) {
	s.took()
	return sink.Reply{N: len(documents)}, nil
}
