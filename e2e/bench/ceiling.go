package bench

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"golang.org/x/sync/errgroup"
)

// durable is the write concern of every peer.
var durable = &writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: new(true)}

// These are the sizes of waterwheel's calls, and the number of its concurrent calls per partition (package sink).
const (
	callBytes     = 1 << 20
	callDocuments = 1000
	callsAtOnce   = 4
)

// ceiling reads all buckets of a database into memory, and then inserts them into another one.
func ceiling(ctx context.Context, t task, w *stopwatch) error {
	client, err := connect(t.MongoURI)
	if err != nil {
		return err
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	calls, err := readCalls(ctx, client.Database(t.From).Collection(t.Collection))
	if err != nil {
		return err
	}
	into := client.Database(t.Database).Collection(t.Collection)
	w.start(ctx)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(t.Parallel)
	for _, documents := range calls {
		g.Go(func() error {
			_, err := into.InsertMany(ctx, documents, options.InsertMany().SetOrdered(false))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("inserting buckets: %w", err)
	}
	w.stop(context.WithoutCancel(ctx))
	return nil
}

// readCalls reads a collection, and splits it into batches for one call each.
func readCalls(ctx context.Context, from *mongo.Collection) ([][]any, error) {
	cursor, err := from.Find(ctx, bson.D{}, options.Find().SetBatchSize(callDocuments))
	if err != nil {
		return nil, fmt.Errorf("reading buckets: %w", err)
	}
	defer cursor.Close(ctx)
	var calls [][]any
	var open []any
	bytes := 0
	for cursor.Next(ctx) {
		if len(open) == callDocuments || len(open) > 0 && bytes+len(cursor.Current) > callBytes {
			calls, open, bytes = append(calls, open), nil, 0
		}
		open = append(open, append(bson.Raw(nil), cursor.Current...))
		bytes += len(cursor.Current)
	}
	if err := cursor.Err(); err != nil {
		return nil, fmt.Errorf("reading buckets: %w", err)
	}
	if len(open) > 0 {
		calls = append(calls, open)
	}
	return calls, nil
}
