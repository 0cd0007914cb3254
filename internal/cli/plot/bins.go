package plot

import "math/bits"

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
