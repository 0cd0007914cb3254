package pipeline

import (
	"context"
	"sync/atomic"
)

// tenancy is one tenure of a worker, as the goroutines around it see it.
type tenancy struct {
	runner *runner
	// gen is the generation whose lease counts: the newest one in which the partition is ours.
	gen atomic.Pointer[Generation]
	// leaving: the partition is somebody else's by now, and is being handed over as long as the lease of gen holds.
	leaving atomic.Bool
	events  chan Event
	revoke  chan bool // true: the process' last hand-over
	ended   chan struct{}
}

func newTenancy(r *runner, gen Generation) *tenancy {
	t := &tenancy{runner: r, events: make(chan Event), revoke: make(chan bool, 1), ended: make(chan struct{})}
	t.gen.Store(&gen)
	return t
}

func (t *tenancy) held() bool { return (*t.gen.Load()).Held() }

// over tells that nothing can be handed over any more: the lease has ended, and no commit renews it.
func (t *tenancy) over() bool { return t.leaving.Load() && !t.held() }

// handOver asks for the hand-over, once; last: the process ends.
func (t *tenancy) handOver(last bool) {
	select {
	case t.revoke <- last:
	default:
	}
}

// post hands an event to the worker, if the tenure has not ended.
func (t *tenancy) post(e Event) {
	select {
	case t.events <- e:
	case <-t.ended:
	}
}

// answer posts the event of an action, unless the tenure is over.
func (t *tenancy) answer(ctx context.Context, e Event) {
	select {
	case t.events <- e:
	case <-ctx.Done():
	}
}
