package bench

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// wanted is what the flags ask for.
var wanted = struct {
	measure  bool
	plan     Plan
	settings harness.Settings
	cases    []Case
	ways     []Way
	minutes  float64
}{plan: Plan{Load: Base(), Peers: Peers}, settings: harness.Settings{}, ways: Ways}

// defineFlags defines the flags of TestMeasure. Those of the load, and -set, are flags of BenchmarkReading too.
func defineFlags() {
	l := &wanted.plan.Load
	flag.BoolVar(&wanted.measure, "measure", false, "measure; otherwise TestMeasure is skipped")
	flag.IntVar(&l.Records, "records", l.Records, "records in the topic; the embedded MongoDB stores some thousands a second")
	flag.IntVar(&l.Series, "series", l.Series, "series, which take turns")
	flag.IntVar(&l.Fields, "fields", l.Fields, "numbers in an event")
	flag.IntVar(&l.EventBytes, "event-bytes", l.EventBytes, "minimum bytes of an event; a text fills shorter events up, and 0 fills none")
	flag.StringVar(&l.Order, "order", l.Order, "order of a series' measurements: in (by time) or shuffled")
	flag.Float64Var(&l.Late, "late", l.Late, "share of the measurements, 0 to 1, that come a minute to an hour late")
	flag.DurationVar(&l.Step, "step", l.Step, "time between two measurements of a series")
	flag.IntVar(&l.Partitions, "partitions", l.Partitions, "partitions of the topic")
	flag.IntVar(&wanted.plan.Rounds, "rounds", 3, "how often each peer has its turn")
	flag.DurationVar(&wanted.plan.Patience, "patience", 30*time.Minute, "how long one peer may take for one turn")
	flag.Func("peers", fmt.Sprintf("who takes part, comma-separated (default: %v)", Peers), func(list string) error {
		wanted.plan.Peers = split[Peer](list)
		return nil
	})
	flag.Func("set", "a setting of the measured consumer, NAME=VALUE; can be repeated", harness.Pairs(func(name, value string) {
		wanted.settings[name] = value
	}))
	flag.Func("live", "instead of drains, measure a consumer that keeps up: cases <series>x<Hz>, comma-separated, as 10000x0.2", func(list string) (err error) {
		wanted.cases, err = parseCases(list)
		return err
	})
	flag.Float64Var(&wanted.minutes, "minutes", 9, "with -live: time for all cases and ways together; each takes 20 s at least")
	flag.Func("ways", "with -live: how measurements are stored, comma-separated: buckets (SEGMENTS=off), segments (SEGMENTS=on, compacted after a fourth of the time), plain (each a document, by a naive consumer) (default: all)", func(list string) error {
		wanted.ways = split[Way](list)
		for _, way := range wanted.ways {
			if !slices.Contains(Ways, way) {
				return fmt.Errorf("%q is not one of %v", way, Ways)
			}
		}
		return nil
	})
}

// split splits a comma-separated list.
func split[T ~string](list string) (names []T) {
	for name := range strings.SplitSeq(list, ",") {
		names = append(names, T(strings.TrimSpace(name)))
	}
	return names
}

// parseCases parses the cases of a command line, such as 10000x0.2,100x20.
func parseCases(list string) (cases []Case, err error) {
	for text := range strings.SplitSeq(list, ",") {
		series, rate, _ := strings.Cut(text, "x")
		n, errSeries := strconv.Atoi(series)
		each, errRate := strconv.ParseFloat(rate, 64)
		if errSeries != nil || errRate != nil || n < 1 || !(each > 0) || math.IsInf(each, 1) {
			return nil, fmt.Errorf("%q is not a number of series and a rate, as 10000x0.2", text)
		}
		cases = append(cases, Case{n, each})
	}
	return cases, nil
}

// TestMeasure measures peers in turns, or with -live a consumer that keeps up. It prints a table, and fails if not every measurement
// is stored once.
func TestMeasure(t *testing.T) {
	if !wanted.measure {
		t.Skip("nothing is measured: make bench-e2e does, with -measure")
	}
	ctx, b := interruptible(t), benchOfFlags(t)
	if len(wanted.cases) > 0 {
		measureLive(ctx, t, b)
		return
	}
	report, err := b.Run(ctx, wanted.plan)
	if report != nil {
		fmt.Printf("\n%s\n", report.Markdown())
	}
	if err != nil {
		t.Error(err)
	}
}

// measureLive measures each case in each way, one after the other, and prints the table. Each has time for two flushes of five
// seconds.
func measureLive(ctx context.Context, t *testing.T, b *Bench) {
	t.Helper()
	share := max(time.Duration(wanted.minutes*float64(time.Minute))/time.Duration(len(wanted.cases)*len(wanted.ways)), 20*time.Second)
	head := fmt.Sprintf("%s- %s for each case in each way: the second and third fourth are measured, the last for freshness\n",
		Machine(ctx, b.Servers), share.Round(time.Second))
	var results []LiveResult
	for _, c := range wanted.cases {
		for _, way := range wanted.ways {
			if ctx.Err() != nil {
				break
			}
			r, err := b.Live(ctx, c, way, share)
			if err != nil {
				t.Error(err)
			}
			results = append(results, r)
		}
	}
	fmt.Printf("\n%s\n%s\n", head, LiveTable(results))
}

// interruptible returns the context of a measurement. An interrupted measurement deletes its data.
func interruptible(tb testing.TB) context.Context {
	ctx, stop := signal.NotifyContext(tb.Context(), os.Interrupt, syscall.SIGTERM)
	tb.Cleanup(stop)
	return ctx
}

// benchOfFlags returns a bench with the settings of the flags.
func benchOfFlags(tb testing.TB) *Bench {
	tb.Helper()
	b, _ := newBench(tb)
	b.Settings, b.Log = wanted.settings, os.Stderr
	return b
}

func TestParseCases(t *testing.T) {
	cases, err := parseCases("100x20,1000000x0.02")
	if want := []Case{{100, 20}, {1_000_000, 0.02}}; err != nil || !slices.Equal(cases, want) {
		t.Errorf("%v, %v", cases, err)
	}
	for _, list := range []string{"", "10000", "0x1", "10x-1", "10x1,"} {
		if cases, err := parseCases(list); err == nil {
			t.Errorf("%q is %v", list, cases)
		}
	}
}
