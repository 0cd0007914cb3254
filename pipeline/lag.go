package pipeline

import (
	"time"

	"waterwheel/internal/record"
)

// lag follows whether the reading is behind the log's end by more than the last fetch brought. Records that were read while it
// was behind are written as soon as it reaches the end, because there is nothing more to wait for.
type lag struct {
	behind bool
	since  Instant
	over   bool // the end was reached, and no flush was cut since
	ended  bool // the end was reached at least once; what came before that was a backlog
}

// shortLag is the least duration of a lag whose end is a reason to flush, as a fraction of the flush interval. Without it, a
// stream whose fetches are full now and then would be written in small pieces. The lag of the backlog always counts.
const shortLag = 8

// took notes how far a fetched batch was read. The position is next now.
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
