package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/reader"
)

// probes are series of which each partition has one. They show when measurements can be found: by package reader, or by a query of
// a plain collection.
type probes struct {
	live  *live
	names []string
	seen  map[string]time.Time // time of the newest measurement found, by name

	mu      sync.Mutex
	record  bool
	waiting map[string][]time.Time // times of measurements not found yet, in order
	samples []time.Duration
	looks   int
	since   time.Time // when the looks began
}

const (
	// probeEvery is the time between two measurements of a probe. They are so few that a flush adds them to an existing bucket.
	probeEvery = 2 * time.Second
	// looksShare bounds the looks, which take at most a tenth of the time.
	looksShare = 10
)

func newProbes(l *live) *probes {
	p := &probes{live: l, seen: map[string]time.Time{}, waiting: map[string][]time.Time{}}
	for i := range l.load.Partitions {
		p.names = append(p.names, fmt.Sprintf("probe-%d", i))
	}
	return p
}

// write writes records of all probes in turn, until the context ends.
func (p *probes) write(ctx context.Context) {
	ticks := time.NewTicker(probeEvery / time.Duration(len(p.names)))
	defer ticks.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		i, now := n%len(p.names), time.Now().Truncate(time.Millisecond)
		p.mu.Lock()
		if p.record {
			p.waiting[p.names[i]] = append(p.waiting[p.names[i]], now)
		}
		p.mu.Unlock()
		p.live.send(ctx, int32(i), p.live.maker.AppendAt(nil, p.names[i], i, n, now))
	}
}

// begin starts the recording. Measurements written from now on count.
func (p *probes) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record, p.since = true, time.Now()
	for _, name := range p.names {
		p.seen[name] = time.Now()
	}
}

// end stops the recording, and reports whether all counted measurements were found.
func (p *probes) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record = false
	return p.unseen() == 0
}

func (p *probes) unseen() (n int) {
	for _, waiting := range p.waiting {
		n += len(waiting)
	}
	return n
}

// watch looks until the context ends.
func (p *probes) watch(ctx context.Context) error {
	look := p.plain
	if p.live.result.Way != Plain {
		series, err := reader.Open(ctx, p.live.database, p.live.name)
		if err != nil {
			return err
		}
		look = func(ctx context.Context, from time.Time) error { return p.read(ctx, series, from) }
	}
	for ctx.Err() == nil {
		begun, from := time.Now(), time.Now()
		for _, at := range p.seen {
			from = slices.MinFunc([]time.Time{from, at}, time.Time.Compare)
		}
		if err := look(ctx, from); err != nil {
			return fmt.Errorf("looking for a probe's measurements: %w", err)
		}
		now := time.Now()
		p.found(now)
		select {
		case <-ctx.Done():
		case <-time.After(max(25*time.Millisecond, (looksShare-1)*now.Sub(begun))):
		}
	}
	return nil
}

// read asks package reader for the newest measurement of each probe.
func (p *probes) read(ctx context.Context, series *reader.Series, from time.Time) error {
	query := reader.Query{Meta: bson.D{{Key: "meta.sensor", Value: bson.D{{Key: "$in", Value: p.names}}}}, From: from}
	for m, err := range series.Latest(ctx, query) {
		if err != nil {
			return err
		}
		name, _ := m.Meta.Document().Lookup("sensor").StringValueOK()
		p.seen[name] = m.Time
	}
	return nil
}

// plain looks for newer documents by the index on series and time.
func (p *probes) plain(ctx context.Context, from time.Time) error {
	cursor, err := p.live.database.Collection(p.live.name).Find(ctx, bson.D{
		{Key: "meta.sensor", Value: bson.D{{Key: "$in", Value: p.names}}}, {Key: "time", Value: bson.D{{Key: "$gt", Value: from}}},
	})
	if err != nil {
		return err
	}
	var documents []struct {
		Meta struct{ Sensor string }
		Time time.Time
	}
	err = cursor.All(ctx, &documents)
	for _, d := range documents {
		if d.Time.After(p.seen[d.Meta.Sensor]) {
			p.seen[d.Meta.Sensor] = d.Time
		}
	}
	return err
}

// found records the age of the measurements that a look at this moment has found for the first time.
func (p *probes) found(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, waiting := range p.waiting {
		for len(waiting) > 0 && !waiting[0].After(p.seen[name]) {
			p.samples = append(p.samples, now.Sub(waiting[0]))
			waiting = waiting[1:]
		}
		p.waiting[name] = waiting
	}
	p.looks++
}

// Freshness is the age of measurements when they can first be found.
type Freshness struct {
	// Samples is the number of measurements found. Unseen is the number of those that were never found.
	Samples, Unseen int
	// Step is the mean time between two looks. A measurement may have been visible for this time before it was found.
	Step               time.Duration
	P50, P90, P99, Max time.Duration
}

func (p *probes) freshness() Freshness {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := FreshnessOf(p.samples)
	f.Unseen, f.Step = p.unseen(), time.Since(p.since)/time.Duration(max(1, p.looks))
	return f
}

// FreshnessOf returns the freshness of these ages.
func FreshnessOf(ages []time.Duration) Freshness {
	f := Freshness{Samples: len(ages)}
	if len(ages) > 0 {
		sorted := slices.Sorted(slices.Values(ages))
		at := func(share float64) time.Duration { return sorted[int(share*float64(len(sorted)-1)+0.5)] }
		f.P50, f.P90, f.P99, f.Max = at(0.5), at(0.9), at(0.99), at(1)
	}
	return f
}

// String returns the freshness in seconds.
func (f Freshness) String() string {
	switch {
	case f.Samples == 0 && f.Unseen > 0:
		return fmt.Sprintf("none of %d seen", f.Unseen)
	case f.Samples == 0:
		return unknown
	}
	parts := make([]string, 0, 4)
	for _, d := range []time.Duration{f.P50, f.P90, f.P99, f.Max} {
		parts = append(parts, fmt.Sprintf("%.2f", d.Seconds()))
	}
	text := strings.Join(parts, " / ")
	if f.Unseen > 0 {
		text += fmt.Sprintf(" (%d more not seen)", f.Unseen)
	}
	if f.Step >= 200*time.Millisecond {
		text += fmt.Sprintf(" (looked for every %.1f)", f.Step.Seconds())
	}
	return text
}
