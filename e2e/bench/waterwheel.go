package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/e2e/bench/discard"
	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// lookEvery is the time between two looks at a running consumer. It bounds the error of Wall.
const lookEvery = 50 * time.Millisecond

// settings returns the consumer's settings. They are the defaults, but commits are frequent enough to measure when the last one
// arrives.
func (b *Bench) settings(t Topic, d Drain) harness.Settings {
	s := harness.Settings{
		"KAFKA_BROKERS": b.Servers.Brokers, "KAFKA_TOPICS": t.Name, "KAFKA_GROUP_ID": d.Database(t), "COMMIT_INTERVAL": "100ms",
		"MONGODB_URI": b.Servers.MongoURI, "MONGODB_DATABASE": d.Database(t), "LOG_FORMAT": "text",
	}
	for name, value := range b.Settings {
		s[name] = value
	}
	return s
}

// drainWaterwheel measures the program.
func (b *Bench) drainWaterwheel(ctx context.Context, t Topic, d Drain, database *mongo.Database, r *Result) error {
	if _, err := b.runConsumer(ctx, t, d, b.settings(t, d), r); err != nil {
		return err
	}
	buckets := database.Collection(bucketsOf(t.Name))
	r.Size = SizeOf(ctx, buckets)
	return countBuckets(ctx, buckets, t.Ends, r)
}

// runConsumer runs the program until it has committed the ends of the log. It adds times and memory to the result, and returns
// the last metrics.
func (b *Bench) runConsumer(ctx context.Context, t Topic, d Drain, s harness.Settings, r *Result) (harness.Metrics, error) {
	s, err := b.profiled(s)
	if err != nil {
		return nil, err
	}
	process, err := harness.Start(b.Consumer, s)
	if err != nil {
		return nil, err
	}
	defer process.Kill()
	used := startMeter(ctx, b.ServerPID(ctx), b.kafkaPID(ctx))
	begin, err := awaitReading(ctx, process)
	if err != nil {
		return nil, err
	}
	profiles := b.startProfiler(d, s["PPROF_ADDR"])
	err = b.awaitCommits(ctx, s["KAFKA_GROUP_ID"], t, process)
	r.Wall = time.Since(begin)
	r.ServerCPU, r.KafkaCPU = used.used(ctx, 0), used.used(ctx, 1)
	if err := errors.Join(err, profiles.stop(ctx)); err != nil {
		return nil, err
	}
	r.MaxResident = MaxResidentOf(process.PID())
	metrics, err := process.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	if code, err := process.Terminate(ctx); err != nil || code != 0 {
		return nil, errors.Join(fmt.Errorf("the consumer ended with code %d:\n%s", code, process.Log()), err)
	}
	r.CPU = process.CPU()
	return metrics, nil
}

// drainDiscard measures the program with a proxy that answers writes of buckets at once and keeps nothing of them.
func (b *Bench) drainDiscard(ctx context.Context, t Topic, d Drain, _ *mongo.Database, r *Result) (err error) {
	proxy, err := discard.Start(ctx, b.Servers.MongoURI)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.Stop()) }()
	metrics, err := b.runConsumer(ctx, t, d, b.settings(t, d).With("MONGODB_URI", proxy.URI), r)
	if err != nil {
		return err
	}
	counts, err := proxy.Counts()
	if err != nil {
		return err
	}
	// No documents can be counted, so the result relies on the consumer's own count of acknowledged measurements.
	r.Stored = int64(metrics.Sum("waterwheel_measurements_stored_total"))
	r.Missing = r.Measurements - r.Stored
	r.Discarded = &counts
	return nil
}

// awaitReading waits until the consumer has read a record. It returns the last moment when the consumer had read none.
func awaitReading(ctx context.Context, process *harness.Consumer) (time.Time, error) {
	seen := time.Now() // the last moment without a record
	for {
		before := time.Now()
		metrics, err := process.Metrics(ctx)
		if err == nil && metrics.Sum("waterwheel_records_read_total") > 0 {
			return seen, nil
		}
		if err == nil {
			seen = before
		}
		if err := pause(ctx, process); err != nil {
			return seen, fmt.Errorf("waiting for the first record: %w", err)
		}
	}
}

// awaitCommits waits until a group has committed the ends of all partitions.
func (b *Bench) awaitCommits(ctx context.Context, group string, t Topic, process *harness.Consumer) error {
	kafka, err := check.DialKafka(b.Servers.Brokers)
	if err != nil {
		return err
	}
	defer kafka.Close()
	topic := check.Topic{Name: t.Name, Partitions: int32(len(t.Ends))}
	for {
		committed, _, err := kafka.Committed(ctx, group, topic)
		if err == nil && slices.Equal(committed, t.Ends) {
			return nil
		}
		if pauseErr := pause(ctx, process); pauseErr != nil {
			return errors.Join(fmt.Errorf("waiting for the commits: %w: they are at %v of %v", pauseErr, committed, t.Ends), err)
		}
	}
}

// pause waits until the next look. It returns an error if the consumer or the context ends.
func pause(ctx context.Context, process *harness.Consumer) error {
	select {
	case <-process.Ended():
		return fmt.Errorf("the consumer ended by itself:\n%s", process.Log())
	case <-ctx.Done():
		return fmt.Errorf("%w; the consumer printed:\n%s", ctx.Err(), process.Log())
	case <-time.After(lookEvery):
		return nil
	}
}
