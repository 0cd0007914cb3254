package cli

import (
	"fmt"
	"time"

	"waterwheel/internal/words"
)

// timeRange is what --from, --to and --last ask for; zero: no bound.
type timeRange struct{ from, to time.Time }

// parseRange reads the flags: --last counts back from --to, or from now.
func parseRange(from, to, last string, now time.Time) (r timeRange, err error) {
	if r.from, err = parseWhen("--from", from, now); err != nil {
		return r, err
	}
	if r.to, err = parseWhen("--to", to, now); err != nil {
		return r, err
	}
	if last != "" {
		length, ok := words.ParseSpan(last)
		switch {
		case !ok || length <= 0:
			return r, usageError{fmt.Errorf("--last is %q: a length of time as 90s, 1h30m, 7d or 2w", last)}
		case from != "":
			return r, usageError{fmt.Errorf("--last and --from both say where to begin: give one of them")}
		}
		if r.to.IsZero() {
			r.to = now.UTC().Truncate(time.Millisecond).Add(time.Millisecond)
		}
		r.from = r.to.Add(-length)
	}
	if !r.from.IsZero() && !r.to.IsZero() && !r.from.Before(r.to) {
		return r, usageError{fmt.Errorf("it ends at %s, and begins only at %s: is --from before --to?", r.to.Format(time.RFC3339), r.from.Format(time.RFC3339))}
	}
	return r, nil
}

// String says it for a sentence; empty: no bound.
func (r timeRange) String() (s string) {
	if !r.from.IsZero() {
		s = " from " + r.from.UTC().Format(time.RFC3339)
	}
	if !r.to.IsZero() {
		s += " to " + r.to.UTC().Format(time.RFC3339)
	}
	return s
}
