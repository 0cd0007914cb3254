package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// Drain is one peer's turn.
type Drain struct {
	Peer  Peer
	Round int
}

// Database returns the name of the database in which a peer stores in a round. It is also the name of its consumer group.
func (d Drain) Database(t Topic) string { return fmt.Sprintf("%s-%d-%s", t.Name, d.Round, d.Peer) }

// turn is a peer's turn in progress.
type turn struct {
	*Bench

	topic    Topic
	drain    Drain
	database *mongo.Database
	result   Result
}

// Drain has a peer store a topic, from its beginning to its end, in a database of its own. The database stays until Remove drops
// it. Ceiling needs the database of Waterwheel in the same round. An error means that the measurement failed. Missing measurements
// are no error but counted in the result.
func (b *Bench) Drain(ctx context.Context, t Topic, d Drain) (Result, error) {
	r := Result{Peer: d.Peer, Round: d.Round, Measurements: int64(t.Load.Records), ServerCPU: -1, KafkaCPU: -1}
	w := &turn{Bench: b, topic: t, drain: d, result: r}
	err := check.WithDatabase(ctx, b.Servers.MongoURI, d.Database(t), func(database *mongo.Database) error {
		w.database = database
		switch d.Peer {
		case Ceiling:
			if err := w.ceiling(ctx); err != nil {
				return err
			}
		case Discard:
			return w.discard(ctx)
		case Naive:
			return w.naive(ctx)
		default:
			if _, err := w.runConsumer(ctx, w.consumerSettings()); err != nil {
				return err
			}
		}
		w.result.Size = sizeOf(ctx, database.Collection(bucketsOf(t.Name)))
		return w.countBuckets(ctx)
	})
	if err != nil {
		return w.result, fmt.Errorf("measuring %s: %w", d.Peer, err)
	}
	return w.result, nil
}

// settings returns the settings of a consumer whose group has the name of its database. more and Bench.Settings come on top.
func (b *Bench) settings(topic, database string, more harness.Settings) harness.Settings {
	s := harness.Settings{
		"KAFKA_BROKERS": b.Servers.Brokers, "KAFKA_TOPICS": topic, "KAFKA_GROUP_ID": database,
		"MONGODB_URI": b.Servers.MongoURI, "MONGODB_DATABASE": database, "LOG_FORMAT": "text",
	}
	maps.Copy(s, more)
	maps.Copy(s, b.Settings)
	return s
}

// consumerSettings returns the settings of the program in a turn. Commits are frequent enough to measure when the last one arrives.
func (w *turn) consumerSettings() harness.Settings {
	return w.settings(w.topic.Name, w.drain.Database(w.topic), harness.Settings{"COMMIT_INTERVAL": "100ms"})
}

// runConsumer runs the program until it has committed the ends of the log. It adds times and memory to the result, and returns
// the last metrics.
func (w *turn) runConsumer(ctx context.Context, s harness.Settings) (harness.Metrics, error) {
	process, err := harness.Start(w.Consumer, s)
	if err != nil {
		return nil, err
	}
	defer process.Kill()
	if err := w.untilCommitted(ctx, process, func() bool {
		metrics, err := process.Metrics(ctx)
		return err == nil && metrics.Sum("waterwheel_records_read_total") > 0
	}); err != nil {
		return nil, err
	}
	for committed := time.Now(); ; {
		metrics, err := process.Metrics(ctx)
		if err != nil {
			return nil, err
		}
		if s[RollupLevels] == "" || metrics.Sum("waterwheel_rollup_behind_seconds") < time.Since(committed).Seconds() {
			return metrics, w.end(ctx, process)
		}
		if err := pause(ctx, process, lookEvery); err != nil {
			return nil, fmt.Errorf("waiting for the rollups: %w", err)
		}
	}
}

// RollupLevels is the setting with which a turn lasts until the rows of rollups are complete.
const RollupLevels = "ROLLUP_LEVELS"

// lookEvery is the time between two looks at a running consumer. It bounds the error of Wall.
const lookEvery = 50 * time.Millisecond

// untilCommitted measures a process until its group has committed the ends of all partitions. The time begins at the last moment
// when it had read nothing.
func (w *turn) untilCommitted(ctx context.Context, process *harness.Consumer, reads func() bool) error {
	kafka, err := check.DialKafka(w.Servers.Brokers)
	if err != nil {
		return err
	}
	defer kafka.Close()
	server, broker := startMeter(ctx, mongoPID(ctx, w.Servers.MongoURI)), startMeter(ctx, pidOf(ctx, w.Servers.Brokers))
	begin := time.Now()
	for {
		before := time.Now()
		if reads() {
			break
		}
		begin = before
		if err := pause(ctx, process, lookEvery); err != nil {
			return fmt.Errorf("waiting for the first record: %w", err)
		}
	}
	topic := check.Topic{Name: w.topic.Name, Partitions: int32(len(w.topic.Ends))}
	for {
		committed, _, err := kafka.Committed(ctx, w.drain.Database(w.topic), topic)
		if err == nil && slices.Equal(committed, w.topic.Ends) {
			break
		}
		if pauseErr := pause(ctx, process, lookEvery); pauseErr != nil {
			return errors.Join(fmt.Errorf("waiting for the commits: %w: they are at %v of %v", pauseErr, committed, w.topic.Ends), err)
		}
	}
	r := &w.result
	r.Wall = time.Since(begin)
	r.ServerCPU, r.KafkaCPU, r.MaxResident = server.used(ctx), broker.used(ctx), maxResidentOf(process.PID())
	return nil
}

// end ends a process as an operator does, and adds its processor time to the result.
func (w *turn) end(ctx context.Context, process *harness.Consumer) error {
	if code, err := process.Terminate(ctx); err != nil || code != 0 {
		return errors.Join(fmt.Errorf("the consumer ended with code %d:\n%s", code, process.Log()), err)
	}
	w.result.CPU = process.CPU()
	return nil
}

// pause waits for d. It returns an error if the consumer or the context ends.
func pause(ctx context.Context, process *harness.Consumer, d time.Duration) error {
	select {
	case <-process.Ended():
		return fmt.Errorf("the consumer ended by itself:\n%s", process.Log())
	case <-ctx.Done():
		return fmt.Errorf("%w; the consumer printed:\n%s", context.Cause(ctx), process.Log())
	case <-time.After(d):
		return nil
	}
}

// bucketsOf returns the name of the collection in which waterwheel stores a topic's buckets.
func bucketsOf(topic string) string { return topic + ".buckets" }

// Size is the size of the collection into which a peer wrote, as the server reports it.
type Size struct {
	// Documents is the number of buckets or measurements in it.
	Documents int64 `bson:"count"`
	// Data, Disk and Indexes are in bytes. Zero means unknown.
	Data    float64 `bson:"size"`
	Disk    float64 `bson:"storageSize"`
	Indexes float64 `bson:"totalIndexSize"`
}

// sizeOf returns the size of a collection as the server reports it, after the server has flushed its data to the disk.
func sizeOf(ctx context.Context, collection *mongo.Collection) (size Size) {
	database := collection.Database()
	_ = database.Client().Database("admin").RunCommand(ctx, bson.D{{Key: "fsync", Value: 1}}).Err() // some servers have no such command
	if database.RunCommand(ctx, bson.D{{Key: "collStats", Value: collection.Name()}}).Decode(&size) != nil {
		return Size{}
	}
	return size
}

// countBuckets adds to the result how many positions of the log are stored, and how often. No process writes meanwhile.
func (w *turn) countBuckets(ctx context.Context) error {
	ends := w.topic.Ends
	times := make([][]uint8, len(ends)) // by partition and offset: 0, 1, or 2 for more
	for p, end := range ends {
		times[p] = make([]uint8, end)
	}
	var foreign error
	err := check.Listed(ctx, w.database, w.topic.Name, bson.D{}, func(at check.Place, _ bson.ObjectID) {
		if at.Part != 0 || int(at.Partition) >= len(ends) || at.Offset >= ends[at.Partition] {
			foreign = fmt.Errorf("a bucket lists offset %d of partition %d, which nobody wrote", at.Offset, at.Partition)
			return
		}
		times[at.Partition][at.Offset] = min(2, times[at.Partition][at.Offset]+1)
	})
	if err := errors.Join(err, foreign); err != nil {
		return fmt.Errorf("counting the stored measurements: %w", err)
	}
	for _, n := range slices.Concat(times...) {
		if n > 0 {
			w.result.Stored++
		}
		if n > 1 {
			w.result.Doubled++
		}
	}
	return nil
}
