package pipeline

import (
	"context"
	"sync/atomic"
)

// lease is the lease of a generation. It binds this process once something may have been sent under it.
type lease struct {
	Generation
	used atomic.Bool // the lease held when a sender asked
}

// Held implements Generation.
func (l *lease) Held() bool {
	held := l.Generation.Held()
	if held && !l.used.Load() {
		l.used.Store(true)
	}
	return held
}

// lapsed reports whether writes that may have been sent under the lease must not arrive any more.
func (l *lease) lapsed() bool { return l.used.Load() && !l.Generation.Held() }

// runningTerm is one term of a worker, as the goroutines around it see it.
type runningTerm struct {
	runner *runner
	// gen is the generation whose lease counts, that is, the newest generation that assigned the partition to this process.
	gen atomic.Pointer[lease]
	// leaving means that the partition belongs to another process now. It is being handed over while the lease of gen holds.
	leaving atomic.Bool
	events  chan Event
	revoke  chan bool // True means the last hand-over of the process.
	ended   chan struct{}
}

func newRunningTerm(r *runner, gen *lease) *runningTerm {
	t := &runningTerm{runner: r, events: make(chan Event), revoke: make(chan bool, 1), ended: make(chan struct{})}
	t.gen.Store(gen)
	return t
}

// follow lets the term go on in the next generation. Writes that are under way now count under its lease.
func (t *runningTerm) follow(gen *lease) {
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
