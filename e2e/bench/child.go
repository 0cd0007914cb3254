package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"waterwheel/e2e/harness"
)

// task is the work of a peer in a process of its own.
type task struct {
	Peer          Peer
	Brokers       string
	MongoURI      string
	Database      string
	Collection    string
	Group         string
	Ends          []int64 // ends of the log, by partition
	From          string  // the database whose buckets Ceiling inserts again
	Parallel      int
	Kafka, Server int32 // process ids. Zero means unknown.
}

// outcome is the result of such a process. The process measures it itself, because its work before and after does not count.
type outcome struct {
	Wall, CPU           time.Duration
	ServerCPU, KafkaCPU *time.Duration
	MaxResident         int64
}

// taskVariable is the environment variable that passes a task. outcomeMark begins the line with the outcome.
const (
	taskVariable = "BENCH_TASK"
	outcomeMark  = "bench outcome: "
)

// Child does the task in the environment, and prints its outcome. The program of Bench.Self calls it when it is started with the
// arguments in Bench.Self.
func Child() error {
	var t task
	if err := json.Unmarshal([]byte(os.Getenv(taskVariable)), &t); err != nil {
		return fmt.Errorf("reading the task: %w (the benchmark starts this command by itself)", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	work := map[Peer]func(context.Context, task, *stopwatch) error{Naive: naive, Ceiling: ceiling, following: follow}[t.Peer]
	if work == nil {
		return fmt.Errorf("no peer is named %q", t.Peer)
	}
	w := &stopwatch{task: t}
	if err := work(ctx, t, w); err != nil {
		return err
	}
	line, err := json.Marshal(w.outcome)
	if err != nil {
		return fmt.Errorf("writing the outcome: %w", err)
	}
	fmt.Printf("%s%s\n", outcomeMark, line)
	return nil
}

// stopwatch measures a task.
type stopwatch struct {
	task    task
	begin   time.Time
	cpu     time.Duration
	meter   *meter
	outcome outcome
}

func (w *stopwatch) start(ctx context.Context) {
	w.meter = startMeter(ctx, w.task.Server, w.task.Kafka)
	w.begin, w.cpu = time.Now(), OwnCPU()
}

func (w *stopwatch) stop(ctx context.Context) {
	w.outcome.Wall, w.outcome.CPU = time.Since(w.begin), OwnCPU()-w.cpu
	w.outcome.ServerCPU, w.outcome.KafkaCPU = w.meter.used(ctx, 0), w.meter.used(ctx, 1)
	w.outcome.MaxResident = MaxResidentOf(os.Getpid())
}

// start starts a process that does a task.
func (b *Bench) start(t task) (*harness.Consumer, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("writing the task: %w", err)
	}
	return harness.Start(b.Self[0], harness.Settings{taskVariable: string(text)}, b.Self[1:]...)
}

// child runs a task in a process of its own, and returns its outcome.
func (b *Bench) child(ctx context.Context, t task) (outcome, error) {
	process, err := b.start(t)
	if err != nil {
		return outcome{}, err
	}
	defer process.Kill()
	code, err := process.Wait(ctx)
	if err != nil {
		return outcome{}, err
	}
	_, line, found := strings.Cut(process.Log(), outcomeMark)
	if code != 0 || !found {
		return outcome{}, fmt.Errorf("%s ended with code %d:\n%s", t.Peer, code, process.Log())
	}
	var o outcome
	if err := json.Unmarshal([]byte(strings.SplitN(line, "\n", 2)[0]), &o); err != nil {
		return outcome{}, errors.Join(fmt.Errorf("reading the outcome of %s: %w", t.Peer, err), errors.New(process.Log()))
	}
	return o, nil
}
