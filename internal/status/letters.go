package status

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"waterwheel/internal/record"
)

// shownLetters is the number of letters that the status page shows.
const shownLetters = 10

// recentLetters keeps the last letters, and counts those that the log has not reported. It is safe for concurrent use.
type recentLetters struct {
	// apart is the minimum time between two log lines about letters of one reason. It is longer than the time for which the
	// logger suppresses repeated lines, so that no count is lost.
	apart time.Duration

	mu     sync.Mutex
	last   []Letter                  // newest first
	untold map[string]*untoldLetters // by reason
}

// untoldLetters are the letters of one reason that the log has not reported.
type untoldLetters struct {
	count int
	last  Letter
	told  time.Time // when the log last reported some
}

// Written records letters that were just written.
func (v *View) Written(letters []record.Letter) {
	now := time.Now()
	for i := range letters {
		l := &letters[i]
		v.letters.add(Letter{At: now, Place: l.Place, Part: l.Part, Reason: l.Reason})
	}
}

// add records a letter.
func (r *recentLetters) add(l Letter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = slices.Insert(r.last, 0, l)
	r.last = r.last[:min(len(r.last), shownLetters)]
	u := r.untold[l.Reason]
	if u == nil {
		u = &untoldLetters{}
		r.untold[l.Reason] = u
	}
	u.count, u.last = u.count+1, l
}

// report logs a line for each reason with new letters, if the last line is long enough ago.
func (r *recentLetters) report(log *slog.Logger, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(r.untold)) {
		u := r.untold[reason]
		if u.count == 0 || now.Sub(u.told) < r.apart {
			continue
		}
		log.Warn("records became dead letters", "reason", reason, "letters", u.count,
			"last", u.last.Place, "show", "waterwheel dlq list --reason "+reason)
		u.count, u.told = 0, now
	}
}

// list returns the letters, newest first.
func (r *recentLetters) list() []Letter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.last)
}
