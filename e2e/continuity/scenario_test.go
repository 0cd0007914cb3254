package continuity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// Options says what to measure.
type Options struct {
	Servers *harness.Servers
	// Consumer is the path of the program.
	Consumer string
	// Settings are further settings of the consumers. The addresses and names are set by the scenario, the rest are the program's
	// defaults.
	Settings harness.Settings
	// Scenarios are the names of the scenarios to play, in this order. Empty means all.
	Scenarios []string
	// Rate is in measurements a second. Series and Partitions are numbers of series and partitions.
	Rate, Series, Partitions int
	// Before is the duration of the undisturbed part. After is how long the scenario continues once all partitions are written to
	// again. Both must be longer than two flushes.
	Before, After time.Duration
	// Patience is how long the group may take to come to rest after a disturbance, and to store the rest at the end.
	Patience time.Duration
	// Log gets lines about the progress.
	Log io.Writer
}

func (o Options) note(format string, args ...any) {
	fmt.Fprintf(o.Log, "%s  %s\n", time.Now().UTC().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

// Result is the result of a scenario.
type Result struct {
	What string
	// Before is the undisturbed gap of all partitions. Own is the gap of the disturbed consumer's partitions, Others that of all
	// others.
	Before, Own, Others Gap
	// Moved is the number of partitions that have another owner after the disturbance.
	Moved int
	// Recovered is the time from the start of the disturbance until the new owner of each partition has written to it.
	Recovered time.Duration
	// FreshnessBefore is the freshness before the disturbance. Freshness covers the time from its start until all partitions
	// recovered.
	FreshnessBefore, Freshness bench.Freshness
	// Looked is the longest time between two looks. No figure is known more exactly.
	Looked time.Duration
	// Valid is the number of measurements that must be stored. Stored of them are stored once.
	Valid, Stored int
	// Verdict is nil when everything is stored once and correctly.
	Verdict error
}

// Table returns the results as a Markdown table. A gap has two values: of the best and of the worst partition,
// with the number of partitions in brackets.
func Table(results []Result) string {
	rows := [][]string{{
		"scenario", "undisturbed, s", "its own partitions, s", "the others', s", "moved", "recovered after, s",
		"freshness undisturbed, s: p50 / p90 / p99 / max", "until recovered", "looked every, ms", "stored once",
	}}
	for _, r := range results {
		rows = append(rows, []string{
			r.What, r.Before.String(), r.Own.String(), r.Others.String(), fmt.Sprint(r.Moved), fmt.Sprintf("%.1f", r.Recovered.Seconds()),
			r.FreshnessBefore.String(), r.Freshness.String(), fmt.Sprint(r.Looked.Milliseconds()), fmt.Sprintf("%d of %d", r.Stored, r.Valid),
		})
	}
	return bench.Table(rows)
}

// Run plays the scenarios one after the other. It joins the checker's verdicts in the error. Any other error ends the run. In
// both cases it returns the results so far.
func Run(ctx context.Context, o Options) ([]Result, error) {
	toPlay, err := named(o.Scenarios)
	if err != nil {
		return nil, err
	}
	var results []Result
	var verdicts []error
	for _, s := range toPlay {
		result, err := play(ctx, o, s)
		if err != nil {
			return results, errors.Join(append(verdicts, fmt.Errorf("%s: %w", s.name, err))...)
		}
		results, verdicts = append(results, *result), append(verdicts, result.Verdict)
	}
	return results, errors.Join(verdicts...)
}

// run is a scenario in progress.
type run struct {
	Options
	scenario scenario
	name     string // of the topic, the database and the group
	kafka    *check.Kafka
	group    *group
	watch    *watch
	load     *load
}

// cleanPatience is how long the servers may take to delete the data of a scenario.
const cleanPatience = time.Minute

// play plays one scenario, and deletes its data unless the verdict is an error.
func play(ctx context.Context, o Options, s scenario) (result *Result, err error) {
	r := &run{Options: o, scenario: s, name: fmt.Sprintf("continuity-%s-%x", s.name, time.Now().UnixNano())}
	r.note("%s: %s", s.name, s.what)
	if err := o.Servers.CreateTopic(ctx, r.name, o.Partitions); err != nil {
		return nil, err
	}
	defer func() {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience)
		defer cancel()
		err = errors.Join(err, o.Servers.DeleteTopics(after, r.name, r.name+".dlq"))
		if result != nil && result.Verdict != nil {
			r.note("the stored measurements stay in the database %s", r.name)
			return
		}
		err = errors.Join(err, o.Servers.DropDatabase(after, r.name))
	}()
	if r.kafka, err = check.DialKafka(o.Servers.Brokers); err != nil {
		return nil, err
	}
	defer r.kafka.Close()
	err = check.WithDatabase(ctx, o.Servers.MongoURI, r.name, func(database *mongo.Database) (err error) {
		result, err = r.all(ctx, database)
		return err
	})
	return result, err
}

// all starts the load and the members, measures, and judges the stored measurements.
func (r *run) all(ctx context.Context, database *mongo.Database) (*Result, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	topic, _, err := r.kafka.Topic(ctx, r.name)
	if err != nil {
		return nil, err
	}
	r.watch = newWatch(database, check.Topic{Name: r.name, ID: topic.ID, Partitions: int32(r.Partitions)})
	var looking sync.WaitGroup
	defer looking.Wait()
	looks, stop := context.WithCancel(ctx)
	defer stop()
	looking.Go(func() { r.watch.run(looks, fail) })
	if r.load, err = startLoad(ctx, r.Options, r.name, fail, r.watch.acknowledged); err != nil {
		return nil, err
	}
	defer func() { _ = r.load.stop(context.WithoutCancel(ctx)) }() // judge has seen its error, unless another one came first
	settings := harness.Settings{
		"KAFKA_BROKERS": r.Servers.Brokers, "KAFKA_TOPICS": r.name, "KAFKA_GROUP_ID": r.name,
		"MONGODB_URI": r.Servers.MongoURI, "MONGODB_DATABASE": r.name, "LOG_FORMAT": "text",
	}
	maps.Copy(settings, r.Settings)
	r.group = &group{options: r.Options, settings: settings, static: r.scenario.static}
	defer r.group.close()
	result, err := r.measure(ctx)
	if err == nil {
		err = r.judge(ctx, result)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = errors.Join(cause, err)
	}
	return result, err
}

// measure starts the members, waits undisturbed, disturbs the group, waits until all partitions are written to again, and then waits
// a while longer.
func (r *run) measure(ctx context.Context) (*Result, error) {
	if err := r.group.await(ctx, "each partition takes records", r.watch.producedToAll); err != nil {
		return nil, err
	}
	for slot := range members {
		if err := r.group.start(slot); err != nil {
			return nil, err
		}
	}
	if err := r.group.await(ctx, "each partition is written to", func() bool { return r.watch.writtenSince(time.Time{}, 2) }); err != nil {
		return nil, err
	}
	first := time.Now()
	if err := r.pause(ctx, r.Before); err != nil {
		return nil, err
	}
	before, err := r.group.awaitRest(ctx)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	r.note("%s: the disturbance begins", r.scenario.name)
	limited, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	if err := r.scenario.disturb(limited, r.group); err != nil {
		return nil, err
	}
	after, err := r.group.awaitRest(ctx)
	if err != nil {
		return nil, err
	}
	rest := time.Now()
	if err := r.group.await(ctx, "each partition is written to again", func() bool { return r.watch.writtenSince(rest, 1) }); err != nil {
		return nil, err
	}
	recovered := time.Now()
	if err := r.pause(ctx, r.After); err != nil {
		return nil, err
	}
	result := r.watch.result(first, begin, recovered, func(p int32) bool { return r.scenario.touched(p, before, after) })
	result.What = r.scenario.what
	for p, slot := range before {
		if after[p] != slot {
			result.Moved++
		}
	}
	return result, nil
}

func (r *run) pause(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	return r.group.await(ctx, "some time is over", func() bool { return time.Now().After(end) })
}

// judge ends the load, waits until everything is stored, ends the members, and has the checker judge the stored data.
func (r *run) judge(ctx context.Context, result *Result) error {
	limited, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	if err := r.load.stop(limited); err != nil {
		return err
	}
	if err := r.kafka.AwaitCommitted(limited, r.name, r.watch.topic); err != nil {
		return errors.Join(r.group.ended(), err)
	}
	for slot := range r.group.members {
		if err := r.group.terminate(limited, slot); err != nil {
			return err
		}
	}
	report, err := check.Run(ctx, check.Source{
		Kafka: r.kafka, MongoURI: r.Servers.MongoURI, Database: r.name, Topic: r.name, Group: r.name, Fate: r.load.book.Fate,
	})
	if err != nil {
		return err
	}
	result.Valid, result.Stored, result.Verdict = report.Valid, report.Stored, report.Err()
	return nil
}
