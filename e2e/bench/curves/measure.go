package curves

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/bench/figure"
)

// Point is the result at one value of a parameter.
type Point struct {
	X            float64 `json:"x"`
	Measurements int64   `json:"measurements"`
	// CPU is the consumer's own processor time per measurement, in microseconds. The time of a consumer that starts, stores one
	// measurement per partition, and ends is subtracted before. Rate is in measurements a second.
	CPU  float64 `json:"cpu_us"`
	Rate float64 `json:"rate"`
}

// Measured is the results along one line of a curve.
type Measured struct {
	Line   string  `json:"line,omitempty"`
	Points []Point `json:"points"`
}

// Measurer measures curves.
type Measurer struct {
	Bench *bench.Bench
	// Rounds is how often each point is measured. The least processor time and the highest rate count.
	Rounds int
	idle   map[int]time.Duration // processor time of a consumer that stores one measurement per partition, by partitions
}

// Measure measures all points of a curve.
func (m *Measurer) Measure(ctx context.Context, c Curve) ([]Measured, error) {
	var measured []Measured
	for _, line := range c.Lines {
		row := Measured{Line: line.Name}
		for _, s := range line.Steps {
			p, err := m.point(ctx, c.Peer, s)
			if err != nil {
				return nil, fmt.Errorf("measuring %s at %g: %w", c.Name, s.X, err)
			}
			fmt.Fprintf(m.Bench.Log, "%s  %s %s %s: %.2f µs of own CPU, %s/s (%d measurements)\n", time.Now().Format(time.TimeOnly), c.Name,
				figure.Number(s.X), line.Name, p.CPU, figure.Number(p.Rate), p.Measurements)
			row.Points = append(row.Points, p)
		}
		measured = append(measured, row)
	}
	return measured, nil
}

// point measures one load.
func (m *Measurer) point(ctx context.Context, peer bench.Peer, s Step) (Point, error) {
	idle, err := m.idleCPU(ctx, peer, s.Load)
	if err != nil {
		return Point{}, err
	}
	p := Point{X: s.X, Measurements: int64(s.Load.Records)}
	results, err := m.drain(ctx, peer, s.Load, m.Rounds)
	for i, r := range results {
		cpu := float64(max(0, r.CPU-idle)) / float64(time.Microsecond) / float64(r.Measurements)
		if i == 0 || cpu < p.CPU {
			p.CPU = cpu
		}
		p.Rate = max(p.Rate, r.Rate())
	}
	return p, err
}

// idleCPU returns the processor time of a consumer that stores one measurement per partition.
func (m *Measurer) idleCPU(ctx context.Context, peer bench.Peer, l bench.Load) (time.Duration, error) {
	if idle, known := m.idle[l.Partitions]; known {
		return idle, nil
	}
	l.Records, l.Series = l.Partitions, l.Partitions
	results, err := m.drain(ctx, peer, l, 1)
	if err != nil {
		return 0, err
	}
	if m.idle == nil {
		m.idle = map[int]time.Duration{}
	}
	m.idle[l.Partitions] = results[0].CPU
	return results[0].CPU, nil
}

// drain fills a topic, has it drained, and removes its data.
func (m *Measurer) drain(ctx context.Context, peer bench.Peer, l bench.Load, rounds int) (results []bench.Result, err error) {
	topic, err := bench.Fill(ctx, m.Bench.Servers, l)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, m.Bench.Servers.DeleteTopics(context.WithoutCancel(ctx), topic.Name, topic.Name+".dlq"))
	}()
	for round := range max(1, rounds) {
		d := bench.Drain{Peer: peer, Round: round + 1}
		r, err := m.Bench.Drain(ctx, topic, d)
		if err = errors.Join(err, m.Bench.Remove(context.WithoutCancel(ctx), topic, d)); err != nil {
			return nil, err
		}
		if !r.Complete() {
			return nil, fmt.Errorf("%d of %d measurements are stored, %d of them more than once", r.Stored, r.Measurements, r.Doubled)
		}
		results = append(results, r)
	}
	return results, nil
}
