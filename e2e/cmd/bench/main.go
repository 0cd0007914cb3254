// Command bench measures how fast measurements go from Kafka to MongoDB, by the built program and by other ways.
//
//	E2E_KAFKA_BROKERS=host:port E2E_MONGODB_URI=mongodb://... go run ./cmd/bench -records 4000000 -out /tmp/bench
//
// Without these two variables it starts embedded servers. They show whether it works, but not how fast it is. -help lists the
// flags.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/bench/discard"
	"waterwheel/e2e/harness"
)

// These are the exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitFound  = 3 // measured, but not every measurement is stored once
)

// childCommand is the argument with which this program starts itself as a child.
const childCommand = "peer"

func main() {
	discard.Main() // does not return in a process that is the proxy
	if len(os.Args) == 2 && os.Args[1] == childCommand {
		if err := bench.Child(); err != nil {
			fmt.Println("bench:", err)
			os.Exit(exitFailed)
		}
		return
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
	case errors.Is(err, errHelp):
		return exitDone
	case err != nil:
		fmt.Fprintf(os.Stderr, "bench: %v\nRun it with -help for its flags.\n", err)
		return exitUsage
	}
	if w.reading || w.rollups {
		return exitCode(w.measureReading(ctx))
	}
	if w.figures.wanted() {
		return exitCode(w.with(ctx, func(b *bench.Bench) error { return w.figures.make(ctx, b, w.plan.Rounds, commandOf(args)) }))
	}
	var report *bench.Report
	err = w.with(ctx, func(b *bench.Bench) (err error) {
		report, err = b.Run(ctx, w.plan)
		return err
	})
	if report != nil {
		report.Command = commandOf(args)
		if printErr := w.print(report); printErr != nil {
			err = errors.Join(err, printErr)
		}
	}
	return exitCode(err)
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

// commandOf returns the command line of make that gives these arguments. The Makefile adds -consumer itself.
func commandOf(args []string) string {
	if len(args) >= 2 && args[0] == "-consumer" {
		args = args[2:]
	}
	if len(args) == 0 {
		return "make bench-e2e"
	}
	return "make bench-e2e BENCHFLAGS='" + strings.Join(args, " ") + "'"
}

// with builds the program, starts the servers that are not given, and calls do.
func (w *wish) with(ctx context.Context, do func(*bench.Bench) error) (err error) {
	dir, err := os.MkdirTemp("", "waterwheel-bench-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for this program: %w", err)
	}
	if w.consumer == "" {
		if w.consumer, err = harness.Build(ctx, dir, false); err != nil {
			return err
		}
	}
	servers, err := harness.StartServers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	w.fit(servers)
	b := &bench.Bench{
		Servers: servers, Consumer: w.consumer, Self: []string{self, childCommand}, Settings: w.settings,
		Profiles: w.profiles, Log: os.Stderr,
	}
	return do(b)
}

// fit prints a warning if a server is embedded, because its speed is of no interest. For the embedded MongoDB it keeps the load
// small, unless the flags set the load.
func (w *wish) fit(servers *harness.Servers) {
	if servers.GivenKafka && servers.GivenMongo {
		return
	}
	fmt.Fprintf(os.Stderr, "bench: the servers are: %s. Embedded ones say whether it works, not how fast it is: name real ones by E2E_KAFKA_BROKERS and E2E_MONGODB_URI.\n", servers)
	if !w.given["records"] && !servers.GivenMongo {
		w.plan.Load.Records = min(w.plan.Load.Records, embeddedRecords)
		if !w.given["series"] {
			w.plan.Load.Series = min(w.plan.Load.Series, embeddedRecords/100)
		}
	}
}

// embeddedRecords is a number of records that the embedded MongoDB stores in some seconds.
const embeddedRecords = 20_000

// print prints the report. It also writes the report to the folder of -out, if there is one.
func (w *wish) print(r *bench.Report) error {
	text := r.Markdown()
	fmt.Print(text)
	if w.out == "" {
		return nil
	}
	return r.Write(w.out)
}
