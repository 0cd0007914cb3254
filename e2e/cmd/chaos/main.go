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

func run(args []string) error {
	if len(args) > 0 && args[0] == "naive" {
		return naive.Run()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p, err := newPlan(args)
	if err != nil {
		return err
	}
	err = p.run(ctx)
	return errors.Join(err, p.close(err != nil))
}

// plan is the parsed command line.
type plan struct {
	options chaos.Options
	naive   bool // run the naive consumer instead of waterwheel
	compare bool // run both consumers
	self    string
}

func newPlan(args []string) (*plan, error) {
	p := &plan{}
	o := &p.options
	var actions string
	flags := flag.NewFlagSet("chaos", flag.ExitOnError)
	flags.DurationVar(&o.Duration, "duration", 3*time.Minute, "how long to disturb")
	flags.DurationVar(&o.Every, "every", 3*time.Second, "mean time between two disturbances")
	flags.DurationVar(&o.Patience, "patience", 5*time.Minute, "how long the consumers have at the end to store the rest")
	flags.IntVar(&o.Members, "members", 3, "consumers at first")
	flags.IntVar(&o.Rate, "rate", 2000, "records a second")
	flags.IntVar(&o.Series, "series", 500, "number of series")
	flags.IntVar(&o.Partitions, "partitions", 6, "partitions at first")
	flags.DurationVar(&o.WriteTimeout, "write-timeout", 5*time.Second, "MONGODB_WRITE_TIMEOUT")
	flags.BoolVar(&o.Reopen, "reopen", true, "BUCKET_REOPEN")
	flags.Func("set", "a setting of the consumers, NAME=VALUE; can be repeated. With ROLLUP_LEVELS=1m,1h,1d the rows of rollups are judged too", harness.Pairs(func(name, value string) {
		o.Settings = append(o.Settings, name, value)
	}))
	flags.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "decides about the disturbances and the events")
	flags.StringVar(&actions, "actions", strings.Join(chaos.DefaultActions(), ","), "disturbances, each as often as it is named, of "+strings.Join(chaos.Names(), ", "))
	flags.BoolVar(&o.Avro, "avro", false, "send events in Avro, whose schemas are in a schema registry of the run: with the disturbance registry, it is killed for 30s")
	flags.BoolVar(&p.naive, "naive", false, "disturb a naive consumer (insertMany, then commit) instead")
	flags.BoolVar(&p.compare, "compare", false, "disturb both, the same way, and print a table")
	flags.Func("database", "a program with its arguments, parted by spaces, that serves the durable database at E2E_MONGODB_URI: the run starts it, and database-kill kills it; repeated for each process of a cluster", func(command string) error {
		o.DatabaseCommands = append(o.DatabaseCommands, strings.Fields(command))
		return nil
	})
	flags.StringVar(&o.ShardKey, "shard", "", "E2E_MONGODB_URI names a router: shard the buckets by this key, ranged or hashed, and move chunks")
	flags.DurationVar(&o.ChunkPause, "chunk-pause", 3*time.Second, "pause between two moves of chunks")
	flags.DurationVar(&o.Look, "look", 0, "how often to compare what a reader sees with what is committed; zero means never")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.Actions, o.Log = strings.Split(actions, ","), os.Stdout
	o.MongoURI, o.Jars = os.Getenv("E2E_MONGODB_URI"), os.Getenv("E2E_KAFKA_LIBS")
	if o.Jars == "" || o.MongoURI == "" {
		return nil, errors.New("chaos needs E2E_KAFKA_LIBS, the folder of Kafka's jars (libs of its distribution), and E2E_MONGODB_URI")
	}
	var err error
	if o.Dir, err = os.MkdirTemp("", "waterwheel-chaos-"); err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	if p.self, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("looking for this program: %w", err)
	}
	return p, nil
}

// run makes the runs, and prints their results as a table.
func (p *plan) run(ctx context.Context) error {
	binary, err := harness.Build(ctx, p.options.Dir, false)
	if err != nil {
		return err
	}
	var rows []string
	var errs []error
	for _, naive := range []bool{false, true} {
		if !p.compare && naive != p.naive {
			continue
		}
		o := p.optionsOf(naive, binary)
		result, err := chaos.Run(ctx, o)
		if err != nil {
			return err
		}
		fmt.Println(result)
		if result.Report != nil {
			fmt.Println(result.Report)
		}
		rows = append(rows, row(o, result))
		if !naive {
			errs = append(errs, result.Err())
		}
	}
	fmt.Println("\n| consumer | disturbances | measurements | stored once | missing | doubled |\n|---|---|---|---|---|---|")
	fmt.Println(strings.Join(rows, "\n"))
	return errors.Join(errs...)
}

// row returns a line of the table.
func row(o chaos.Options, r *chaos.Result) string {
	name, disturbances := "waterwheel", 0
	if o.Naive {
		name = "insertMany, then commit"
	}
	for _, n := range r.Actions {
		disturbances += n
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d |", name, disturbances, r.Valid, r.Stored, r.Missing, r.Doubled)
}

// optionsOf returns the options of the run of one consumer.
func (p *plan) optionsOf(naive bool, binary string) chaos.Options {
	o := p.options
	o.Binary, o.Naive = binary, naive
	o.Dir = filepath.Join(o.Dir, map[bool]string{false: "waterwheel", true: "naive"}[naive])
	if naive {
		o.Binary, o.Args = p.self, []string{"naive"}
		// A reset makes the naive consumer store everything twice, as is to be expected.
		o.Actions = slices.DeleteFunc(slices.Clone(o.Actions), func(name string) bool { return name == "reset" })
	}
	return o
}

// close deletes the logs, unless something failed.
func (p *plan) close(failed bool) error {
	if failed {
		fmt.Fprintln(os.Stderr, "the logs are in", p.options.Dir)
		return nil
	}
	return os.RemoveAll(p.options.Dir)
}
