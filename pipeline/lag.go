package pipeline

import (
	"time"

	"waterwheel/internal/record"
)

// lag follows whether the reading is behind the log's end, by more than the last fetch brought. Records read while it was
// behind are written as soon as the end is reached: nothing more comes that it could wait for.
type lag struct {
	behind bool
	since  Instant
	over   bool // the end was reached, and no flush was cut since
	ended  bool // the end was reached at all: what came before was a backlog
}

// shortLag is the part of the flush interval that a lag lasts at least before its end is a reason to flush, but for that of
// the backlog: a stream whose fetches are full now and then is not written in bits.
const shortLag = 8

// took notes what was read of a fetch, the position being next.
func (l *lag) took(now Instant, b *record.Batch, next int64, interval time.Duration) {
	switch {
	case next >= b.End:
		if l.behind && (!l.ended || now-l.since >= interval/shortLag) {
			l.over = true
		}
		l.behind, l.ended = false, true
	case !b.More && !l.behind:
		l.behind, l.since = true, now
	}
}
