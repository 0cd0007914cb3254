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
)

// These are the sizes of waterwheel's calls, and the number of its concurrent calls per partition (package sink).
const (
	callBytes     = 1 << 20
	callDocuments = 1000
	callsAtOnce   = 4
)

// drainCeiling reads all buckets that Waterwheel has stored in this round into memory, and then inserts them. The program itself
// makes the collections, so that their storage and their indexes are the same. This process inserts. It does nothing else
// meanwhile.
func (b *Bench) drainCeiling(ctx context.Context, t Topic, d Drain, database *mongo.Database, r *Result) error {
	made, err := harness.Start(b.Consumer, b.drainSettings(t, d), "init")
	if err != nil {
		return err
	}
	if code, err := made.Wait(ctx); err != nil || code != 0 {
		return errors.Join(fmt.Errorf("waterwheel init ended with code %d:\n%s", code, made.Log()), err)
	}
	from := database.Client().Database(Drain{Peer: Waterwheel, Round: d.Round}.Database(t))
	calls, err := readCalls(ctx, from.Collection(bucketsOf(t.Name)))
	if err != nil {
		return fmt.Errorf("reading buckets: %w", err)
	}
	durable := &writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: new(true)}
	into := database.Collection(bucketsOf(t.Name), options.Collection().SetWriteConcern(durable))
	server := startMeter(ctx, mongoPID(ctx, b.Servers.MongoURI))
	begin, cpu := time.Now(), ownCPU()
	g, inserting := errgroup.WithContext(ctx)
	g.SetLimit(callsAtOnce * t.Load.Partitions)
	for _, documents := range calls {
		g.Go(func() error {
			_, err := into.InsertMany(inserting, documents, options.InsertMany().SetOrdered(false))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("inserting buckets: %w", err)
	}
	r.Wall, r.CPU, r.ServerCPU = time.Since(begin), ownCPU()-cpu, server.used(ctx)
	return nil
}

// readCalls reads a collection, and splits it into batches for one call each.
func readCalls(ctx context.Context, from *mongo.Collection) (calls [][]any, err error) {
	cursor, err := from.Find(ctx, bson.D{}, options.Find().SetBatchSize(callDocuments))
	if err != nil {
		return nil, err
	}
	defer cursor.Close(ctx)
	var open []any
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
