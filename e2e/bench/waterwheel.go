package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// lookEvery is the time between two looks at a running consumer. It is what Wall is too long by, at most.
const lookEvery = 50 * time.Millisecond

// settings are the consumer's: the usual ones, but for commits often enough to see when the last one has come.
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
	if err := b.runConsumer(ctx, t, b.settings(t, d), r); err != nil {
		return err
	}
	buckets := database.Collection(bucketsOf(t.Name))
	r.Size = sizeOf(ctx, buckets)
	return countBuckets(ctx, buckets, t.Ends, r)
}

// runConsumer runs the program until it has committed the log's ends, and puts into the result what that took.
func (b *Bench) runConsumer(ctx context.Context, t Topic, s harness.Settings, r *Result) error {
	kafka, err := check.DialKafka(b.Servers.Brokers)
	if err != nil {
		return err
	}
	defer kafka.Close()
	process, err := harness.Start(b.Consumer, s)
	if err != nil {
		return err
	}
	defer process.Kill()
	begin, err := awaitReading(ctx, process)
	if err != nil {
		return err
	}
	used := startMeter(ctx, b.serverPID(ctx), b.kafkaPID(ctx))
	if err := awaitCommits(ctx, kafka, s["KAFKA_GROUP_ID"], t, process); err != nil {
		return err
	}
	r.Wall = time.Since(begin)
	r.ServerCPU, r.KafkaCPU = used.used(ctx, 0), used.used(ctx, 1)
	r.MaxResident = MaxResidentOf(process.PID())
	if code, err := process.Terminate(ctx); err != nil || code != 0 {
		return errors.Join(fmt.Errorf("the consumer ended with code %d:\n%s", code, process.Log()), err)
	}
	r.CPU = process.CPU()
	return nil
}

// awaitReading waits until the consumer has read a record, and returns a moment when it had not.
func awaitReading(ctx context.Context, process *harness.Consumer) (time.Time, error) {
	for {
		before := time.Now()
		metrics, err := process.Metrics(ctx)
		if err == nil && metrics.Sum("waterwheel_records_read_total") > 0 {
			return before.Add(-lookEvery), nil
		}
		if err := pause(ctx, process); err != nil {
			return before, fmt.Errorf("waiting for the first record: %w", err)
		}
	}
}

// awaitCommits waits until a group has committed the ends of all partitions.
func awaitCommits(ctx context.Context, kafka *check.Kafka, group string, t Topic, process *harness.Consumer) error {
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

// pause waits for the next look, or returns why there is none.
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
