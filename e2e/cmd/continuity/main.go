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
	"strings"
	"syscall"
	"time"

	"waterwheel/e2e/bench"
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

// parse reads the command line.
func parse(args []string) (continuity.Options, error) {
	o := continuity.Options{Settings: harness.Settings{}, Scenarios: continuity.Names(), Log: os.Stderr}
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
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag", flags.Arg(0))
	}
	return o, o.Validate()
}

// run plays the scenarios, prints the table, and returns the exit code. If a scenario fails, the table has the results before it.
func run(ctx context.Context, args []string) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		fmt.Fprintf(os.Stderr, "continuity: %v\nRun it with -help for its flags.\n", err)
		return exitUsage
	}
	err = harness.WithServers(ctx, o.Consumer, func(servers *harness.Servers, consumer string) error {
		o.Servers, o.Consumer = servers, consumer
		machine := bench.Machine(ctx, servers)
		results, err := continuity.Run(ctx, o)
		fmt.Printf("%s- %d measurements a second over %d series and %d partitions; undisturbed for %s; %v\n\n%s",
			machine, o.Rate, o.Series, o.Partitions, o.Before, o.Settings, continuity.Table(results))
		return err
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "continuity: %v\n", err)
		return exitFailed
	}
	return exitDone
}
