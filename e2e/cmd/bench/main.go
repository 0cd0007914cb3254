// Command bench measures how fast measurements go from Kafka to MongoDB, by the built program and by other ways.
//
//	E2E_KAFKA_BROKERS=host:port E2E_MONGODB_URI=mongodb://... go run ./cmd/bench -records 4000000
//
// Without these two variables it starts embedded servers. They show whether it works, but not how fast it is. -help lists the
// flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/harness"
	"waterwheel/e2e/naive"
)

// These are the exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitFound  = 3 // measured, but not every measurement is stored once
)

// naiveCommand is the argument with which this program starts itself as the naive consumer.
const naiveCommand = "naive"

func main() {
	if len(os.Args) == 2 && os.Args[1] == naiveCommand {
		os.Exit(exitCode(naive.Run()))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run measures as the arguments say, and returns the exit code.
func run(ctx context.Context, args []string) int {
	w, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		fmt.Fprintf(os.Stderr, "bench: %v\nRun it with -help for its flags.\n", err)
		return exitUsage
	case w.repeat > 0:
		return exitCode(w.with(ctx, func(b *bench.Bench) error {
			figures, err := b.Reading(ctx, w.plan, w.repeat)
			fmt.Print(bench.Machine(ctx, b.Servers), "\n", bench.FigureTable(figures))
			return err
		}))
	case len(w.cases) > 0:
		return exitCode(w.with(ctx, func(b *bench.Bench) error { return w.measureLive(ctx, b) }))
	}
	return exitCode(w.with(ctx, func(b *bench.Bench) error {
		report, err := b.Run(ctx, w.plan)
		if report != nil {
			fmt.Print(report.Markdown())
		}
		return err
	}))
}

// exitCode prints the error, if any, and returns the exit code.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(os.Stderr, "bench: %v\n", err)
	if _, ok := errors.AsType[*bench.IncompleteError](err); ok {
		return exitFound
	}
	return exitFailed
}

// wish is the parsed command line.
type wish struct {
	plan     bench.Plan
	settings harness.Settings
	consumer string
	cases    []bench.Case
	ways     []bench.Way
	minutes  float64
	repeat   time.Duration // of each query. Zero means that reading is not measured.
}

const usage = `Measures how fast measurements go from Kafka to MongoDB: fills a topic, has each peer drain it once a round, in turns,
counts the stored measurements, and prints a table.

The servers are those that E2E_KAFKA_BROKERS and E2E_MONGODB_URI name, embedded ones otherwise. A topic, databases and
consumer groups of its own are made there and removed.

Peers:
  waterwheel  the built program with its usual settings, from the first record read to the last offset committed
  ceiling     the buckets that it has stored, inserted again by a loop that does nothing else
  discard     the program before a proxy that answers its writes and keeps nothing: the client alone
  naive       a consumer that inserts 1,000 documents at a time: into a time series where the server has them

Scenarios:
  base        10,000 series, five fields, events of some 156 bytes
  million     1,000,000 series of one measurement each
  memory      base with MEMORY_LIMIT=256MiB

Example:
  E2E_KAFKA_BROKERS=127.0.0.1:9092 E2E_MONGODB_URI=mongodb://127.0.0.1:27017 make bench-e2e BENCHFLAGS='-records 4000000'
  make bench-e2e BENCHFLAGS='-live 100x20,10000x0.2,1000000x0.02 -minutes 9'
  make bench-e2e BENCHFLAGS='-reading 2s -records 3600000 -step 30s'

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 measured, but not everything is stored once.

Flags:
`

// parse reads the command line. Flags after -scenario override the scenario.
func parse(args []string) (*wish, error) {
	w := &wish{plan: bench.Plan{Load: bench.Base(), Peers: bench.Peers}, settings: harness.Settings{}, ways: bench.Ways}
	flags := w.flags()
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return w, w.plan.Validate()
}

func (w *wish) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	l := &w.plan.Load
	flags.Func("scenario", "base, million or memory: comes before the flags that change something of it", w.scenario)
	flags.IntVar(&l.Records, "records", l.Records, "records in the topic; the embedded MongoDB stores some thousands a second")
	flags.IntVar(&l.Series, "series", l.Series, "series, which take turns")
	flags.IntVar(&l.Fields, "fields", l.Fields, "numbers in an event")
	flags.IntVar(&l.EventBytes, "event-bytes", l.EventBytes, "minimum bytes of an event; a text fills shorter events up, and 0 fills none")
	flags.StringVar(&l.Order, "order", l.Order, "order of a series' measurements: in (by time) or shuffled")
	flags.Float64Var(&l.Late, "late", l.Late, "share of the measurements, 0 to 1, that come a minute to an hour late")
	flags.DurationVar(&l.Step, "step", l.Step, "time between two measurements of a series")
	flags.StringVar(&l.Codec, "codec", l.Codec, "compression in Kafka: "+bench.Codecs())
	flags.IntVar(&l.Partitions, "partitions", l.Partitions, "partitions of the topic")
	flags.IntVar(&w.plan.Rounds, "rounds", 3, "how often each peer has its turn")
	flags.DurationVar(&w.plan.Patience, "patience", 30*time.Minute, "how long one peer may take for one turn")
	flags.Func("peers", "who takes part, comma-separated (default: all)", func(list string) error {
		w.plan.Peers = split[bench.Peer](list)
		return nil
	})
	flags.Func("set", "a setting of the consumer, NAME=VALUE; can be repeated", harness.Pairs(func(name, value string) {
		w.settings[name] = value
	}))
	flags.StringVar(&w.consumer, "consumer", "", "a consumer that is built already")
	flags.Func("live", "instead of the table, measure a consumer that keeps up: cases <series>x<Hz>, comma-separated, as 10000x0.2", func(list string) (err error) {
		w.cases, err = bench.ParseCases(list)
		return err
	})
	flags.Float64Var(&w.minutes, "minutes", 9, "with -live: time for all cases and ways together; each takes 20 s at least")
	flags.Func("ways", "with -live: how measurements are stored, comma-separated: buckets (SEGMENTS=off), segments (SEGMENTS=on, compacted after a fourth of the time), plain (each a document, by a naive consumer) (default: all)", func(list string) error {
		w.ways = split[bench.Way](list)
		for _, way := range w.ways {
			if !slices.Contains(bench.Ways, way) {
				return fmt.Errorf("%q is not one of %v", way, bench.Ways)
			}
		}
		return nil
	})
	flags.DurationVar(&w.repeat, "reading", 0, "instead of the table, measure queries by package reader, of the view and of a native time series, each repeated for this time; the server's CPU time is known to 10 ms. With -set ROLLUP_LEVELS=1m,1h,1d: totals from measurements and from rows")
	return flags
}

// split splits a comma-separated list.
func split[T ~string](list string) (names []T) {
	for name := range strings.SplitSeq(list, ",") {
		names = append(names, T(strings.TrimSpace(name)))
	}
	return names
}

// scenario sets the values in which a scenario differs from the base scenario.
func (w *wish) scenario(name string) error {
	switch name {
	case "base":
	case "million":
		w.plan.Load.Series, w.plan.Load.Records = 1_000_000, 1_000_000
	case "memory":
		w.settings["MEMORY_LIMIT"] = "256MiB"
	default:
		return errors.New("not base, million or memory")
	}
	return nil
}

// measureLive measures each case in each way, one after the other, and prints the table. Each has time for two flushes of five
// seconds.
func (w *wish) measureLive(ctx context.Context, b *bench.Bench) error {
	share := max(time.Duration(w.minutes*float64(time.Minute))/time.Duration(len(w.cases)*len(w.ways)), 20*time.Second)
	fmt.Printf("%s- %s for each case in each way: the second and third fourth are measured, the last for freshness\n\n",
		bench.Machine(ctx, b.Servers), share.Round(time.Second))
	var results []bench.LiveResult
	var errs []error
	for _, c := range w.cases {
		for _, way := range w.ways {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r, err := b.Live(ctx, c, way, share)
			results, errs = append(results, r), append(errs, err)
		}
	}
	fmt.Print(bench.LiveTable(results))
	return errors.Join(errs...)
}

// with builds the program, starts the servers that are not given, and calls do.
func (w *wish) with(ctx context.Context, do func(*bench.Bench) error) (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for this program: %w", err)
	}
	return harness.WithServers(ctx, w.consumer, func(servers *harness.Servers, consumer string) error {
		if !servers.GivenKafka || !servers.GivenMongo {
			fmt.Fprintf(os.Stderr, "bench: the servers are: %s. Embedded ones say whether it works, not how fast it is: name real ones by E2E_KAFKA_BROKERS and E2E_MONGODB_URI.\n", servers)
		}
		return do(&bench.Bench{Servers: servers, Consumer: consumer, Naive: []string{self, naiveCommand}, Settings: w.settings, Log: os.Stderr})
	})
}
