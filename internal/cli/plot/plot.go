package plot

import (
	"math"
	"slices"
	"time"
)

// MaxSeries is the maximum number of series in a picture. A reader cannot distinguish more.
const MaxSeries = 8

// Plot collects values. Its memory is bounded, whatever is added.
type Plot struct {
	// Title says what the values are.
	Title string

	series []*series
	// others is the number of values of further series. notNumbers is the number of values that cannot be drawn.
	others, notNumbers int64
}

// series holds the values of one line.
type series struct {
	name      string
	bins      bins
	intervals intervals
	count     int64
	sum       float64
}

// Add adds a value to the series of a name. at is its time in milliseconds since 1970. The values of a series must come in the
// order of their times. Values that are not finite, and values of series beyond MaxSeries, are only counted.
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

// AddNotNumber counts a value that is not a number.
func (p *Plot) AddNotNumber() { p.notNumbers++ }

// Empty reports whether there is nothing to draw.
func (p *Plot) Empty() bool { return len(p.series) == 0 }

func (s *series) add(at int64, value float64) {
	s.intervals.add(at)
	s.bins.add(at, value)
	s.count++
	s.sum += value
}

// extent returns the smallest and the largest time and value of all series.
func (p *Plot) extent() (from, to int64, low, high float64) {
	from, to, low, high = math.MaxInt64, math.MinInt64, math.Inf(1), math.Inf(-1)
	for _, s := range p.series {
		whole := s.whole()
		from, to = min(from, whole.from), max(to, whole.to)
		low, high = min(low, whole.low), max(high, whole.high)
	}
	return from, to, low, high
}

// whole returns the summary of all values of a series.
func (s *series) whole() (all span) {
	for _, one := range s.bins.spans {
		all.merge(one)
	}
	return all
}

// Options define how a plot is drawn.
type Options struct {
	// From and To are the ends of the time axis. Zero means those of the values.
	From, To time.Time
	// Width and Height are the size of the picture in characters, without the lines below the time axis.
	Width, Height int
	// Location is the time zone of printed times. Nil means UTC.
	Location *time.Location
	// Color means that series are distinguished by colours. Otherwise they are distinguished by characters.
	Color bool
	// ASCII means that only ASCII characters are drawn.
	ASCII bool
}
