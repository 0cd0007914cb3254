package live

import (
	"fmt"
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

// Share is how long each case may take of all the time there is: at least long enough for two flushes of five seconds after
// the warm-up.
func Share(all time.Duration, cases int) time.Duration {
	return max(all/time.Duration(max(1, cases)), leastTime)
}

const leastTime = 20 * time.Second
