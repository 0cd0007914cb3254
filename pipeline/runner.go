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

// runner feeds one worker and has its actions carried out, each in a goroutine of its own. Only the goroutine of run touches
// the worker.
type runner struct {
	executor
	clock func() Instant
	kick  func() // asks for an early commit

	away   bool               // the last term ended because the partition went to another process
	asks   chan func(*Worker) // questions of other goroutines, as long as the process lives
	acting sync.WaitGroup

	status atomic.Pointer[Status]

	collection atomic.Pointer[timeseries.Options] // as last changed. Nil means that it has not changed.
	applied    *timeseries.Options                // the options that the worker has been told
	compact    atomic.Bool                        // an operator's command waits until all present segments are compacted
}

// run runs one term. It returns when the partition was handed over, or when ctx is done and everything under way has stopped.
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
	fetching, stopFetching := context.WithCancel(ctx) // a revocation ends it, before ctx
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
				r.acting.Go(func() { t.answer(ctx, a.perform(fetching, &r.executor)) })
			default:
				r.acting.Go(func() { t.answer(ctx, action.perform(ctx, &r.executor)) })
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

// forget drops what the worker holds in memory. It is called between terms only.
func (r *runner) forget() {
	r.executor.forget(r.clock())
	r.status.Store(nil)
}

// handle gives an event to the worker and publishes its status.
func (r *runner) handle(t *runningTerm, e Event) []Action {
	gen := t.gen.Load()
	m := Moment{Now: r.clock(), Held: gen.Held(), Renewed: gen.Renewed()}
	actions := r.give(m, e)
	r.status.Store(r.worker.Status(m.Now))
	return actions
}

// applyCollection tells the worker about changed options of the collection, and about a requested compaction.
func (r *runner) applyCollection(t *runningTerm) {
	if o := r.collection.Load(); o != r.applied {
		r.applied = o
		r.handle(t, CollectionChanged{Options: *o})
	}
	if r.compact.Swap(false) {
		r.handle(t, CompactionAsked{})
	}
}

// usedLease is the lease of a generation. It binds this process once something may have been sent under it.
type usedLease struct {
	Generation
	used atomic.Bool // the lease held when a sender asked
}

// Held implements Generation.
func (l *usedLease) Held() bool {
	held := l.Generation.Held()
	if held && !l.used.Load() {
		l.used.Store(true)
	}
	return held
}

// lapsed reports whether writes that may have been sent under the lease must not arrive any more.
func (l *usedLease) lapsed() bool { return l.used.Load() && !l.Generation.Held() }

// runningTerm is one term of a worker, as the goroutines around it see it.
type runningTerm struct {
	runner *runner
	// gen is the generation whose lease counts, that is, the newest generation that assigned the partition to this process.
	gen atomic.Pointer[usedLease]
	// leaving means that the partition belongs to another process now. It is being handed over while the lease of gen holds.
	leaving atomic.Bool
	events  chan Event
	revoke  chan bool // True means the last hand-over of the process.
	ended   chan struct{}
}

func newRunningTerm(r *runner, gen *usedLease) *runningTerm {
	t := &runningTerm{runner: r, events: make(chan Event), revoke: make(chan bool, 1), ended: make(chan struct{})}
	t.gen.Store(gen)
	return t
}

// follow lets the term go on in the next generation. Writes that are under way now count under its lease.
func (t *runningTerm) follow(gen *usedLease) {
	gen.used.Store(true)
	t.gen.Store(gen)
}

func (t *runningTerm) held() bool { return t.gen.Load().Held() }

// over reports whether nothing more can be handed over, because the lease has ended and no commit renews it.
func (t *runningTerm) over() bool { return t.leaving.Load() && !t.held() }

// handOver asks for the hand-over. Only the first call counts. The argument last means that the process ends.
func (t *runningTerm) handOver(last bool) {
	select {
	case t.revoke <- last:
	default:
	}
}

// post gives an event to the worker, unless the term has ended.
func (t *runningTerm) post(e Event) {
	select {
	case t.events <- e:
	case <-t.ended:
	}
}

// answer posts the event of an action, unless the context has ended.
func (t *runningTerm) answer(ctx context.Context, e Event) {
	select {
	case t.events <- e:
	case <-ctx.Done():
	}
}
