package check

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Listed calls take for each measurement that a bucket or segment of a series lists, if the document matches a filter and counts as
// stored.
func Listed(ctx context.Context, database *mongo.Database, series string, filter bson.D, take func(at Place, in bson.ObjectID)) error {
	unfinished, err := ReadUnfinished(ctx, database, series)
	if err != nil {
		return err
	}
	find := options.Find().SetProjection(bson.D{{Key: "control", Value: 1}}).SetBatchSize(batchBuckets)
	cursor, err := database.Collection(series+".buckets").Find(ctx, filter, find)
	if err != nil {
		return fmt.Errorf("reading the buckets: %w", err)
	}
	defer cursor.Close(ctx)
	for cursor.Next(ctx) {
		b, err := decodeBucket(cursor.Current)
		if err != nil {
			return err
		}
		if !unfinished.Counts(cursor.Current) {
			continue
		}
		for _, p := range b.positions {
			take(Place{b.Control.Source.Partition, p}, b.ID)
		}
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("reading the buckets: %w", err)
	}
	return nil
}

// PositionsIn returns the positions that one element of a bucket's control.source.offsets lists.
func PositionsIn(element []byte) ([]Position, error) { return decodePositions(element) }
