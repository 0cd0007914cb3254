package mongodb

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// longestSilence is how long an answer to a read is awaited at most.
	longestSilence = time.Hour
	// forgetSilence is how long after the last lost answer the first time counts again. It is longer than any answer is awaited.
	forgetSilence = 3 * time.Hour
)

// silence is how long a read waits for one answer of a server. A long read may take its time, but an answer may also be lost where the
// connection lives on: by a proxy, or by a server that forgets it. Nothing would end such a read, so it is given up, and each one that
// is given up lets those after it wait twice as long: a read that takes long is done at last. Safe for concurrent use.
type silence struct {
	first time.Duration // Zero means that no read is given up.

	mu   sync.Mutex
	wait time.Duration
	last time.Time // when a read was given up
}

// most is how long an answer to a read that begins now is awaited. Zero means for as long as it takes.
func (s *silence) most() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wait == 0 || time.Since(s.last) > forgetSilence {
		s.wait = s.first
	}
	return s.wait
}

// gaveUp notes that an answer did not come in that time. Reads that wait at the same time count once.
func (s *silence) gaveUp(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last = time.Now(); s.wait == after {
		s.wait = min(2*after, max(longestSilence, s.first))
	}
}

// answered lets a read wait for one answer, and gives its error the words of this package.
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
