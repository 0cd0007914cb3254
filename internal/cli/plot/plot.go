// Package plot draws values over time with characters, for a terminal. It draws several series in colours, axes with round
// values, and no line across a gap. Its memory for a series does not grow with the number of values. It keeps the smallest and
// the largest value of each column.
package plot

import (
	"math"
	"math/bits"
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
	// From and To are the ends of the time axis. Zero means the first and the last time of the values.
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

// maxBins is the maximum number of time spans for a series: several for each column of a wide terminal.
const maxBins = 4096

// span summarizes the values within a span of time.
type span struct {
	count       int64
	from, to    int64 // the times of the first and the last value
	first, last float64
	low, high   float64
}

// merge adds the values of another span.
func (s *span) merge(o span) {
	switch {
	case o.count == 0:
		return
	case s.count == 0:
		*s = o
		return
	}
	if o.from < s.from {
		s.from, s.first = o.from, o.first
	}
	if o.to >= s.to {
		s.to, s.last = o.to, o.last
	}
	s.low, s.high = min(s.low, o.low), max(s.high, o.high)
	s.count += o.count
}

// bins holds the values of a series in spans of equal length, a power of two of milliseconds. The spans start short, and double
// their length whenever there would be too many.
type bins struct {
	shift uint  // a span is 1<<shift milliseconds long
	begin int64 // the number of the first span
	spans []span
}

func newBins() bins { return bins{spans: make([]span, 0, maxBins)} }

// add adds a value.
func (b *bins) add(at int64, value float64) {
	if len(b.spans) == 0 {
		b.begin = at >> b.shift
	}
	for !b.reach(at >> b.shift) {
		b.coarsen()
	}
	b.spans[at>>b.shift-b.begin].merge(span{count: 1, from: at, to: at, first: value, last: value, low: value, high: value})
}

// reach extends the spans to number n. False means that there would be too many.
func (b *bins) reach(n int64) bool {
	begin, end := min(b.begin, n), max(b.begin+int64(len(b.spans)), n+1)
	if end-begin > maxBins {
		return false
	}
	if missing := int(b.begin - begin); missing > 0 {
		have := len(b.spans)
		b.spans = b.spans[:have+missing]
		copy(b.spans[missing:], b.spans[:have])
		clear(b.spans[:missing])
		b.begin = begin
	}
	for have := len(b.spans); have < int(end-begin); have++ {
		b.spans = append(b.spans, span{})
	}
	return true
}

// coarsen merges pairs of spans.
func (b *bins) coarsen() {
	begin := b.begin >> 1
	count := 0
	for i, one := range b.spans {
		to := int((b.begin+int64(i))>>1 - begin)
		if to == count {
			b.spans[to] = span{}
			count++
		}
		b.spans[to].merge(one)
	}
	b.spans, b.begin = b.spans[:count], begin
	b.shift++
}

// gapFactor is how many times longer than usual an interval without values must be to count as a gap.
const gapFactor = 4

// intervals counts the time between successive values of a series, in classes of powers of two.
type intervals struct {
	begun   bool
	last    int64
	total   int64
	counts  [65]int64
	longest [65]int64
}

// add adds a value at a time.
func (v *intervals) add(at int64) {
	if v.begun && at > v.last {
		class := bits.Len64(uint64(at - v.last))
		v.counts[class]++
		v.longest[class] = max(v.longest[class], at-v.last)
		v.total++
	}
	v.begun, v.last = true, at
}

// gap returns the interval from which on there is a gap. Three of four intervals are much shorter.
func (v *intervals) gap() int64 {
	seen := int64(0)
	for class, n := range v.counts {
		if seen += n; seen > 0 && 4*seen >= 3*v.total {
			return gapFactor * v.longest[class]
		}
	}
	return 0
}
