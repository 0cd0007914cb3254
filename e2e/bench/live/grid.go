package live

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Case is one point of the grid: so many series of so many measurements a second each.
type Case struct {
	Series int     `json:"series"`
	Rate   float64 `json:"rate"`
}

// Total is measurements a second of all series.
func (c Case) Total() float64 { return float64(c.Series) * c.Rate }

// String is the case as tables and logs have it.
func (c Case) String() string { return fmt.Sprintf("%d series of %g Hz", c.Series, c.Rate) }

// ParseCases reads cases as the command line has them: 10000x0.2,100x20.
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

// The grid's numbers.
var (
	Rates  = []float64{0.01, 0.1, 1, 10, 100}
	Series = []int{100, 1_000, 10_000, 100_000, 1_000_000}
)

// Grid are the cases of at most so many measurements a second, and those beyond.
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

// Share is how long each of so many rows may take of all the time there is: at least long enough for two flushes of five seconds in
// the part that is measured.
func Share(all time.Duration, rows int) time.Duration {
	return max(all/time.Duration(max(1, rows)), leastTime)
}

const leastTime = 20 * time.Second
