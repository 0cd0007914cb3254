package pipeline

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"waterwheel/timeseries"
)

// tickInterval is how often a worker looks at the clock. It bounds how late a flush or a retry may be.
const tickInterval = 50 * time.Millisecond

// runner feeds one worker and lets its actions be carried out, each in a goroutine of its own. The goroutine of run is the
// only one that touches the worker.
type runner struct {
	hands
	clock func() Instant
	kick  func() // asks for a commit soon

	events chan Event
	asks   chan func(*Worker) // questions of other goroutines, for as long as the process lives
	revoke chan bool          // true: the process' last hand-over
	ended  chan struct{}
	acting sync.WaitGroup

	status atomic.Pointer[Status]

	collection atomic.Pointer[timeseries.Options] // as it was last changed; nil: it was not
	applied    *timeseries.Options                // the one that the worker was told
}

// run is one tenure: it returns when the partition was handed over, or ctx is done and everything under way has stopped.
func (r *runner) run(ctx context.Context, gen Generation, first Assigned) {
	defer close(r.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		r.acting.Wait()
		r.leave()
	}()
	fetching, stopFetching := context.WithCancel(ctx) // it ends first, when the partition is revoked
	defer stopFetching()
	handle := func(e Event) (handedOver bool) {
		for _, action := range r.handle(gen, e) {
			switch a := action.(type) {
			case HandedOver:
				handedOver = true
			case Open:
				r.open(a)
			case CommitNow:
				r.urgent.Store(true)
				r.kick()
			case Fetch:
				r.acting.Go(func() { r.answer(ctx, r.perform(fetching, a)) })
			default:
				r.acting.Go(func() { r.answer(ctx, r.perform(ctx, action)) })
			}
		}
		return handedOver
	}
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	r.applyCollection(gen)
	handedOver := handle(first)
	for !handedOver {
		select {
		case e := <-r.events:
			handedOver = handle(e)
		case ask := <-r.asks:
			ask(r.worker)
		case <-tick.C:
			r.applyCollection(gen)
			handedOver = handle(Ticked{})
		case shutdown := <-r.revoke:
			stopFetching()
			handedOver = handle(Revoked{Shutdown: shutdown})
		case <-ctx.Done():
			r.acting.Wait()
			handle(Abandoned{})
			return
		}
	}
}

// answer posts the event of an action, unless the tenure is over.
func (r *runner) answer(ctx context.Context, e Event) {
	select {
	case r.events <- e:
	case <-ctx.Done():
	}
}

// forget drops what the worker holds in memory. Only between tenures.
func (r *runner) forget() {
	r.hands.forget(r.clock())
	r.status.Store(nil)
}

// post hands an event to the tenure, if it has not ended.
func (r *runner) post(e Event) {
	select {
	case r.events <- e:
	case <-r.ended:
	}
}

// handle gives an event to the worker and publishes what others may see of it.
func (r *runner) handle(gen Generation, e Event) []Action {
	m := Moment{Now: r.clock(), Held: gen.Held()}
	actions := r.give(m, e)
	r.status.Store(r.worker.Status(m.Now))
	return actions
}

// applyCollection tells the worker when the options of the collection have changed.
func (r *runner) applyCollection(gen Generation) {
	if o := r.collection.Load(); o != r.applied {
		r.applied = o
		r.handle(gen, CollectionChanged{Options: *o})
	}
}
