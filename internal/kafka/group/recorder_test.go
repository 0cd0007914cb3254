package group

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"waterwheel/internal/record"
)

// recorder is a handler that notes its calls, checks the contract, and flushes as the test requires.
type recorder struct {
	mu      sync.Mutex
	events  []string
	current *Generation
	flush   func(context.Context, *Generation)
}

func newRecorder() *recorder { return &recorder{} }

func (r *recorder) note(event string, g *Generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%s %d", event, g.ID))
	if event == "assigned" {
		r.current = g
		return
	}
	if r.current != g {
		panic(event + " of a generation that is not the current one")
	}
	r.current = nil
}

// Assigned implements Handler.
func (r *recorder) Assigned(g *Generation) { r.note("assigned", g) }

// Revoke implements Handler.
func (r *recorder) Revoke(ctx context.Context, g *Generation) {
	r.mu.Lock()
	flush := r.flush
	r.mu.Unlock()
	if flush != nil {
		flush(ctx, g)
	}
	r.note("revoked", g)
}

// Lost implements Handler.
func (r *recorder) Lost(g *Generation) { r.note("lost", g) }

// onRevoke sets the action of the handler when a generation ends.
func (r *recorder) onRevoke(flush func(context.Context, *Generation)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flush = flush
}

// log returns the calls of the handler so far.
func (r *recorder) log() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// generation returns the current generation of the handler, nil if there is none.
func (r *recorder) generation() *Generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// count returns the number of calls with this event.
func (r *recorder) count(event string) int {
	n := 0
	for _, e := range r.log() {
		var kind string
		if _, err := fmt.Sscan(e, &kind); err == nil && kind == event {
			n++
		}
	}
	return n
}

func partitionsOf(g *Generation) []record.Partition {
	var partitions []record.Partition
	for _, p := range g.Partitions {
		partitions = append(partitions, p.Partition)
	}
	return partitions
}

func isSubset(part, whole []record.Partition) bool {
	return !slices.ContainsFunc(part, func(p record.Partition) bool { return !slices.Contains(whole, p) })
}
