package sink

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// turns say which calls of one Send may still begin. A call that is sent too late is cut off on its way, and unknown: so a call
// begins only if it has as much time as the slowest of those before it took. The first one always has.
type turns struct {
	clock   func() time.Duration
	until   time.Duration
	slowest atomic.Int64 // nanoseconds
}

func newTurns(s *Store) *turns {
	return &turns{clock: s.Clock, until: s.Clock() + s.WriteTimeout}
}

// begin reports whether a call may begin now, and when that is. The time is told by the clock alone; the context may be
// cancelled.
func (t *turns) begin(ctx context.Context) (now time.Duration, ok bool) {
	now = t.clock()
	left := t.until - now
	return now, left > 0 && left >= time.Duration(t.slowest.Load()) && !errors.Is(ctx.Err(), context.Canceled)
}

// end notes that a call is over.
func (t *turns) end(begun time.Duration) {
	took := int64(t.clock() - begun)
	for {
		slowest := t.slowest.Load()
		if took <= slowest || t.slowest.CompareAndSwap(slowest, took) {
			return
		}
	}
}
