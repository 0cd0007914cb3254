package plot

import (
	"math"
	"slices"
	"time"
)

// MaxSeries is how many series are drawn: as many as a reader tells apart.
const MaxSeries = 8

// Plot collects values. Its memory is bounded, whatever is added.
type Plot struct {
	// Title is what the values are.
	Title string

	series []*series
	// others is how many values of further series came, notNumbers how many that cannot be drawn.
	others, notNumbers int64
}

// series is what is known of one line.
type series struct {
	name      string
	bins      bins
	intervals intervals
	count     int64
	sum       float64
}

// Add adds a value at a time, in milliseconds since 1970, to the series of this name. The values of a series come in the order
// of their times. Values that are no finite numbers, and values of series beyond MaxSeries, are only counted.
func (p *Plot) Add(name string, at int64, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		p.notNumbers++
		return
	}
	i := slices.IndexFunc(p.series, func(s *series) bool { return s.name == name })
	if i < 0 && len(p.series) == MaxSeries {
		p.others++
		return
	}
	if i < 0 {
		i = len(p.series)
		p.series = append(p.series, &series{name: name, bins: newBins()})
	}
	p.series[i].add(at, value)
}

// AddNotNumber counts a value that is no number.
func (p *Plot) AddNotNumber() { p.notNumbers++ }

// Empty reports whether there is nothing to draw.
func (p *Plot) Empty() bool { return len(p.series) == 0 }

func (s *series) add(at int64, value float64) {
	s.intervals.add(at)
	s.bins.add(at, value)
	s.count++
	s.sum += value
}

// extent is the smallest and the largest time and value of all series.
func (p *Plot) extent() (from, to int64, low, high float64) {
	from, to, low, high = math.MaxInt64, math.MinInt64, math.Inf(1), math.Inf(-1)
	for _, s := range p.series {
		whole := s.whole()
		from, to = min(from, whole.from), max(to, whole.to)
		low, high = min(low, whole.low), max(high, whole.high)
	}
	return from, to, low, high
}

// whole is all of a series in one span.
func (s *series) whole() (all span) {
	for _, one := range s.bins.spans {
		all.merge(one)
	}
	return all
}

// Options say how a plot is drawn.
type Options struct {
	// From and To are the ends of the axis of times. Zero means those of the values.
	From, To time.Time
	// Width and Height are those of the picture in characters, without the lines below the axis of times.
	Width, Height int
	// Location is where the times are told. Nil means UTC.
	Location *time.Location
	// Color means that series are told apart by colours, else by their characters.
	Color bool
	// ASCII means that only its characters are drawn.
	ASCII bool
}
