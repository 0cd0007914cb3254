package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// naiveDocuments is the maximum number of documents of one insert of the naive consumer.
const naiveDocuments = 1000

// naive reads as the only member of a group, inserts the records, and commits them, until it has committed the ends of the log.
func naive(ctx context.Context, t task, w *stopwatch) error {
	n, err := openNaive(t)
	if err != nil {
		return err
	}
	defer n.close(context.WithoutCancel(ctx))
	done := make([]int64, len(t.Ends))
	for !slices.Equal(done, t.Ends) {
		records, err := n.read(ctx)
		if w.begin.IsZero() {
			w.start(ctx)
		}
		if err == nil {
			err = n.store(ctx, records)
		}
		if err != nil {
			return err
		}
		for _, r := range records {
			done[r.Partition] = r.Offset + 1
		}
	}
	w.stop(ctx)
	return nil
}

// naiveLoop holds the naive consumer's clients.
type naiveLoop struct {
	database   *mongo.Client
	consumer   *kgo.Client
	collection *mongo.Collection
}

func openNaive(t task, more ...kgo.Opt) (*naiveLoop, error) {
	database, err := connect(t.MongoURI)
	if err != nil {
		return nil, err
	}
	consumer, err := kgo.NewClient(append(more,
		kgo.SeedBrokers(strings.Split(t.Brokers, ",")...), kgo.ConsumerGroup(t.Group), kgo.ConsumeTopics(t.Collection),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
	)...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a consumer: %w", err), database.Disconnect(context.Background()))
	}
	return &naiveLoop{database, consumer, database.Database(t.Database).Collection(t.Collection)}, nil
}

func (n *naiveLoop) close(ctx context.Context) {
	n.consumer.Close()
	n.database.Disconnect(ctx)
}

// read waits for records, and returns those that have arrived.
func (n *naiveLoop) read(ctx context.Context) ([]*kgo.Record, error) {
	fetches := n.consumer.PollRecords(ctx, naiveDocuments)
	if err := fetches.Err0(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", n.collection.Name(), err)
	}
	return fetches.Records(), nil
}

// store inserts records, and commits their offsets.
func (n *naiveLoop) store(ctx context.Context, records []*kgo.Record) error {
	if err := insertRecords(ctx, n.collection, records); err != nil {
		return err
	}
	if err := n.consumer.CommitUncommittedOffsets(ctx); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	return nil
}

// insertRecords inserts each record as a document.
func insertRecords(ctx context.Context, collection *mongo.Collection, records []*kgo.Record) error {
	documents := make([]any, 0, len(records))
	for _, r := range records {
		var document map[string]any
		if err := json.Unmarshal(r.Value, &document); err != nil {
			return fmt.Errorf("reading record %d of partition %d: %w", r.Offset, r.Partition, err)
		}
		at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(document["time"]))
		if err != nil {
			return fmt.Errorf("reading the time of record %d of partition %d: %w", r.Offset, r.Partition, err)
		}
		document["time"] = at
		documents = append(documents, document)
	}
	if len(documents) == 0 {
		return nil
	}
	if _, err := collection.InsertMany(ctx, documents, options.InsertMany().SetOrdered(false)); err != nil {
		return fmt.Errorf("inserting %d documents: %w", len(documents), err)
	}
	return nil
}

// connect opens a client with the same durability as waterwheel's.
func connect(uri string) (*mongo.Client, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetWriteConcern(durable))
	if err != nil {
		return nil, fmt.Errorf("connecting to MongoDB: %w", err)
	}
	return client, nil
}

// createNaive creates the collection into which the naive consumer writes. It is a time series if the server supports them. It
// returns the kind of the collection.
func createNaive(ctx context.Context, database *mongo.Database, name string) (string, error) {
	series := options.TimeSeries().SetTimeField("time").SetMetaField("meta").SetGranularity("seconds")
	err := database.CreateCollection(ctx, name, options.CreateCollection().SetTimeSeriesOptions(series))
	if err == nil {
		// Some servers accept the options and ignore them.
		found, listErr := database.ListCollectionSpecifications(ctx, bson.D{{Key: "name", Value: name}})
		if listErr != nil {
			return "", fmt.Errorf("looking at collection %s: %w", name, listErr)
		}
		if len(found) == 1 && found[0].Type == "timeseries" {
			return "native time series", nil
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
