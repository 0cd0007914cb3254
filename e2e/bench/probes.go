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

	mu      sync.Mutex
	since   time.Time            // when the looks began. Zero means that no measurement counts yet.
	written int                  // measurements that count, because they are younger
	seen    map[string]time.Time // time of the newest measurement found, by name
	samples []time.Duration
	looks   int
}

const (
	// probeEvery is the time between two measurements of a probe. They are so few that a flush adds them to an existing bucket.
	probeEvery = 2 * time.Second
	// looksShare bounds the looks, which take at most a tenth of the time.
	looksShare = 10
)

func newProbes(l *live) *probes {
	p := &probes{live: l, seen: map[string]time.Time{}}
	for i := range l.load.Partitions {
		p.names = append(p.names, fmt.Sprintf("probe-%d", i))
	}
	return p
}

// write writes records of all probes in turn, until the first context ends. The second context sends them.
func (p *probes) write(ctx, sending context.Context) {
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
		if !p.since.IsZero() && now.After(p.since) {
			p.written++
		}
		p.mu.Unlock()
		p.live.send(sending, int32(i), p.live.maker.AppendAt(nil, p.names[i], i, n, now))
	}
}

// begin makes measurements count that are written from now on.
func (p *probes) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = now
	for _, name := range p.names {
		p.seen[name] = now
	}
}

// measured is a measurement of a probe.
type measured struct {
	name string
	at   time.Time
}

// watch looks until the context ends.
func (p *probes) watch(ctx context.Context) error {
	look := p.plain
	if p.live.result.Way != Plain {
		series, err := reader.Open(ctx, p.live.database, p.live.name)
		if err != nil {
			return err
		}
		look = func(ctx context.Context, from time.Time) ([]measured, error) { return p.read(ctx, series, from) }
	}
	for ctx.Err() == nil {
		begun, from := time.Now(), time.Now()
		for _, at := range p.seen { // only this goroutine changes it
			from = slices.MinFunc([]time.Time{from, at}, time.Time.Compare)
		}
		found, err := look(ctx, from)
		if err != nil {
			return fmt.Errorf("looking for a probe's measurements: %w", err)
		}
		now := time.Now()
		p.found(now, found)
		select {
		case <-ctx.Done():
		case <-time.After(max(25*time.Millisecond, (looksShare-1)*now.Sub(begun))):
		}
	}
	return nil
}

// read asks package reader for the measurements of all probes.
func (p *probes) read(ctx context.Context, series *reader.Series, from time.Time) (found []measured, err error) {
	query := reader.Query{Meta: bson.D{{Key: "meta.sensor", Value: bson.D{{Key: "$in", Value: p.names}}}}, From: from}
	for m, err := range series.Find(ctx, query) {
		if err != nil {
			return nil, err
		}
		name, _ := m.Meta.Document().Lookup("sensor").StringValueOK()
		found = append(found, measured{name, m.Time})
	}
	return found, nil
}

// plain looks for documents by the index on series and time.
func (p *probes) plain(ctx context.Context, from time.Time) (found []measured, err error) {
	cursor, err := p.live.database.Collection(p.live.name).Find(ctx, bson.D{
		{Key: "meta.sensor", Value: bson.D{{Key: "$in", Value: p.names}}}, {Key: "time", Value: bson.D{{Key: "$gt", Value: from}}},
	})
	if err != nil {
		return nil, err
	}
	var documents []struct {
		Meta struct{ Sensor string }
		Time time.Time
	}
	err = cursor.All(ctx, &documents)
	for _, d := range documents {
		found = append(found, measured{d.Meta.Sensor, d.Time})
	}
	return found, err
}

// found records the age of the measurements that a look at this moment has found for the first time.
func (p *probes) found(now time.Time, found []measured) {
	slices.SortFunc(found, func(a, b measured) int { return a.at.Compare(b.at) })
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range found {
		if m.at.After(p.seen[m.name]) {
			p.samples, p.seen[m.name] = append(p.samples, now.Sub(m.at)), m.at
		}
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
	f.Unseen, f.Step = p.written-len(p.samples), time.Since(p.since)/time.Duration(max(1, p.looks))
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
