// Package choices reads the demo's command line. The launcher uses it to answer -h before it compiles anything, and the demo uses
// it too.
package choices

import (
	"flag"
	"fmt"
	"io"
)

// Choices is the parsed command line.
type Choices struct {
	// Keep leaves everything running at the end, so that the user can look around.
	Keep bool
	// Consumer is the path of a built consumer. Empty means that the launcher builds it.
	Consumer string
}

const about = `make demo shows waterwheel at work on this machine, with nothing to install: a
Kafka and a MongoDB inside the demo's process, measurements of this machine and
of some simulated sensors, and the real consumer beside it. Once it is compiled
it takes half a minute:

  1. the consumer is killed (SIGKILL) between a write and its commit, and
     started again;
  2. its group is set back to the earliest offset: it reads everything again,
     and stores nothing twice;
  3. what is stored is compared with what was produced, record by record;
  4. what is stored is shown: a chart, and one bucket.

It listens on this machine only, writes to bin/ and a temporary folder, and
exits with 0 only if every valid measurement is stored exactly once and every
bad record is a letter.

  make demo DEMOFLAGS=-keep     leaves everything running at the end, to look
                                around
  make demo CONSUMER=path       takes this consumer instead of building it
`

// Parse parses the arguments, and prints to out. After -h it returns flag.ErrHelp.
func Parse(args []string, out io.Writer) (Choices, error) {
	var c Choices
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() { fmt.Fprint(out, about) }
	flags.BoolVar(&c.Keep, "keep", false, "leave everything running at the end")
	flags.StringVar(&c.Consumer, "consumer", "", "a built consumer")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("%q is no flag of the demo: -h explains it", flags.Arg(0))
	}
	return c, nil
}

// Args returns the arguments that make these choices.
func (c Choices) Args() []string {
	args := []string{"-consumer", c.Consumer}
	if c.Keep {
		args = append(args, "-keep")
	}
	return args
}
