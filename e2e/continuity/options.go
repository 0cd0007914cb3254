package continuity

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"waterwheel/e2e/harness"
)

// Options says what to measure.
type Options struct {
	Servers *harness.Servers
	// Consumer is the path of the program.
	Consumer string
	// Settings are further settings of the consumers. The addresses and names are set by the scenario, the rest are the program's
	// defaults.
	Settings harness.Settings
	// Scenarios are the names of the scenarios to play, in this order.
	Scenarios []string
	// Rate is in measurements a second. Series and Partitions are numbers of series and partitions.
	Rate, Series, Partitions int
	// Before is the duration of the undisturbed part. After is how long the scenario continues once all partitions are written to
	// again. Both must be longer than two flushes.
	Before, After time.Duration
	// Patience is how long the group may take to come to rest after a disturbance, and to store the rest at the end.
	Patience time.Duration
	// Log gets lines about the progress.
	Log io.Writer
}

// members is the number of consumers before a disturbance.
const members = 3

// Validate returns an error for every wrong option.
func (o Options) Validate() error {
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	check(len(o.Scenarios) > 0, "no scenarios")
	for _, name := range o.Scenarios {
		check(slices.Contains(Names(), name), "no scenario is named %q, only %s", name, strings.Join(Names(), ", "))
	}
	check(o.Partitions > members && o.Partitions <= 1000, "%d partitions, not %d to 1,000: each member needs one, also one more member", o.Partitions, members+1)
	check(o.Series >= o.Partitions, "%d series, fewer than partitions", o.Series)
	check(o.Rate >= o.Partitions && o.Rate <= 1_000_000, "%d measurements a second, not %d (one a partition) to 1,000,000", o.Rate, o.Partitions)
	check(o.Before > 0 && o.After > 0 && o.Patience > 0, "times of %s, %s and %s, not more than 0", o.Before, o.After, o.Patience)
	return errors.Join(wrong...)
}

func (o Options) note(format string, args ...any) {
	fmt.Fprintf(o.Log, "%s  %s\n", time.Now().UTC().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}
