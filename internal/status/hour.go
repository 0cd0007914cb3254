package status

import (
	"sync"
	"time"

	"waterwheel/internal/record"
	"waterwheel/pipeline"
)

// The page draws one hour. It has a sample every ten seconds for the whole consumer, and a cell every twenty seconds for each
// partition.
const (
	sampleInterval = 10 * time.Second
	hourSamples    = 360
	cellSamples    = 2
	hourCells      = hourSamples / cellSamples
)

// A partition is late if its age is at least lateIntervals flush intervals, and at least leastLate. It is stale if its age is
// above staleAfter and above twice the age that makes it late.
const (
	lateIntervals = 3
	leastLate     = 15 * time.Second
	staleAfter    = 2 * time.Minute
)

// cell is the state of a partition within twenty seconds. A larger value is worse.
type cell uint8

const (
	cellNone    cell = iota // another consumer has the partition, or no sample was taken
	cellFresh               // stored within a few flush intervals
	cellLate                // behind
	cellWaiting             // not read yet, or of unknown age
	cellStale               // far behind
	cellStopped             // waits for an operator
	cells
)

// String returns the word for a cell on the page.
func (c cell) String() string {
	return [cells]string{"elsewhere", "fresh", "late", "waiting", "stale", "stopped"}[c]
}

// sample is the state of the consumer at one moment, and what it did since the previous sample. Counts are zero if nothing
// happened. lag and freshness are -1 if they are unknown.
type sample struct {
	tick        int64 // the moment, in intervals since 1970. Zero means that there is no sample.
	before      int64 // how many measurements the process had stored at the previous sample
	total       int64 // how many it has stored now
	stored      float64
	lag         float64
	freshness   float64
	deadLetters float64
	claims      int
	generation  int32 // the generation that began in this interval. Zero means none.
	failing     [pipeline.Dependencies]bool
}

// hour keeps the samples of the last hour. It is safe for concurrent use.
type hour struct {
	late, stale time.Duration

	mu      sync.Mutex
	samples [hourSamples]sample
	walls   map[record.Partition]*wall
	last    pipeline.Totals
	lastAt  time.Time
	// generation is the generation of the previous sample. Minus one means that there was none.
	generation int32
}

// wall holds the cells of a partition, each with its time in cells since 1970.
type wall struct {
	at      [hourCells]int64
	cells   [hourCells]cell
	newest  int64            // the time of the newest cell
	claimed pipeline.Instant // when the assignment began in which it was last read. Zero means never.
}

// newHour returns an hour without samples, for a process that had stored nothing at the time begun.
func newHour(flushInterval time.Duration, begun time.Time) *hour {
	late := max(leastLate, lateIntervals*flushInterval)
	return &hour{
		late: late, stale: max(staleAfter, 2*late), walls: map[record.Partition]*wall{}, lastAt: begun, generation: -1,
	}
}

// seen is the input of a sample.
type seen struct {
	at         time.Time
	done       pipeline.Totals
	statuses   []*pipeline.Status
	generation int32 // -1 means that the consumer is not in the group.
	failing    [pipeline.Dependencies]bool
}

// note adds a sample. Two samples within one interval are merged.
func (h *hour) note(s seen) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := summed(s.statuses, s.at)
	one := sample{tick: s.at.UnixNano() / int64(sampleInterval), lag: -1, freshness: -1, failing: s.failing}
	one.before, one.total = h.last.Stored, s.done.Stored
	if len(s.statuses) > all.unknown {
		one.lag = float64(all.lag)
	}
	for _, p := range s.statuses {
		if age, known := p.Freshness(s.at); known {
			one.freshness = max(one.freshness, age.Seconds())
		}
		w := h.cell(p, s.at)
		if p.Running && w.claimed != p.Since {
			one.claims++
			w.claimed = p.Since
		}
	}
	one.stored = float64(one.total-one.before) / max(s.at.Sub(h.lastAt).Seconds(), 0.001)
	one.deadLetters = float64(s.done.DeadLetters - h.last.DeadLetters)
	if s.generation >= 0 && s.generation != h.generation {
		one.generation = s.generation
	}
	if s.generation >= 0 {
		h.generation = s.generation
	}
	h.last, h.lastAt = s.done, s.at
	at := &h.samples[slot(one.tick, hourSamples)]
	if at.tick == one.tick {
		one.before, one.deadLetters, one.claims = at.before, one.deadLetters+at.deadLetters, one.claims+at.claims
		if one.generation == 0 {
			one.generation = at.generation
		}
	}
	*at = one
	h.forget(one.tick / cellSamples)
}

// cell records the state of a partition, and returns its wall. The worst state of an interval counts.
func (h *hour) cell(p *pipeline.Status, now time.Time) *wall {
	w := h.walls[p.Partition]
	if w == nil {
		w = &wall{}
		h.walls[p.Partition] = w
	}
	at := now.UnixNano() / int64(cellSamples*sampleInterval)
	i, c := slot(at, hourCells), h.cellOf(p, now)
	if w.at[i] == at {
		c = max(c, w.cells[i])
	}
	w.at[i], w.cells[i], w.newest = at, c, at
	return w
}

// cellOf returns the state of a partition at one moment.
func (h *hour) cellOf(p *pipeline.Status, now time.Time) cell {
	age, known := p.Freshness(now)
	switch {
	case p.Stopped != nil:
		return cellStopped
	case known && age > h.stale:
		return cellStale
	case !known || !p.Running && !p.Between:
		return cellWaiting
	case age > h.late:
		return cellLate
	}
	return cellFresh
}

// forget drops the partitions that this consumer has not owned for an hour.
func (h *hour) forget(now int64) {
	for p, w := range h.walls {
		if w.newest <= now-hourCells {
			delete(h.walls, p)
		}
	}
}

// hourSeen is the hour before a moment, oldest first. The page and /api/hour show it.
type hourSeen struct {
	end     int64 // the tick of the last sample
	samples [hourSamples]sample
	walls   map[record.Partition][hourCells]cell
}

// until returns a copy of the hour before a moment.
func (h *hour) until(now time.Time) *hourSeen {
	h.mu.Lock()
	defer h.mu.Unlock()
	view := &hourSeen{end: now.UnixNano() / int64(sampleInterval), walls: make(map[record.Partition][hourCells]cell, len(h.walls))}
	for i := range view.samples {
		tick := view.end - hourSamples + 1 + int64(i)
		if s := h.samples[slot(tick, hourSamples)]; s.tick == tick {
			view.samples[i] = s
		}
	}
	last := view.end / cellSamples
	for p, w := range h.walls {
		var row [hourCells]cell
		for i := range row {
			at := last - hourCells + 1 + int64(i)
			if n := slot(at, hourCells); w.at[n] == at {
				row[i] = w.cells[n]
			}
		}
		view.walls[p] = row
	}
	return view
}

// slot returns the index of a tick in a ring. A tick may be negative if the clock was never set.
func slot(tick int64, of int64) int64 { return (tick%of + of) % of }

// time returns when a sample was taken, rounded to the interval.
func (v *hourSeen) time(i int) time.Time {
	return time.Unix(0, (v.end-hourSamples+1+int64(i))*int64(sampleInterval)).UTC()
}
