// Command chaos disturbs the consumer in all ways that occur in operation, and judges the stored data.
//
//	E2E_KAFKA_LIBS=/opt/kafka/libs E2E_MONGODB_URI=mongodb://127.0.0.1:27017 go run ./cmd/chaos -duration 10m
//
// E2E_KAFKA_LIBS is the folder of Kafka's jars. The command starts a cluster of three brokers from them, which needs java.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"waterwheel/e2e/chaos"
	"waterwheel/e2e/harness"
	"waterwheel/e2e/naive"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	if os.Getenv(naive.Positions) != "" { // this is the process of a naive consumer that naiveOptions names
		return naive.Run()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, compare, err := newOptions(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "waterwheel-chaos-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() {
		if err != nil {
			fmt.Fprintln(os.Stderr, "the logs are in", dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	o.Dir = filepath.Join(dir, "waterwheel")
	if o.Binary, err = harness.Build(ctx, dir, false); err != nil {
		return err
	}
	result, err := chaos.Run(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("%v\n%v\n", result, result.Report)
	rows := row("waterwheel", result)
	if compare {
		inserted, err := chaos.Run(ctx, naiveOptions(o, dir))
		if err != nil {
			return err
		}
		fmt.Println(inserted)
		rows += row("insertMany, then commit", inserted)
	}
	fmt.Print("\n| consumer | disturbances | measurements | stored once | missing | doubled |\n|---|---|---|---|---|---|\n", rows)
	return result.Err()
}

// newOptions returns the options of the command line. compare means that a naive consumer is disturbed too.
func newOptions(args []string) (o chaos.Options, compare bool, err error) {
	var actions string
	flags := flag.NewFlagSet("chaos", flag.ExitOnError)
	flags.DurationVar(&o.Duration, "duration", 3*time.Minute, "how long to disturb")
	flags.DurationVar(&o.Every, "every", 3*time.Second, "mean time between two disturbances")
	flags.IntVar(&o.Members, "members", 3, "consumers at first")
	flags.IntVar(&o.Rate, "rate", 2000, "records a second")
	flags.IntVar(&o.Series, "series", 500, "number of series")
	flags.IntVar(&o.Partitions, "partitions", 6, "partitions at first")
	flags.DurationVar(&o.WriteTimeout, "write-timeout", 5*time.Second, "MONGODB_WRITE_TIMEOUT")
	flags.Func("set", "a setting of the consumers, NAME=VALUE; can be repeated. With ROLLUP_LEVELS=1m,1h,1d the rows of rollups are judged too", harness.Pairs(func(name, value string) {
		o.Settings = append(o.Settings, name, value)
	}))
	flags.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "decides about the disturbances and the events")
	flags.StringVar(&actions, "actions", strings.Join(chaos.DefaultActions(), ","), "disturbances, each as often as it is named, of "+strings.Join(chaos.Names(), ", "))
	flags.BoolVar(&compare, "compare", false, "disturb a naive consumer (insertMany, then commit) the same way afterwards, and print both in the table")
	flags.Func("database", "a program with its arguments, parted by spaces, that serves the durable database at E2E_MONGODB_URI: the run starts it, and database-kill kills it; repeated for each process of a cluster", func(command string) error {
		o.DatabaseCommands = append(o.DatabaseCommands, strings.Fields(command))
		return nil
	})
	flags.StringVar(&o.ShardKey, "shard", "", "E2E_MONGODB_URI names a router: shard the buckets by this key, ranged or hashed, and move chunks")
	flags.DurationVar(&o.Look, "look", 0, "how often to compare what a reader sees with what is committed; zero means never")
	if err := flags.Parse(args); err != nil {
		return o, false, err
	}
	o.Actions, o.Log = strings.Split(actions, ","), os.Stdout
	o.MongoURI, o.Jars = os.Getenv("E2E_MONGODB_URI"), os.Getenv("E2E_KAFKA_LIBS")
	if o.Jars == "" || o.MongoURI == "" {
		return o, false, errors.New("chaos needs E2E_KAFKA_LIBS, the folder of Kafka's jars (libs of its distribution), and E2E_MONGODB_URI")
	}
	return o, compare, nil
}

// naiveOptions returns the options of a run of the naive consumer, which is this program.
func naiveOptions(o chaos.Options, dir string) chaos.Options {
	o.Binary, o.Naive, o.Dir = os.Args[0], true, filepath.Join(dir, "naive")
	// A reset makes the naive consumer store everything twice, as is to be expected. It has no commands of operators.
	o.Actions = slices.DeleteFunc(slices.Clone(o.Actions), func(name string) bool {
		return name == "reset" || name == "update-meta" || name == "repair"
	})
	return o
}

// row returns a line of the table.
func row(name string, r *chaos.Result) string {
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d |\n", name, r.Disturbances(), r.Report.Valid, r.Report.Stored, r.Report.Missing, r.Report.Doubled)
}
