package status

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/record"
	"waterwheel/pipeline"
)

// report is what the next progress line needs to know of the previous one.
type report struct {
	at   time.Time
	done pipeline.Totals
}

// progress logs the regular line about the consumer's progress, with the reasons for delays. It also warns about a wrong choice
// of meta.
func (v *View) progress(last report) report {
	p := v.parts.Load()
	this := report{at: time.Now(), done: v.o.Metrics.Totals()}
	statuses := v.statuses(this.at)
	sum := summed(statuses, this.at)
	stored, recognised := this.done.Stored-last.done.Stored, this.done.Recognised-last.done.Recognised
	letters := this.done.DeadLetters - last.done.DeadLetters
	rate := float64(stored) / max(this.at.Sub(last.at).Seconds(), 0.001)
	attributes := []any{
		"partitions", len(statuses), "lag", sum.lag, "freshness", sum.freshness.Round(time.Millisecond),
		"stored", stored, "stored_in_all", this.done.Stored, "rate", fmt.Sprintf("%.0f/s", rate),
		"recognised", recognised, "recognised_in_all", this.done.Recognised, "dead_letters", letters, "dead_letters_in_all", this.done.DeadLetters,
		"memory", text.Bytes(v.o.Budget.Total()) + " of " + text.Bytes(v.o.Budget.Limit()),
		"series", sum.series, "open_buckets", sum.open,
	}
	if sum.unknown > 0 {
		attributes = append(attributes, "lag_unknown", sum.unknown)
	}
	if len(sum.paused) > 0 {
		attributes = append(attributes, "paused", byReason(sum.paused))
	}
	view := v.snapshot()
	if len(view.NotReady) > 0 {
		attributes = append(attributes, "not_ready", join(view.NotReady, "; "))
	}
	if len(view.Degraded) > 0 {
		attributes = append(attributes, "degraded", join(view.Degraded, "; "))
	}
	v.o.Log.Info("progress", attributes...)
	if v.o.SeriesMax > 0 && sum.series > v.o.SeriesMax {
		v.overSeries.Inc()
		v.o.Log.Warn("there are more series than SERIES_MAX: check whether the meta has a value that changes with every event", "series", sum.series,
			"max", v.o.SeriesMax, "varies_most", p.MostVaried())
	}
	return this
}

// sums are totals over all partitions.
type sums struct {
	lag, series, open int64
	unknown           int // partitions whose lag is not known
	freshness         time.Duration
	paused            map[string][]string // partitions by reason
}

func summed(statuses []*pipeline.Status, now time.Time) sums {
	all := sums{paused: map[string][]string{}}
	for _, s := range statuses {
		if lag, ok := s.Lag(); ok {
			all.lag += lag
		} else {
			all.unknown++
		}
		if age, ok := s.Freshness(now); ok {
			all.freshness = max(all.freshness, age)
		}
		if s.Paused != "" {
			all.paused[s.Paused] = append(all.paused[s.Paused], s.Partition.String())
		}
		all.series += s.Buckets.Series
		all.open += s.Buckets.OpenBuckets
	}
	return all
}

// byReason formats partitions grouped by reason.
func byReason(partitions map[string][]string) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(partitions)) {
		parts = append(parts, text.List(partitions[reason])+": "+reason)
	}
	return strings.Join(parts, "; ")
}

// Stopped logs the last line: totals, and the records that will be read again because they were not stored. It is called after
// Watch has ended.
func (v *View) Stopped() {
	v.deadLetters.report(v.o.Log, time.Now().Add(v.deadLetters.apart))
	p := v.parts.Load()
	done := v.o.Metrics.Totals()
	totals := []any{"stored_in_all", done.Stored, "recognised_in_all", done.Recognised, "dead_letters_in_all", done.DeadLetters}
	statuses := p.Consumer.Statuses()
	again, waits := unwritten(statuses), unreleased(statuses)
	if waits != "" {
		totals = append(totals, "not_released", waits)
	}
	switch {
	case again != "":
		v.o.Log.Warn("stopped before all records were stored and committed: uncommitted records will be re-read and deduplicated",
			append([]any{"read_again", again}, totals...)...)
	case waits != "":
		v.o.Log.Warn("stopped before every partition was released: the next owners of those partitions wait for KAFKA_LEASE + 2 × MONGODB_WRITE_TIMEOUT", totals...)
	default:
		v.o.Log.Info("stopped", totals...)
	}
}

// unreleased names the partitions whose claim still stands although their assignment has ended. Empty means none.
func unreleased(statuses []*pipeline.Status) string {
	var partitions []string
	for _, s := range statuses {
		if s.Unreleased {
			partitions = append(partitions, s.Partition.String())
		}
	}
	return text.List(partitions)
}

// Hurried returns the error of a process that was not given the time to end in order.
func (v *View) Hurried() error {
	again := ""
	if p := v.parts.Load(); p != nil {
		again = unwritten(p.Consumer.Statuses())
	}
	if again == "" {
		return errors.New("a second signal ended the consumer before it left the group: the other members wait until the session of this consumer times out")
	}
	return fmt.Errorf("a second signal ended the consumer before it stored and committed all records; uncommitted records will be re-read and deduplicated: %s", again)
}

// unwritten names the records that were read since the assignment and are not committed. Empty means none.
func unwritten(statuses []*pipeline.Status) string {
	var ranges []string
	for _, s := range statuses {
		from := max(0, s.Committed)
		if s.ReadTo > from {
			ranges = append(ranges, fmt.Sprintf("%s from %d to %d", s.Partition, from, s.ReadTo-1))
		}
	}
	return text.List(ranges)
}

// shownDeadLetters is the number of letters that the status page shows.
const shownDeadLetters = 10

// recentDeadLetters keeps the last letters, and counts those that the log has not reported. It is safe for concurrent use.
type recentDeadLetters struct {
	// apart is the minimum time between two log lines about letters of one reason. It is longer than the time for which the
	// logger suppresses repeated lines, so that no count is lost.
	apart time.Duration

	mu     sync.Mutex
	last   []RecentDeadLetter            // newest first
	untold map[string]*untoldDeadLetters // by reason
}

// untoldDeadLetters are the letters of one reason that the log has not reported.
type untoldDeadLetters struct {
	count int
	last  RecentDeadLetter
	told  time.Time // when the log last reported some
}

// Written records letters that were just written.
func (v *View) Written(letters []record.DeadLetter) {
	now := time.Now()
	for i := range letters {
		l := &letters[i]
		v.deadLetters.add(RecentDeadLetter{At: now, Place: l.Place, Part: l.Part, Reason: l.Reason})
	}
}

// add records a letter.
func (r *recentDeadLetters) add(l RecentDeadLetter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = slices.Insert(r.last, 0, l)
	r.last = r.last[:min(len(r.last), shownDeadLetters)]
	u := r.untold[l.Reason]
	if u == nil {
		u = &untoldDeadLetters{}
		r.untold[l.Reason] = u
	}
	u.count, u.last = u.count+1, l
}

// report logs a line for each reason with new letters, if the last line is long enough ago.
func (r *recentDeadLetters) report(log *slog.Logger, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(r.untold)) {
		u := r.untold[reason]
		if u.count == 0 || now.Sub(u.told) < r.apart {
			continue
		}
		log.Warn("records became dead letters", "reason", reason, "dead_letters", u.count,
			"last", u.last.Place, "show", "waterwheel dlq list --reason "+reason)
		u.count, u.told = 0, now
	}
}

// list returns the letters, newest first.
func (r *recentDeadLetters) list() []RecentDeadLetter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.last)
}
