package plot

import (
	"math"
	"strconv"
)

// mostFloat bounds the values of an axis. With larger ones calculations would overflow.
const mostFloat = 1e300

// scale is an axis of values, from the smallest to the largest, with marks at round values.
type scale struct {
	low, high float64
	first     float64 // the first mark, as a number of steps
	step      float64
	marks     int
	decimals  int // -1 means that the values are too large or too small for decimals
}

// newScale returns an axis for values from low to high, with at most most marks.
func newScale(low, high float64, most int) scale {
	low, high = min(max(low, -mostFloat), mostFloat), min(max(high, -mostFloat), mostFloat)
	const least = 1e-12 // relative to the values' size; smaller differences count as none
	if size := max(math.Abs(low), math.Abs(high)); high-low <= size*least || size < 1/mostFloat {
		margin := size / 10
		if size < 1/mostFloat {
			margin = 1
		}
		low, high = low-margin, high+margin
	}
	for rough := (high - low) / float64(most); ; rough *= 1.2 {
		step, decimals := roundStep(rough)
		first, last := math.Ceil(low/step), math.Floor(high/step)
		if last-first < float64(most) {
			return scale{low: low, high: high, first: first, step: step, marks: max(0, int(last-first)+1), decimals: decimals}
		}
	}
}

// roundStep returns the smallest step that is not below rough, and its decimals. Steps are 1, 2, 2.5 and 5 times a power of ten.
func roundStep(rough float64) (step float64, decimals int) {
	exponent := math.Floor(math.Log10(rough))
	unit := math.Pow(10, exponent)
	for _, c := range []struct {
		factor   float64
		decimals int
	}{{1, 0}, {2, 0}, {2.5, 1}, {5, 0}, {10, -1}} {
		if step = c.factor * unit; step >= rough*(1-1e-9) {
			decimals = max(0, c.decimals-int(exponent))
			break
		}
	}
	if exponent > 8 || exponent < -6 {
		decimals = -1
	}
	return step, decimals
}

// at returns the value of a mark.
func (s scale) at(i int) float64 { return (s.first + float64(i)) * s.step }

// label formats the value of a mark.
func (s scale) label(i int) string {
	v := s.at(i)
	if s.decimals < 0 {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return strconv.FormatFloat(v+0, 'f', s.decimals, 64)
}

// labelWidth returns the length of the longest label.
func (s scale) labelWidth() (longest int) {
	for i := range s.marks {
		longest = max(longest, len(s.label(i)))
	}
	return longest
}

// row returns the row of a value. The top row is 0.
func (s scale) row(v float64, rows int) int {
	part := (s.high - v) / (s.high - s.low)
	return min(rows-1, max(0, int(math.Round(part*float64(rows-1)))))
}

// labels returns the labels of the marks by row of characters. Each is in the row in which its value is drawn.
func (s scale) labels(c *canvas) []string {
	labels := make([]string, c.rows)
	for i := range s.marks {
		labels[s.row(s.at(i), c.height())/c.down] = s.label(i)
	}
	return labels
}
