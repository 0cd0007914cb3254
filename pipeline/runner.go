package pipeline

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"waterwheel/internal/timeseries"
)

// tickInterval is how often a worker looks at the clock. It bounds how late a flush or a retry may be.
const tickInterval = 50 * time.Millisecond

// runner feeds one worker and lets its actions be carried out, each in a goroutine of its own. The goroutine of run is the
// only one that touches the worker.
type runner struct {
	executor
	clock func() Instant
	kick  func() // asks for a commit soon

	away   bool               // the last term ended because the partition went to another process
	asks   chan func(*Worker) // questions of other goroutines, for as long as the process lives
	acting sync.WaitGroup

	status atomic.Pointer[Status]

	collection atomic.Pointer[timeseries.Options] // as it was last changed. Nil means that it was not.
	applied    *timeseries.Options                // the options that the worker was told
	compact    atomic.Bool                        // an operator's command waits until all present segments are compacted
}

// run is one term: it returns when the partition was handed over, or ctx is done and everything under way has stopped.
func (r *runner) run(ctx context.Context, t *runningTerm, first Assigned) {
	defer close(t.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		r.acting.Wait()
		r.leave()
		r.away = t.leaving.Load()
	}()
	first.Consecutive = first.Consecutive && !r.away
	fetching, stopFetching := context.WithCancel(ctx) // it ends first, when the partition is revoked
	defer stopFetching()
	handle := func(e Event) (handedOver bool) {
		for _, action := range r.handle(t, e) {
			switch a := action.(type) {
			case HandedOver:
				handedOver = true
			case Open:
				r.open(a)
			case CommitNow:
				r.urgent.Store(true)
				r.kick()
			case Fetch:
				r.acting.Go(func() { t.answer(ctx, r.perform(fetching, a)) })
			default:
				r.acting.Go(func() { t.answer(ctx, r.perform(ctx, action)) })
			}
		}
		return handedOver
	}
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	r.applyCollection(t)
	handedOver := handle(first)
	for !handedOver {
		select {
		case e := <-t.events:
			handedOver = handle(e)
		case ask := <-r.asks:
			ask(r.worker)
		case <-tick.C:
			if t.over() {
				cancel()
				continue
			}
			r.applyCollection(t)
			handedOver = handle(Ticked{})
		case shutdown := <-t.revoke:
			stopFetching()
			handedOver = handle(Revoked{Shutdown: shutdown})
		case <-ctx.Done():
			r.acting.Wait()
			handle(Abandoned{})
			return
		}
	}
}

// forget drops what the worker holds in memory. Only between terms.
func (r *runner) forget() {
	r.executor.forget(r.clock())
	r.status.Store(nil)
}

// handle gives an event to the worker and publishes what others may see of it.
func (r *runner) handle(t *runningTerm, e Event) []Action {
	gen := t.gen.Load()
	m := Moment{Now: r.clock(), Held: gen.Held(), Renewed: gen.Renewed()}
	actions := r.give(m, e)
	r.status.Store(r.worker.Status(m.Now))
	return actions
}

// applyCollection tells the worker when the options of the collection have changed.
func (r *runner) applyCollection(t *runningTerm) {
	if o := r.collection.Load(); o != r.applied {
		r.applied = o
		r.handle(t, CollectionChanged{Options: *o})
	}
	if r.compact.Swap(false) {
		r.handle(t, CompactionAsked{})
	}
}
