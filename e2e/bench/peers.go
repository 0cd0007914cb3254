package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"golang.org/x/sync/errgroup"

	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"
	"waterwheel/e2e/naive"
)

// These are the sizes of waterwheel's calls, and the number of its concurrent calls per partition (package sink).
const (
	callBytes     = 1 << 20
	callDocuments = 1000
	callsAtOnce   = 4
)

// ceiling reads all buckets that Waterwheel has stored in this round into memory, and then inserts them. The program itself
// makes the collections, so that their storage and their indexes are the same. This process inserts. It does nothing else
// meanwhile.
func (w *turn) ceiling(ctx context.Context) error {
	made, err := harness.Start(w.Consumer, w.consumerSettings(), "init")
	if err != nil {
		return err
	}
	if code, err := made.Wait(ctx); err != nil || code != 0 {
		return errors.Join(fmt.Errorf("waterwheel init ended with code %d:\n%s", code, made.Log()), err)
	}
	buckets := bucketsOf(w.topic.Name)
	from := w.database.Client().Database(Drain{Peer: Waterwheel, Round: w.drain.Round}.Database(w.topic))
	calls, err := readCalls(ctx, from.Collection(buckets))
	if err != nil {
		return fmt.Errorf("reading buckets: %w", err)
	}
	durable := &writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: new(true)}
	into := w.database.Collection(buckets, options.Collection().SetWriteConcern(durable))
	server := startMeter(ctx, mongoPID(ctx, w.Servers.MongoURI))
	begin, cpu := time.Now(), ownCPU()
	g, inserting := errgroup.WithContext(ctx)
	g.SetLimit(callsAtOnce * w.topic.Load.Partitions)
	for _, documents := range calls {
		g.Go(func() error {
			_, err := into.InsertMany(inserting, documents, options.InsertMany().SetOrdered(false))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("inserting buckets: %w", err)
	}
	w.result.Wall, w.result.CPU, w.result.ServerCPU = time.Since(begin), ownCPU()-cpu, server.used(ctx)
	return nil
}

// readCalls reads a collection, and splits it into batches for one call each.
func readCalls(ctx context.Context, from *mongo.Collection) (calls [][]bson.Raw, err error) {
	cursor, err := from.Find(ctx, bson.D{}, options.Find().SetBatchSize(callDocuments))
	if err != nil {
		return nil, err
	}
	defer cursor.Close(ctx)
	var open []bson.Raw
	bytes := 0
	for cursor.Next(ctx) {
		if len(open) == callDocuments || len(open) > 0 && bytes+len(cursor.Current) > callBytes {
			calls, open, bytes = append(calls, open), nil, 0
		}
		open = append(open, append(bson.Raw(nil), cursor.Current...))
		bytes += len(cursor.Current)
	}
	if len(open) > 0 {
		calls = append(calls, open)
	}
	return calls, cursor.Err()
}

// discard measures the program with a proxy that answers writes of buckets at once and keeps nothing of them. No documents can
// be counted, so the result relies on the consumer's own count of acknowledged measurements.
func (w *turn) discard(ctx context.Context) error {
	discard, err := proxy.NewDiscard(w.Servers.MongoURI)
	if err != nil {
		return err
	}
	defer discard.Close()
	metrics, err := w.runConsumer(ctx, w.consumerSettings().With("MONGODB_URI", discard.URI()))
	if err != nil {
		return err
	}
	inserts, updates := discard.Counts()
	w.result.Note = fmt.Sprintf("the proxy answered %d inserts and %d updates of buckets", inserts, updates)
	w.result.ServerCPU = -1
	w.result.Stored = int64(metrics.Sum("waterwheel_measurements_stored_total"))
	return nil
}

// naive measures the naive consumer.
func (w *turn) naive(ctx context.Context) (err error) {
	r := &w.result
	if r.Note, err = createNaive(ctx, w.database, w.topic.Name); err != nil {
		return err
	}
	process, err := w.startNaive(w.topic.Name, w.drain.Database(w.topic), harness.Settings{})
	if err != nil {
		return err
	}
	defer process.Kill()
	if err := w.untilCommitted(ctx, process, func() bool {
		documents, _ := naive.Progress(process.Log())
		return documents > 0
	}); err != nil {
		return err
	}
	if err := w.end(ctx, process); err != nil {
		return err
	}
	collection := w.database.Collection(w.topic.Name)
	r.Size = sizeOf(ctx, collection)
	n, err := collection.CountDocuments(ctx, bson.D{})
	r.Stored = min(n, r.Measurements)
	r.Doubled = n - r.Stored
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
