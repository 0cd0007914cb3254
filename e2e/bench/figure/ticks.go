package figure

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// steps are the numbers of an axis within a decade.
var steps = []float64{1, 2, 5}

// logTicks are the numbers along a logarithmic axis. The library gets a linear axis of logarithms, because its own logarithmic
// axis leaves space at one end for an axis name that is placed elsewhere. The axis shows fewer numbers if it covers many decades.
type logTicks struct{}

// Ticks implements plot.Ticker.
func (logTicks) Ticks(least, most float64) []plot.Tick {
	least, most = math.Pow(10, least), math.Pow(10, most)
	var ticks []plot.Tick
	decades := math.Log10(most / least)
	for exponent := math.Floor(math.Log10(least)); exponent <= math.Ceil(math.Log10(most)); exponent++ {
		for _, step := range steps {
			at := step * math.Pow(10, exponent)
			if at < least*(1-1e-9) || at > most*(1+1e-9) {
				continue
			}
			tick := plot.Tick{Value: math.Log10(at)}
			if step == 1 || decades <= 3 {
				tick.Label = Number(at)
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

// linearTicks are the numbers along a linear axis, five to eleven of them.
type linearTicks struct{}

// Ticks implements plot.Ticker.
func (linearTicks) Ticks(least, most float64) []plot.Tick {
	apart := outside((most-least)/10, 1)
	var ticks []plot.Tick
	for n := math.Ceil(least/apart-1e-9) + 0; n*apart <= most+apart*1e-9; n++ { // + 0: not -0
		ticks = append(ticks, plot.Tick{Value: n * apart, Label: Number(n * apart)})
	}
	return ticks
}

// Number formats a number briefly, with at most three significant digits, such as 155k, 1.2M or 0.05.
func Number(x float64) string {
	unit := ""
	switch size := math.Abs(x); {
	case size >= 999.5e6:
		x, unit = x/1e9, "G"
	case size >= 999.5e3:
		x, unit = x/1e6, "M"
	case size >= 999.5:
		x, unit = x/1e3, "k"
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	if err != nil {
		return strconv.FormatFloat(x, 'g', 3, 64) + unit
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64) + unit
}

// bounds returns the ends of an axis for values. The ends of a logarithmic axis are the next numbers of steps outside of the
// values. The upper end is at least room times the largest value. room is 1 or more.
func bounds(a Axis, values []float64, fromZero bool, room float64) (least, most float64) {
	least, most = values[0], values[0]
	for _, v := range values {
		least, most = min(least, v), max(most, v)
	}
	if !a.Log {
		if fromZero {
			least = min(0, least)
			most *= room
		}
		if least == most {
			most = least + 1
		}
		return least, most
	}
	least, most = outside(least, -1), outside(most*room, 1)
	if least == most {
		most *= 10
	}
	return least, most
}

// outside returns the next number of steps below (direction -1) or above (1) v, or v itself if it is one.
func outside(v float64, direction int) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	best := decade
	if direction > 0 {
		best = 10 * decade
	}
	for _, step := range steps {
		at := step * decade
		if direction < 0 && at <= v*(1+1e-9) {
			best = max(best, at)
		}
		if direction > 0 && at >= v*(1-1e-9) {
			best = min(best, at)
		}
	}
	return best
}
