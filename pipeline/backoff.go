package pipeline

import (
	"math/rand/v2"
	"time"
)

// Delays between attempts against a server that does not answer. The longest delay is short, so that writing resumes soon after
// the server does.
const (
	shortestDelay = 50 * time.Millisecond
	longestDelay  = time.Second
)

// backoff counts failures in a row and says when to try again.
type backoff struct {
	failures int
	until    Instant
}

// fail postpones the next attempt. The delay grows exponentially up to longestDelay, and the jitter shortens it by up to half.
func (b *backoff) fail(now Instant, rnd *rand.Rand) {
	delay := min(shortestDelay<<min(b.failures, 10), longestDelay)
	b.failures++
	b.until = now + delay/2 + time.Duration(rnd.Int64N(int64(delay/2)))
}

func (b *backoff) succeed() { *b = backoff{} }

// ready reports whether the next attempt may be made.
func (b *backoff) ready(now Instant) bool { return now >= b.until }
