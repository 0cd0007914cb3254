package live

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Case is one point of the grid. It has Series series with Rate measurements a second each.
type Case struct {
	Series int     `json:"series"`
	Rate   float64 `json:"rate"`
}

// Total returns the measurements a second of all series.
func (c Case) Total() float64 { return float64(c.Series) * c.Rate }

// String returns the case as tables and logs show it.
func (c Case) String() string { return fmt.Sprintf("%d series of %g Hz", c.Series, c.Rate) }

// ParseCases parses the cases of a command line, such as 10000x0.2,100x20.
func ParseCases(list string) ([]Case, error) {
	var cases []Case
	for text := range strings.SplitSeq(list, ",") {
		series, rate, _ := strings.Cut(text, "x")
		c := Case{}
		var errSeries, errRate error
		c.Series, errSeries = strconv.Atoi(series)
		c.Rate, errRate = strconv.ParseFloat(rate, 64)
		if errSeries != nil || errRate != nil || c.Series < 1 || !(c.Rate > 0) || math.IsInf(c.Rate, 1) {
			return nil, fmt.Errorf("%q is not a number of series and a rate, as 10000x0.2", text)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// These are the rates and numbers of series of the grid.
var (
	Rates  = []float64{0.01, 0.1, 1, 10, 100}
	Series = []int{100, 1_000, 10_000, 100_000, 1_000_000}
)

// Grid returns the cases with at most mostTotal measurements a second, and the cases beyond.
func Grid(mostTotal float64) (within, beyond []Case) {
	for _, series := range Series {
		for _, rate := range Rates {
			if c := (Case{series, rate}); c.Total() <= mostTotal {
				within = append(within, c)
			} else {
				beyond = append(beyond, c)
			}
		}
	}
	return within, beyond
}

// Share returns how long each of rows rows may take, given the time for all. It is at least leastTime, so that the measured part
// has two flushes of five seconds.
func Share(all time.Duration, rows int) time.Duration {
	return max(all/time.Duration(max(1, rows)), leastTime)
}

const leastTime = 20 * time.Second
