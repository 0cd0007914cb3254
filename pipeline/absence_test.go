package pipeline

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// newcomer is a generation without a predecessor. Its lease is held once a commit was accepted.
type newcomer struct {
	fakeGeneration
	held atomic.Bool
}

func (g *newcomer) Held() bool { return g.held.Load() }

func (g *newcomer) Commit(ctx context.Context, commits []record.Commit) ([]error, error) {
	g.held.Store(true)
	return g.fakeGeneration.Commit(ctx, commits)
}

// guardedPorts check the lease before they send, as package sink does.
type guardedPorts struct {
	fakePorts
	held func() bool
}

type guardedStore struct {
	fakeStore
	held func() bool
}

func (p guardedPorts) Open(source timeseries.Source) (Log, Store) {
	l, s := p.fakePorts.Open(source)
	return l, guardedStore{s.(fakeStore), p.held}
}

func (s guardedStore) Send(ctx context.Context, writes []*bucketer.Write) []bucketer.Sent {
	if s.held() {
		return s.fakeStore.Send(ctx, writes)
	}
	_ = wait(ctx, 100*time.Millisecond)
	sent := make([]bucketer.Sent, len(writes))
	for i := range sent {
		sent[i] = bucketer.Sent{Result: bucketer.NotExecuted, Err: claim.ErrLapsed}
	}
	return sent
}

// holding starts a consumer that owns partitions 0 and 1 in a generation, with records of them in memory. While slow is set, it
// sends nothing.
func holding(t *testing.T, gen Generation, slow *atomic.Bool) (*Consumer, *fakeDatabase) {
	t.Helper()
	database := newFakeDatabase()
	logs := make([]*fakeLog, 3)
	for i := range logs {
		logs[i] = &fakeLog{partition: int32(i), begin: time.Now(), rate: 50, total: 1 << 20, most: 100, series: 1}
		database.logs[int32(i)] = logs[i]
	}
	var c *Consumer
	ports := guardedPorts{fakePorts{database: database, logs: logs}, func() bool { return !slow.Load() && c.Held() }}
	c = newFakeConsumer(t, ports, NewBudget(1<<30), definedBy(timeseries.Seconds))
	c.Assigned(gen, both(), false)
	pass(t, 22500*time.Millisecond) // between two flushes
	return c, database
}

// TestHandOverAfterASkippedGenerationUsesTheLeaseThatIsLeft checks a hand-over in a new generation, which has no lease before its
// first claim.
func TestHandOverAfterASkippedGenerationUsesTheLeaseThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, database := holding(t, newLimited(), new(atomic.Bool))
		before := database.claimed()
		c.Assigned(&newcomer{fakeGeneration: fakeGeneration{committed: map[int32]int64{}}}, both(), false)
		pass(t, 4500*time.Millisecond)
		for partition, former := range before {
			if database.claimed()[partition].Claim == former.Claim {
				t.Errorf("partition %d is not handed over and claimed anew", partition)
			}
		}
		c.Revoke(context.Background(), true)
	})
}

// TestLeaseThatWasNeverHeldHoldsUpNoHandOver has a partition that is new in that generation. It waits for its former owner, and
// commits nothing in the meantime.
func TestLeaseThatWasNeverHeldHoldsUpNoHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, database := holding(t, newLimited(), new(atomic.Bool))
		database.claims[2] = claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{9}, Wait: 30 * time.Second, Lease: 10 * time.Second}
		c.Assigned(&newcomer{fakeGeneration: fakeGeneration{committed: map[int32]int64{}}}, []Assignment{{events(2), Assigned{TopicID: thisTopic}}}, false)
		pass(t, 4500*time.Millisecond)
		if claims := database.claimed(); !claims[0].Released || !claims[1].Released {
			t.Errorf("released: %v, %v", claims[0].Released, claims[1].Released)
		}
		c.Revoke(t.Context(), true)
	})
}

// TestLeaseOfWhatHasEndedHoldsUpNoLastHandOver ends the process while a partition is still handed over under a former lease.
func TestLeaseOfWhatHasEndedHoldsUpNoLastHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		first := newLimited()
		c, database := holding(t, first, &slow)
		slow.Store(true)
		c.Assigned(newLimited(), both()[:1], true)
		pass(t, time.Second)
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Revoke(t.Context(), true)
		}()
		pass(t, time.Second)
		first.lapsed.Store(true)
		pass(t, 2*time.Second)
		slow.Store(false)
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatal("what is still ours is not handed over")
		}
		if claims := database.claimed(); !claims[0].Released || claims[1].Released {
			t.Errorf("released: %v, and of what the lease ended for %v", claims[0].Released, claims[1].Released)
		}
	})
}

// hangingPorts do not answer while they hang.
type hangingPorts struct {
	fakePorts
	hang *atomic.Bool
}

type hangingStore struct {
	fakeStore
	hang *atomic.Bool
}

func (p hangingPorts) Open(source timeseries.Source) (Log, Store) {
	l, s := p.fakePorts.Open(source)
	return l, hangingStore{s.(fakeStore), p.hang}
}

func (s hangingStore) Read(ctx context.Context) (claim.Document, error) {
	for s.hang.Load() && ctx.Err() == nil {
		_ = wait(ctx, 50*time.Millisecond)
	}
	return s.fakeStore.Read(ctx)
}

// TestSightOfBeforeAnAbsenceIsForgotten also covers a partition that returns before its former term has ended.
func TestSightOfBeforeAnAbsenceIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 30 * time.Second
		database := newFakeDatabase()
		l := &fakeLog{begin: time.Now(), rate: 50, total: 1 << 20, most: 100, series: 1}
		database.logs[0] = l
		former := claim.Token{9}
		database.claims[0] = claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: former, Wait: wait, Lease: 10 * time.Second}
		var hang atomic.Bool
		c := newFakeConsumer(t, hangingPorts{fakePorts{database: database, logs: []*fakeLog{l}}, &hang}, NewBudget(1<<30), definedBy(timeseries.Seconds))
		ours := func() []Assignment { return []Assignment{{events(0), Assigned{TopicID: thisTopic}}} }
		c.Assigned(newLimited(), ours(), false)
		pass(t, time.Second) // the claim is seen, but no commit proves it
		hang.Store(true)
		pass(t, time.Second)
		c.Assigned(newLimited(), nil, true) // the partition belongs to another process
		pass(t, 3*time.Second)
		back := time.Now()
		c.Assigned(newLimited(), ours(), true)
		pass(t, time.Second)
		c.Assigned(newLimited(), ours(), true) // and the partition stays
		pass(t, time.Second)
		hang.Store(false)
		for range 120 {
			if pass(t, 500*time.Millisecond); database.claimed()[0].Claim != former {
				break
			}
		}
		if waited := time.Since(back); waited < wait || waited > 2*wait {
			t.Errorf("it is claimed %v after it came back", waited)
		}
		c.Revoke(context.Background(), true)
	})
}
