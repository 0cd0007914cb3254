package mongodb

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// longestSilence is the longest time to wait for an answer to a read.
	longestSilence = time.Hour
	// forgetSilence is how long after the last lost answer the first time limit applies again. It is longer than any wait for an
	// answer.
	forgetSilence = 3 * time.Hour
)

// silence is how long a read waits for one answer of a server. A read may take long, but its answer may also be lost while the
// connection lives on, in a proxy or in a server that forgets it. Nothing else would end such a read. So the read is given up
// after a while. Each such read doubles the time of later reads, so a long read succeeds at last. It is safe for concurrent use.
type silence struct {
	first time.Duration // Zero means that no read is given up.

	mu   sync.Mutex
	wait time.Duration
	last time.Time // when a read was given up
}

// most is how long a read that begins now waits for an answer. Zero means no limit.
func (s *silence) most() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wait == 0 || time.Since(s.last) > forgetSilence {
		s.wait = s.first
	}
	return s.wait
}

// gaveUp notes that an answer did not come within after. Reads that wait at the same time count once.
func (s *silence) gaveUp(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last = time.Now(); s.wait == after {
		s.wait = min(2*after, max(longestSilence, s.first))
	}
}

// answered runs a read that waits for one answer, with the time limit. It translates the read's error.
func (d *Database) answered(ctx context.Context, read func(context.Context) error) error {
	most := d.silence.most()
	if until, bounded := ctx.Deadline(); most == 0 || bounded && time.Until(until) < most {
		return d.Translate(read(ctx))
	}
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := d.Translate(read(limited))
	if _, ok := errors.AsType[*silentError](err); ok && ctx.Err() == nil {
		d.silence.gaveUp(most)
	}
	return Within(most, err)
}
