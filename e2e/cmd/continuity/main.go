// Command continuity measures how long partitions stand still when consumers come, go or die.
//
//	E2E_KAFKA_LIBS=/opt/kafka/libs E2E_MONGODB_URI=mongodb://... go run ./cmd/continuity -only kill,kill-static
//
// E2E_KAFKA_LIBS is the folder of Kafka's jars. The command starts a cluster of three brokers from them, which needs java.
// E2E_KAFKA_BROKERS names a running cluster instead. Without either, and without E2E_MONGODB_URI, the command starts embedded
// servers, which only show whether it works. -help lists the flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"waterwheel/e2e/continuity"
	"waterwheel/e2e/harness"
)

// These are the exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// wish is the parsed command line.
type wish struct {
	options continuity.Options
	out     string
}

// parse reads the command line.
func parse(args []string) (*wish, error) {
	w := &wish{options: continuity.Options{Settings: harness.Settings{}, Scenarios: continuity.Names(), Log: os.Stderr}}
	o := &w.options
	flags := flag.NewFlagSet("continuity", flag.ContinueOnError)
	flags.Func("only", "scenarios, comma-separated, of "+strings.Join(continuity.Names(), ", ")+" (default: all)", func(list string) error {
		o.Scenarios = strings.Split(list, ",")
		return nil
	})
	flags.IntVar(&o.Rate, "rate", 2000, "measurements a second")
	flags.IntVar(&o.Series, "series", 120, "number of series")
	flags.IntVar(&o.Partitions, "partitions", 12, "partitions of the topic")
	flags.DurationVar(&o.Before, "before", time.Minute, "how long to look on before a disturbance")
	flags.DurationVar(&o.After, "after", 15*time.Second, "how long to look on when all partitions are written to again")
	flags.DurationVar(&o.Patience, "patience", 5*time.Minute, "how long the group has to come to rest")
	flags.Func("set", "a setting of the consumers, NAME=VALUE; can be repeated (default: the program's defaults)", harness.Pairs(func(name, value string) {
		o.Settings[name] = value
	}))
	flags.StringVar(&o.Consumer, "consumer", "", "a consumer that is built already")
	flags.StringVar(&w.out, "out", "", "file that the figures are written into, as JSON")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%q is no flag", flags.Arg(0))
	}
	return w, o.Validate()
}

// run measures as the arguments say, and returns the exit code.
func run(ctx context.Context, args []string) int {
	w, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		fmt.Fprintf(os.Stderr, "continuity: %v\nRun it with -help for its flags.\n", err)
		return exitUsage
	}
	if err := w.with(ctx, func() error { return w.measure(ctx, commandOf(args)) }); err != nil {
		fmt.Fprintf(os.Stderr, "continuity: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// commandOf returns the command line of make that gives these arguments. The Makefile adds -consumer itself.
func commandOf(args []string) string {
	if len(args) >= 2 && args[0] == "-consumer" {
		args = args[2:]
	}
	if len(args) == 0 {
		return "make continuity"
	}
	return "make continuity CONTINUITYFLAGS='" + strings.Join(args, " ") + "'"
}

// with builds the program, starts the servers that are not given, and calls do.
func (w *wish) with(ctx context.Context, do func() error) (err error) {
	dir, err := os.MkdirTemp("", "waterwheel-continuity-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if w.options.Consumer == "" {
		if w.options.Consumer, err = harness.Build(ctx, dir, false); err != nil {
			return err
		}
	}
	if jars := os.Getenv("E2E_KAFKA_LIBS"); jars != "" && os.Getenv("E2E_KAFKA_BROKERS") == "" {
		cluster, err := harness.StartCluster(ctx, harness.ClusterOptions{Jars: jars, Dir: filepath.Join(dir, "kafka"), Brokers: 3})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cluster.Close()) }()
		os.Setenv("E2E_KAFKA_BROKERS", cluster.Address()) // StartServers reads this variable
	}
	if w.options.Servers, err = harness.StartServers(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.options.Servers.Close()) }()
	return do()
}

// measure plays the scenarios, prints the table and writes the file. If a scenario fails, it does so for the results before it.
func (w *wish) measure(ctx context.Context, command string) error {
	report, err := continuity.Run(ctx, w.options)
	if report == nil || len(report.Results) == 0 {
		return err
	}
	report.Command = command
	fmt.Print(report.Markdown())
	if w.out != "" {
		err = errors.Join(err, report.Write(w.out))
	}
	return err
}
