package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/bench/live"
	"waterwheel/e2e/bench/reading"
	"waterwheel/e2e/harness"
)

// wish is the parsed command line.
type wish struct {
	plan     bench.Plan
	settings harness.Settings
	consumer string
	out      string
	figures  figures
	profiles string
	reading  bool
	rollups  bool
	stored   reading.Load
	given    map[string]bool // the flags that were set, by name
}

// errHelp means that the user asked for help, which is already printed.
var errHelp = errors.New("help")

const usage = `Measures how fast measurements go from Kafka to MongoDB: fills a topic, has each peer drain it once a round, in turns,
counts what is stored, and prints a table.

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
  E2E_KAFKA_BROKERS=127.0.0.1:9092 E2E_MONGODB_URI=mongodb://127.0.0.1:27017 make bench-e2e BENCHFLAGS='-records 4000000 -out /tmp/bench'
  make bench-e2e BENCHFLAGS='-curves -rounds 1'
  make bench-e2e BENCHFLAGS='-live -minutes 20'
  make bench-e2e BENCHFLAGS=-reading
  make bench-e2e BENCHFLAGS='-rollups -stored-series 10 -stored-hours 744'
  make bench-e2e BENCHFLAGS='-live -minutes 9 -case 100x20,10000x0.2,1000000x0.02'

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 measured, but not everything is stored once.

Flags:
`

// parse reads the command line. Flags after -scenario override the scenario.
func parse(args []string) (*wish, error) {
	w := &wish{plan: bench.Plan{Load: bench.Base()}, settings: harness.Settings{}, given: map[string]bool{}}
	flags := w.flags()
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil, errHelp
	} else if err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	flags.Visit(func(f *flag.Flag) { w.given[f.Name] = true })
	return w, errors.Join(w.plan.Validate(), w.figures.validate(), w.stored.Validate())
}

func (w *wish) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(os.Stderr)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	l := &w.plan.Load
	flags.Func("scenario", "base, million or memory: comes before the flags that change something of it", w.scenario)
	flags.IntVar(&l.Records, "records", l.Records, "records in the topic; the embedded MongoDB gets 20,000 if not set")
	flags.IntVar(&l.Series, "series", l.Series, "series, which take turns")
	flags.IntVar(&l.Fields, "fields", l.Fields, "numbers in an event")
	flags.IntVar(&l.EventBytes, "event-bytes", l.EventBytes, "bytes that shorter events are brought to by a text; 0: none is")
	flags.StringVar(&l.Order, "order", l.Order, "order of a series' measurements: in (by time) or shuffled")
	flags.Float64Var(&l.Late, "late", l.Late, "share of the measurements, 0 to 1, that come a minute to an hour late")
	flags.DurationVar(&l.Step, "step", l.Step, "time between two measurements of a series")
	flags.StringVar(&l.Codec, "codec", l.Codec, "compression in Kafka: "+strings.Join(bench.Codecs, ", "))
	flags.IntVar(&l.Partitions, "partitions", l.Partitions, "partitions of the topic")
	flags.IntVar(&w.plan.Rounds, "rounds", 3, "how often each peer has its turn")
	flags.DurationVar(&w.plan.Patience, "patience", 30*time.Minute, "how long one peer may take for one turn")
	w.plan.Peers = bench.Peers
	flags.Func("peers", "who takes part, comma-separated (default: all)", func(list string) error {
		w.plan.Peers = nil
		for name := range strings.SplitSeq(list, ",") {
			w.plan.Peers = append(w.plan.Peers, bench.Peer(strings.TrimSpace(name)))
		}
		return nil
	})
	flags.Func("set", "a setting of the consumer, NAME=VALUE; can be repeated", harness.Pairs(func(name, value string) {
		w.settings[name] = value
	}))
	flags.StringVar(&w.consumer, "consumer", "", "a consumer that is built already")
	f := &w.figures
	flags.BoolVar(&f.curves, "curves", false, "instead of the table, draw how the cost of a measurement grows with the series, the partitions, ...")
	flags.Func("only", "with -curves: names of curves, comma-separated; the document is left as it is (default: all)", func(list string) error {
		f.only = strings.Split(list, ",")
		return nil
	})
	flags.Float64Var(&f.scale, "scale", 1, "with -curves: so many times the usual number of records at each point")
	flags.BoolVar(&f.live, "live", false, "instead of the table, measure a consumer that keeps up, for rates of 0.01 to 100 Hz and 100 to 1,000,000 series")
	flags.Float64Var(&f.minutes, "minutes", 20, "with -live: time for all cases and ways together; each takes 20 s at least")
	flags.Func("case", "with -live: only these cases, <series>x<Hz>, comma-separated, as 10000x0.2; the document is left as it is", func(list string) (err error) {
		f.cases, err = live.ParseCases(list)
		return err
	})
	f.ways = live.Ways
	flags.Func("ways", "with -live: how measurements are stored, comma-separated: buckets (SEGMENTS=off), segments (SEGMENTS=on, compacted after a fourth of the time), plain (each a document, by a naive consumer) (default buckets,segments,plain)", func(list string) (err error) {
		f.ways, err = live.ParseWays(list)
		return err
	})
	flags.Float64Var(&f.most, "most", 20_000, "with -live: measurements a second that the machine can do; cases beyond are left out")
	flags.StringVar(&f.docs, "docs", "docs", "with -curves and -live: folder of benchmarks.md, whose section is replaced, and of the drawings in benchmarks/")
	flags.BoolVar(&w.reading, "reading", false, "instead of the table, measure queries by package reader, of the view and of a native time series; it needs E2E_MONGODB_URI only")
	flags.BoolVar(&w.rollups, "rollups", false, "instead of the table, measure building rollups, and totals from their rows and from measurements; it needs E2E_MONGODB_URI only")
	flags.IntVar(&w.stored.Series, "stored-series", 10_000, "with -reading and -rollups: series")
	flags.IntVar(&w.stored.Hours, "stored-hours", 3, "with -reading and -rollups: hours, with a bucket of each series in each")
	flags.IntVar(&w.stored.Flushes, "stored-flushes", 0, "with -reading: flushes behind these hours whose measurements, one of each series, are in segments; one series is asked for then")
	flags.IntVar(&w.stored.Rows, "stored-rows", 100, "with -reading: measurements in a segment at most, as SEGMENT_MEASUREMENTS")
	flags.DurationVar(&w.stored.Repeat, "stored-repeat", 2*time.Second, "with -reading and -rollups: how long each query is repeated; the server's CPU time is known to 10 ms")
	flags.DurationVar(&w.stored.Step, "stored-step", 30*time.Second, "with -reading and -rollups: time between two measurements of a series, 4 s to 5 min, with -rollups to 1 h")
	flags.StringVar(&w.out, "out", "", "folder that report.json and report.md are written into")
	flags.StringVar(&w.profiles, "cpuprofile", "", "folder for processor profiles of the consumer, <peer>-<round>.pprof: go tool pprof -top shows one; they cost some processor time")
	return flags
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
