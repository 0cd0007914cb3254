package status

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"waterwheel/internal/record"
)

// shownLetters is how many letters the status page remembers.
const shownLetters = 10

// recentLetters remembers the last letters, and how many there were since the log said so. It is safe for concurrent use.
type recentLetters struct {
	// apart is the least time between two lines about letters of one reason. It is more than what the logger holds back, so
	// that no count is lost.
	apart time.Duration

	mu     sync.Mutex
	last   []Letter                  // newest first
	untold map[string]*untoldLetters // by reason
}

// untoldLetters are those of one reason that the log has not told of.
type untoldLetters struct {
	count int
	last  Letter
	told  time.Time // when it last did
}

// Written remembers letters that were written just now.
func (v *View) Written(letters []record.Letter) {
	now := time.Now()
	for i := range letters {
		l := &letters[i]
		v.letters.add(Letter{At: now, Place: l.Place, Part: l.Part, Reason: l.Reason})
	}
}

// add remembers a letter.
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

// report writes a line for each reason that new letters have, if the last one is long enough ago.
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
