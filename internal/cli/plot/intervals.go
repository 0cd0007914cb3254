package plot

import "math/bits"

// gapFactor is how many times longer than usual there must be no value for a gap.
const gapFactor = 4

// intervals is how far the values of a series are apart, in classes of powers of two.
type intervals struct {
	begun   bool
	last    int64
	total   int64
	counts  [65]int64
	longest [65]int64
}

// add tells of a value at this time.
func (v *intervals) add(at int64) {
	if v.begun && at > v.last {
		class := bits.Len64(uint64(at - v.last))
		v.counts[class]++
		v.longest[class] = max(v.longest[class], at-v.last)
		v.total++
	}
	v.begun, v.last = true, at
}

// gap is the time without a value from which on there is a gap: three of four intervals are much shorter.
func (v *intervals) gap() int64 {
	seen := int64(0)
	for class, n := range v.counts {
		if seen += n; seen > 0 && 4*seen >= 3*v.total {
			return gapFactor * v.longest[class]
		}
	}
	return 0
}
