package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"waterwheel/cmd/consumer/internal/text"
	"waterwheel/pipeline"
)

// progressReport is what the next line of progress needs to know of the last one. It belongs to the goroutine that writes
// them.
type progressReport struct {
	every time.Duration
	last  time.Time
	done  pipeline.Totals
}

// progress is the line that says from time to time how far the consumer is, with what holds it up, and warns about a wrong
// meta.
func (v *view) progress(log *slog.Logger) {
	now := time.Now()
	p := v.parts.Load()
	statuses := v.statuses(now)
	sum := summed(statuses, now)
	done := p.metrics.Totals()
	stored, letters := done.Stored-v.reports.done.Stored, done.Letters-v.reports.done.Letters
	took := now.Sub(v.reports.last)
	v.reports.last, v.reports.done = now, done

	attributes := []any{
		"partitions", len(statuses), "lag", sum.lag, "freshness", sum.freshness.Round(time.Millisecond),
		"stored", stored, "stored_in_all", done.Stored, "rate", fmt.Sprintf("%.0f/s", float64(stored)/max(took.Seconds(), 0.001)),
		"letters", letters, "letters_in_all", done.Letters,
		"memory", text.Bytes(v.budget.Total()) + " of " + text.Bytes(v.budget.Limit()),
		"series", sum.series, "open_buckets", sum.open,
	}
	if sum.unknown > 0 {
		attributes = append(attributes, "lag_unknown", sum.unknown)
	}
	if len(sum.paused) > 0 {
		attributes = append(attributes, "paused", byReason(sum.paused))
	}
	view := v.status()
	if len(view.NotReady) > 0 {
		attributes = append(attributes, "not_ready", strings.Join(view.NotReady, "; "))
	}
	if len(view.Degraded) > 0 {
		attributes = append(attributes, "degraded", strings.Join(view.Degraded, "; "))
	}
	log.Info("progress", attributes...)
	if v.seriesMax > 0 && sum.series > v.seriesMax {
		v.overSeries.Inc()
		log.Warn("more series than SERIES_MAX: is a value that changes with every event part of meta?", "series", sum.series,
			"max", v.seriesMax, "varies_most", mostVaried(p.consumer.Metas(sampledSeries)))
	}
}

// sums are of all partitions.
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
			all.paused[s.Paused] = append(all.paused[s.Paused], fmt.Sprintf("%s/%d", s.Topic, s.Partition))
		}
		all.series += s.Buckets.Series
		all.open += s.Buckets.OpenBuckets
	}
	return all
}

// byReason names partitions with what they have in common.
func byReason(partitions map[string][]string) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(partitions)) {
		parts = append(parts, text.List(partitions[reason])+": "+reason)
	}
	return strings.Join(parts, "; ")
}

// stopped is the last line: what was done, and what is read again because it was not.
func (v *view) stopped(log *slog.Logger) {
	v.letters.report(log, time.Now().Add(lettersApart))
	p := v.parts.Load()
	done := p.metrics.Totals()
	if again := unwritten(p.consumer.Statuses()); again != "" {
		log.Warn("stopped before all that was read was stored and committed: it is read again, and what is stored is recognised",
			"read_again", again, "stored_in_all", done.Stored, "letters_in_all", done.Letters)
		return
	}
	log.Info("stopped", "stored_in_all", done.Stored, "letters_in_all", done.Letters)
}

// hurried is the error of a process that was not given the time to end in order.
func (v *view) hurried() error {
	again := ""
	if p := v.parts.Load(); p != nil {
		again = unwritten(p.consumer.Statuses())
	}
	if again == "" {
		return errors.New("a second signal ended it before it had left the group: the others wait for its session to end")
	}
	return fmt.Errorf("a second signal ended it before all that was read was stored and committed: read again, and recognised "+
		"where it is stored: %s", again)
}

// unwritten names the records that were read since the assignment and are not committed; empty: none.
func unwritten(statuses []*pipeline.Status) string {
	var ranges []string
	for _, s := range statuses {
		from := max(0, s.Committed)
		if s.ReadTo > from {
			ranges = append(ranges, fmt.Sprintf("%s/%d from %d to %d", s.Topic, s.Partition, from, s.ReadTo-1))
		}
	}
	return text.List(ranges)
}
