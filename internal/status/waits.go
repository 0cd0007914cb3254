package status

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"waterwheel/internal/cli/text"
	"waterwheel/pipeline"
)

// pending is a server that the start waits for.
type pending struct {
	of    pipeline.Dependency
	at    string
	since time.Time
	why   error
	told  time.Time // when it was last reported
}

// cause returns why in one line, without the words that the sentence already has.
func (p *pending) cause() string {
	cause := strings.TrimPrefix(p.why.Error(), "connecting to "+p.of.Name()+": ")
	return strings.ReplaceAll(cause, "\n", "; ") // several brokers have one line each
}

// waits are the servers that the start waits for. It is safe for concurrent use.
type waits struct {
	mu sync.Mutex
	by map[pipeline.Dependency]pending
}

// Waiting records that the start waits for a server at an address, and why. A nil why ends the wait.
func (v *View) Waiting(of pipeline.Dependency, at string, since time.Time, why error) {
	before := v.waits.note(pending{of, at, since, why, time.Now()})
	v.outages.WithLabelValues(of.String()).Add(time.Since(before).Seconds())
}

// note records a wait, or removes it. It returns the time up to which the wait was already counted.
func (w *waits) note(p pending) (before time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before = p.since
	if known, ok := w.by[p.of]; ok {
		before = known.told
	}
	if p.why == nil {
		delete(w.by, p.of)
		return before
	}
	if w.by == nil {
		w.by = map[pipeline.Dependency]pending{}
	}
	w.by[p.of] = p
	return before
}

func (w *waits) list() []pending {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Values(w.by), func(a, b pending) int { return int(a.of) - int(b.of) })
}

// waits adds a sentence for each server that the start waits for.
func (r *readiness) waits(list []pending) {
	for _, p := range list {
		r.notReady(aboutReadiness, "waiting for %s (%s) since %s: %s", p.of.Name(), p.at, text.Time(p.since), p.cause())
	}
	if len(list) == 0 {
		r.notReady(aboutReadiness, "connecting to Kafka and MongoDB")
	}
}
