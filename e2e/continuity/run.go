package continuity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// Run plays the scenarios one after the other. It joins the checker's verdicts in the error. Any other error ends the run. In
// both cases the report holds the results so far.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	report := &Report{
		Machine: bench.Look(ctx, o.Servers), Settings: o.Settings, Rate: o.Rate, Series: o.Series, Partitions: o.Partitions,
		Before: o.Before, At: time.Now().UTC().Truncate(time.Second),
	}
	var verdicts []error
	for _, name := range o.Scenarios {
		at := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		result, err := play(ctx, o, scenarios[at])
		if err != nil {
			return report, errors.Join(append(verdicts, fmt.Errorf("%s: %w", name, err))...)
		}
		report.Results = append(report.Results, *result)
		verdicts = append(verdicts, result.Verdict)
		o.note("%s: %s", name, result)
	}
	return report, errors.Join(verdicts...)
}

// run is a scenario in progress.
type run struct {
	Options
	scenario scenario
	topic    string // also the name of the database and the group
	kafka    *check.Kafka
	client   *mongo.Client
	group    *group
	watch    *watch
	load     *load
	fail     context.CancelCauseFunc
	looking  sync.WaitGroup
	look     context.CancelFunc
}

// play plays one scenario, and deletes its data unless the verdict is an error.
func play(ctx context.Context, o Options, s scenario) (*Result, error) {
	ctx, fail := context.WithCancelCause(ctx)
	r := &run{Options: o, scenario: s, topic: fmt.Sprintf("continuity-%s-%x", s.name, time.Now().UnixNano()), fail: fail}
	r.note("%s: %s", s.name, s.what)
	result, err := r.all(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = errors.Join(cause, err)
	}
	return result, errors.Join(err, r.close(context.WithoutCancel(ctx), result))
}

func (r *run) all(ctx context.Context) (*Result, error) {
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	result, err := r.measure(ctx)
	if err != nil {
		return nil, err
	}
	return result, r.judge(ctx, result)
}

// start starts the load and the members, and waits until each partition was written to twice.
func (r *run) start(ctx context.Context) (err error) {
	if err := r.Servers.CreateTopic(ctx, r.topic, r.Partitions); err != nil {
		return err
	}
	if r.kafka, err = check.DialKafka(r.Servers.Brokers); err != nil {
		return err
	}
	topic, err := r.awaitTopic(ctx)
	if err != nil {
		return err
	}
	if r.client, err = mongo.Connect(options.Client().ApplyURI(r.Servers.MongoURI)); err != nil {
		return fmt.Errorf("connecting to MongoDB: %w", err)
	}
	r.watch = newWatch(r.client.Database(r.topic), topic)
	looking, look := context.WithCancel(ctx)
	r.look = look
	r.looking.Go(func() { r.watch.run(looking, r.fail) })
	if r.load, err = startLoad(ctx, r.Options, r.topic, r.fail, r.watch.acknowledged); err != nil {
		return err
	}
	return r.startGroup(ctx)
}

// awaitTopic waits until the topic's metadata lists all its partitions.
func (r *run) awaitTopic(ctx context.Context) (check.Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	for {
		topic, ok, err := r.kafka.Topic(ctx, r.topic)
		if err != nil || ok && int(topic.Partitions) == r.Partitions {
			return topic, err
		}
		select {
		case <-ctx.Done():
			return topic, fmt.Errorf("waiting for the topic %s: %w", r.topic, context.Cause(ctx))
		case <-time.After(restInterval):
		}
	}
}

// startGroup starts the members once all partitions take records. Every broker that leads a partition knows the topic then.
func (r *run) startGroup(ctx context.Context) error {
	r.group = &group{options: r.Options, settings: r.settings(), static: r.scenario.static}
	if err := r.group.await(ctx, "each partition takes records", r.watch.producedToAll); err != nil {
		return err
	}
	for slot := range members {
		if err := r.group.start(slot); err != nil {
			return err
		}
	}
	if _, err := r.group.awaitRest(ctx); err != nil {
		return err
	}
	return r.group.await(ctx, "each partition is written to", func() bool { return r.watch.writtenSince(time.Time{}, 2) })
}

// settings returns the settings of the consumers, which are the scenario's and those of the options.
func (r *run) settings() harness.Settings {
	settings := harness.Settings{
		"KAFKA_BROKERS": r.Servers.Brokers, "KAFKA_TOPICS": r.topic, "KAFKA_GROUP_ID": r.topic,
		"MONGODB_URI": r.Servers.MongoURI, "MONGODB_DATABASE": r.topic, "LOG_FORMAT": "text",
	}
	for name, value := range r.Settings {
		settings[name] = value
	}
	return settings
}

// measure waits undisturbed, disturbs the group, waits until all partitions are written to again, and then waits a while longer.
func (r *run) measure(ctx context.Context) (*Result, error) {
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
	r.note("%s: all partitions are read, %.1f s after the beginning", r.scenario.name, rest.Sub(begin).Seconds())
	if err := r.group.await(ctx, "each partition is written to again", func() bool { return r.watch.writtenSince(rest, 1) }); err != nil {
		return nil, err
	}
	recovered := time.Now()
	if err := r.pause(ctx, r.After); err != nil {
		return nil, err
	}
	return r.result(before, after, first, begin, recovered), nil
}

func (r *run) pause(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	return r.group.await(ctx, "some time is over", func() bool { return time.Now().After(end) })
}

// result computes the result from the looks so far.
func (r *run) result(before, after owners, first, begin, recovered time.Time) *Result {
	r.watch.mu.Lock()
	defer r.watch.mu.Unlock()
	now := time.Now()
	touched := func(p int32) bool { return r.scenario.touched(p, before, after) }
	result := &Result{
		Scenario: r.scenario.name, What: r.scenario.what, Recovered: recovered.Sub(begin),
		Before:          gapOf(r.watch.writes, first, begin, func(int32) bool { return true }),
		Own:             gapOf(r.watch.writes, begin, now, touched),
		Others:          gapOf(r.watch.writes, begin, now, func(p int32) bool { return !touched(p) }),
		FreshnessBefore: freshnessOf(r.watch.samples, first, begin),
		Freshness:       freshnessOf(r.watch.samples, begin, recovered),
		Looking:         lookingOf(r.watch.looks, first, now),
	}
	for p, slot := range before {
		if after[p] != slot {
			result.Moved++
		}
	}
	return result
}
