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
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"
	"waterwheel/e2e/naive"
)

// Drain is one peer's turn.
type Drain struct {
	Peer  Peer
	Round int
}

// Database returns the name of the database in which a peer stores in a round. It is also the name of its consumer group.
func (d Drain) Database(t Topic) string { return fmt.Sprintf("%s-%d-%s", t.Name, d.Round, d.Peer) }

// Drain has a peer store a topic, from its beginning to its end, in a database of its own. The database stays until Remove drops
// it. Ceiling needs the database of Waterwheel in the same round. An error means that the measurement failed. Missing measurements
// are no error but counted in the result.
func (b *Bench) Drain(ctx context.Context, t Topic, d Drain) (Result, error) {
	r := Result{Peer: d.Peer, Round: d.Round, Measurements: int64(t.Load.Records), ServerCPU: -1, KafkaCPU: -1}
	err := check.WithDatabase(ctx, b.Servers.MongoURI, d.Database(t), func(database *mongo.Database) error {
		switch d.Peer {
		case Waterwheel:
			if _, err := b.runConsumer(ctx, t, d, b.drainSettings(t, d), &r); err != nil {
				return err
			}
		case Ceiling:
			if err := b.drainCeiling(ctx, t, d, database, &r); err != nil {
				return err
			}
		case Discard:
			return b.drainDiscard(ctx, t, d, &r)
		case Naive:
			return b.drainNaive(ctx, t, d, database, &r)
		}
		r.Size = sizeOf(ctx, database.Collection(bucketsOf(t.Name)))
		return countBuckets(ctx, database, t, &r)
	})
	if err != nil {
		return r, fmt.Errorf("measuring %s: %w", d.Peer, err)
	}
	return r, nil
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

// drainSettings returns the settings of the program in a turn. Commits are frequent enough to measure when the last one arrives.
func (b *Bench) drainSettings(t Topic, d Drain) harness.Settings {
	return b.settings(t.Name, d.Database(t), harness.Settings{"COMMIT_INTERVAL": "100ms"})
}

// runConsumer runs the program until it has committed the ends of the log. It adds times and memory to the result, and returns
// the last metrics.
func (b *Bench) runConsumer(ctx context.Context, t Topic, d Drain, s harness.Settings, r *Result) (metrics harness.Metrics, err error) {
	process, err := harness.Start(b.Consumer, s)
	if err != nil {
		return nil, err
	}
	defer process.Kill()
	err = b.untilCommitted(ctx, process, t, d, r, func() bool {
		var err error
		metrics, err = process.Metrics(ctx)
		return err == nil && metrics.Sum("waterwheel_records_read_total") > 0
	}, func() error {
		for committed := time.Now(); ; {
			var err error
			metrics, err = process.Metrics(ctx)
			whole := s[RollupLevels] == "" || metrics.Sum("waterwheel_rollup_behind_seconds") < time.Since(committed).Seconds()
			if err != nil || whole {
				return err
			}
			if err := pause(ctx, process); err != nil {
				return fmt.Errorf("waiting for the rollups: %w", err)
			}
		}
	})
	return metrics, err
}

// lookEvery is the time between two looks at a running consumer. It bounds the error of Wall.
const lookEvery = 50 * time.Millisecond

// untilCommitted measures a process until its group has committed the ends of all partitions, and then ends it. The time begins at
// the last moment when it had read nothing. atEnd is called before the process ends.
func (b *Bench) untilCommitted(ctx context.Context, process *harness.Consumer, t Topic, d Drain, r *Result, reads func() bool, atEnd func() error) error {
	kafka, err := check.DialKafka(b.Servers.Brokers)
	if err != nil {
		return err
	}
	defer kafka.Close()
	server, broker := startMeter(ctx, mongoPID(ctx, b.Servers.MongoURI)), startMeter(ctx, pidOf(ctx, b.Servers.Brokers))
	begin := time.Now()
	for {
		before := time.Now()
		if reads() {
			break
		}
		begin = before
		if err := pause(ctx, process); err != nil {
			return fmt.Errorf("waiting for the first record: %w", err)
		}
	}
	topic := check.Topic{Name: t.Name, Partitions: int32(len(t.Ends))}
	for {
		committed, _, err := kafka.Committed(ctx, d.Database(t), topic)
		if err == nil && slices.Equal(committed, t.Ends) {
			break
		}
		if pauseErr := pause(ctx, process); pauseErr != nil {
			return errors.Join(fmt.Errorf("waiting for the commits: %w: they are at %v of %v", pauseErr, committed, t.Ends), err)
		}
	}
	r.Wall = time.Since(begin)
	r.ServerCPU, r.KafkaCPU, r.MaxResident = server.used(ctx), broker.used(ctx), maxResidentOf(process.PID())
	if err := atEnd(); err != nil {
		return err
	}
	if code, err := process.Terminate(ctx); err != nil || code != 0 {
		return errors.Join(fmt.Errorf("the consumer ended with code %d:\n%s", code, process.Log()), err)
	}
	r.CPU = process.CPU()
	return nil
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

// drainDiscard measures the program with a proxy that answers writes of buckets at once and keeps nothing of them. No documents can
// be counted, so the result relies on the consumer's own count of acknowledged measurements.
func (b *Bench) drainDiscard(ctx context.Context, t Topic, d Drain, r *Result) error {
	discard, err := proxy.NewDiscard(b.Servers.MongoURI)
	if err != nil {
		return err
	}
	defer discard.Close()
	metrics, err := b.runConsumer(ctx, t, d, b.drainSettings(t, d).With("MONGODB_URI", discard.URI()), r)
	if err != nil {
		return err
	}
	r.ServerCPU = -1
	inserts, updates := discard.Counts()
	r.Note = fmt.Sprintf("the proxy answered %d inserts and %d updates of buckets", inserts, updates)
	r.Stored = int64(metrics.Sum("waterwheel_measurements_stored_total"))
	r.Missing = r.Measurements - r.Stored
	return nil
}

// drainNaive measures the naive consumer.
func (b *Bench) drainNaive(ctx context.Context, t Topic, d Drain, database *mongo.Database, r *Result) (err error) {
	if r.Note, err = createNaive(ctx, database, t.Name); err != nil {
		return err
	}
	process, err := b.startNaive(t.Name, d.Database(t), harness.Settings{})
	if err != nil {
		return err
	}
	defer process.Kill()
	reads := func() bool {
		documents, _ := naive.Progress(process.Log())
		return documents > 0
	}
	if err := b.untilCommitted(ctx, process, t, d, r, reads, func() error { return nil }); err != nil {
		return err
	}
	collection := database.Collection(t.Name)
	r.Size = sizeOf(ctx, collection)
	n, err := collection.CountDocuments(ctx, bson.D{})
	r.Stored = min(n, r.Measurements)
	r.Missing, r.Doubled = r.Measurements-r.Stored, n-r.Stored
	return err
}

// startNaive starts a naive consumer of a topic, which writes into the collection with the topic's name.
func (b *Bench) startNaive(topic, database string, more harness.Settings) (*harness.Consumer, error) {
	return harness.Start(b.Naive[0], b.settings(topic, database, more), b.Naive[1:]...)
}

// nativeNote is the note of a peer that wrote into a native time series.
const nativeNote = "native time series"

// createNaive creates the collection into which the naive consumer writes. It is a time series if the server supports them. It
// returns the kind of the collection.
func createNaive(ctx context.Context, database *mongo.Database, name string) (string, error) {
	series := options.TimeSeries().SetTimeField("time").SetMetaField("meta").SetGranularity("seconds")
	if database.CreateCollection(ctx, name, options.CreateCollection().SetTimeSeriesOptions(series)) == nil {
		// Some servers accept the options and ignore them.
		found, err := database.ListCollectionSpecifications(ctx, bson.D{{Key: "name", Value: name}})
		if err == nil && len(found) == 1 && found[0].Type == "timeseries" {
			return nativeNote, nil
		}
	}
	if err := database.Collection(name).Drop(ctx); err != nil {
		return "", fmt.Errorf("dropping collection %s: %w", name, err)
	}
	return "plain collection with an index on series and time", createPlain(ctx, database, name)
}

// createPlain creates a plain collection for measurements. Its index serves queries for one series.
func createPlain(ctx context.Context, database *mongo.Database, name string) error {
	if err := database.CreateCollection(ctx, name); err != nil {
		return fmt.Errorf("creating collection %s: %w", name, err)
	}
	keys := bson.D{{Key: "meta.sensor", Value: 1}, {Key: "time", Value: 1}}
	if _, err := database.Collection(name).Indexes().CreateOne(ctx, mongo.IndexModel{Keys: keys}); err != nil {
		return fmt.Errorf("indexing collection %s: %w", name, err)
	}
	return nil
}

// bucketsOf returns the name of the collection in which waterwheel stores a topic's buckets.
func bucketsOf(topic string) string { return topic + ".buckets" }

// Size is the size of the collection into which a peer wrote, as the server reports it.
type Size struct {
	// Documents is the number of buckets or measurements in it.
	Documents int64
	// Data, Disk and Indexes are in bytes. Zero means unknown.
	Data, Disk, Indexes float64
}

// sizeOf returns the size of a collection as the server reports it, after the server has flushed its data to the disk.
func sizeOf(ctx context.Context, collection *mongo.Collection) Size {
	_ = collection.Database().Client().Database("admin").RunCommand(ctx, bson.D{{Key: "fsync", Value: 1}}).Err() // some servers have no such command
	var answer struct {
		Count          float64 `bson:"count"`
		Size           float64 `bson:"size"`
		StorageSize    float64 `bson:"storageSize"`
		TotalIndexSize float64 `bson:"totalIndexSize"`
	}
	if collection.Database().RunCommand(ctx, bson.D{{Key: "collStats", Value: collection.Name()}}).Decode(&answer) != nil {
		return Size{}
	}
	return Size{Documents: int64(answer.Count), Data: answer.Size, Disk: answer.StorageSize, Indexes: answer.TotalIndexSize}
}

// countBuckets adds to the result how many positions of the log are stored, and how often. No process writes meanwhile.
func countBuckets(ctx context.Context, database *mongo.Database, t Topic, r *Result) error {
	times := make([][]uint8, len(t.Ends)) // by partition and offset: 0, 1, or 2 for more
	for p, end := range t.Ends {
		times[p] = make([]uint8, end)
	}
	var foreign error
	err := check.Listed(ctx, database, t.Name, bson.D{}, func(at check.Place, _ bson.ObjectID) {
		if at.Part != 0 || int(at.Partition) >= len(t.Ends) || at.Offset >= t.Ends[at.Partition] {
			foreign = fmt.Errorf("a bucket lists offset %d of partition %d, which nobody wrote", at.Offset, at.Partition)
			return
		}
		times[at.Partition][at.Offset] = min(2, times[at.Partition][at.Offset]+1)
	})
	if err := errors.Join(err, foreign); err != nil {
		return fmt.Errorf("counting the stored measurements: %w", err)
	}
	for _, n := range slices.Concat(times...) {
		switch n {
		case 0:
			r.Missing++
		case 1:
			r.Stored++
		default:
			r.Stored++
			r.Doubled++
		}
	}
	return nil
}
