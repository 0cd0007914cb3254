package live

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// All probes together write a twentieth of the other records per second, within these bounds. They are so few that a flush
	// adds them to an existing bucket.
	leastProbes = 1.0
	mostProbes  = 8.0
	probesShare = 0.05
	// lookEvery is the time between two looks, and the precision of freshness. Looks take at most a tenth of the time.
	lookEvery  = 25 * time.Millisecond
	looksShare = 10
)

// probe is a series of one partition whose measurements are watched.
type probe struct {
	name      string
	partition int32
	seen      int64 // time of its newest stored measurement, in milliseconds
}

// probePrefix begins the names of probes. Names of other series begin differently.
const probePrefix = "probe-"

// probes writes records of one series in each partition, and watches when they are stored.
type probes struct {
	producer *producer
	looking  looking
	all      []*probe

	mu      sync.Mutex
	waiting map[*probe][]int64 // times of written records that were not seen yet, in order
	samples []time.Duration
	record  bool
	looks   int
	looked  time.Duration // duration of these looks, including pauses
}

func newProbes(p *producer, l looking, partitions int) *probes {
	w := &probes{producer: p, looking: l, waiting: map[*probe][]int64{}}
	for i := range partitions {
		name := probePrefix + strconv.Itoa(i)
		w.all = append(w.all, &probe{name: name, partition: int32(i)})
	}
	return w
}

// write writes records of all probes in turn, evenly over the time, until the context ends.
func (w *probes) write(ctx context.Context) {
	rate := min(mostProbes, max(leastProbes, probesShare*w.producer.total))
	ticks := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer ticks.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		p, now := w.all[n%len(w.all)], time.Now()
		value := fmt.Appendf(nil, `{"time":%q,"meta":{"sensor":%q},"temperature":%d}`,
			now.UTC().Format("2006-01-02T15:04:05.000Z07:00"), p.name, n%100)
		w.mu.Lock()
		if w.record {
			w.waiting[p] = append(w.waiting[p], now.UnixMilli())
		}
		w.mu.Unlock()
		w.producer.send(ctx, p.partition, value)
	}
}

// watch looks until the context ends.
func (w *probes) watch(ctx context.Context) {
	for ctx.Err() == nil {
		begun := time.Now()
		if err := w.looking.look(ctx, w.all, func(p *probe, newest int64) { p.seen = newest }); err != nil && ctx.Err() == nil {
			w.producer.failed(fmt.Errorf("looking for a probe's records: %w", err))
			return
		}
		now := time.Now()
		for _, p := range w.all {
			w.visible(p, now)
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(lookEvery, looksShare*now.Sub(begun)) - now.Sub(begun)):
		}
		w.lookedFor(time.Since(begun))
	}
}

func (w *probes) lookedFor(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	w.looked += d
}

// visible records the age of records that can be found now.
func (w *probes) visible(p *probe, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.waiting[p]
	for len(waiting) > 0 && waiting[0] <= p.seen {
		w.samples = append(w.samples, now.Sub(time.UnixMilli(waiting[0])))
		waiting = waiting[1:]
	}
	w.waiting[p] = waiting
}

// begin starts the recording. Documents written from now on count.
func (w *probes) begin(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record = true
	for _, p := range w.all {
		p.seen = now.UnixMilli() - 1
	}
}

// end stops the recording, and reports whether all counted records were seen.
func (w *probes) end() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record = false
	return w.unseen() == 0
}

func (w *probes) unseen() (n int) {
	for _, waiting := range w.waiting {
		n += len(waiting)
	}
	return n
}

// Freshness is the age of measurements when they can first be found.
type Freshness struct {
	// Samples is the number of records seen. Unseen is the number of records that were never seen.
	Samples int `json:"samples"`
	Unseen  int `json:"unseen"`
	// Step is the mean time between two looks. A measurement may have been visible for this time before it was seen.
	Step time.Duration `json:"step_ns"`
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	Max  time.Duration `json:"max_ns"`
}

func (w *probes) freshness() Freshness {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := Freshness{Samples: len(w.samples)}
	if w.looks > 0 {
		f.Step = w.looked / time.Duration(w.looks)
	}
	f.Unseen = w.unseen()
	if f.Samples == 0 {
		return f
	}
	slices.Sort(w.samples)
	at := func(share float64) time.Duration { return w.samples[int(share*float64(len(w.samples)-1)+0.5)] }
	f.P50, f.P90, f.P99, f.Max = at(0.5), at(0.9), at(0.99), at(1)
	return f
}

// coarse is the time between looks from which on String reports it.
const coarse = 200 * time.Millisecond

// String returns the freshness in seconds.
func (f Freshness) String() string {
	switch {
	case f.Samples == 0 && f.Unseen > 0:
		return fmt.Sprintf("none of %d seen", f.Unseen)
	case f.Samples == 0:
		return "–"
	}
	parts := make([]string, 0, 4)
	for _, d := range []time.Duration{f.P50, f.P90, f.P99, f.Max} {
		parts = append(parts, fmt.Sprintf("%.2f", d.Seconds()))
	}
	text := strings.Join(parts, " / ")
	if f.Unseen > 0 {
		text += fmt.Sprintf(" (%d more not seen)", f.Unseen)
	}
	if f.Step >= coarse {
		text += fmt.Sprintf(" (looked for every %.1f)", f.Step.Seconds())
	}
	return text
}
