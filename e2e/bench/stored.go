package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
)

// bucketsOf is the collection that waterwheel keeps a topic's buckets in.
func bucketsOf(topic string) string { return topic + ".buckets" }

// countBuckets reads which positions the buckets and segments of a topic list, each at the place that counts for it, and puts into
// the result how many of the log are there, and how often. Nobody writes meanwhile.
func countBuckets(ctx context.Context, buckets *mongo.Collection, ends []int64, r *Result) error {
	seen := make([][]uint8, len(ends)) // by partition and offset: 0, 1, or 2 and more
	for p, end := range ends {
		seen[p] = make([]uint8, end)
	}
	unfinished, err := check.ReadUnfinished(ctx, buckets.Database(), strings.TrimSuffix(buckets.Name(), bucketsOf("")))
	if err != nil {
		return fmt.Errorf("counting what is stored: %w", err)
	}
	find := options.Find().SetProjection(bson.D{{Key: "control", Value: 1}}).SetBatchSize(callDocuments)
	cursor, err := buckets.Find(ctx, bson.D{}, find)
	if err != nil {
		return fmt.Errorf("counting what is stored: %w", err)
	}
	defer cursor.Close(ctx)
	for cursor.Next(ctx) {
		if !unfinished.Counts(cursor.Current) {
			continue
		}
		partition, positions, err := check.PositionsOf(cursor.Current)
		if err != nil {
			return fmt.Errorf("counting what is stored: %w", err)
		}
		for _, p := range positions {
			if p.Part != 0 || int(partition) >= len(ends) || p.Offset >= ends[partition] {
				return fmt.Errorf("counting what is stored: a bucket lists offset %d of partition %d, which nobody wrote", p.Offset, partition)
			}
			seen[partition][p.Offset] = min(2, seen[partition][p.Offset]+1)
		}
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("counting what is stored: %w", err)
	}
	for _, times := range slices.Concat(seen...) {
		switch times {
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

// countDocuments puts into the result how many documents there are of as many measurements.
func countDocuments(ctx context.Context, collection *mongo.Collection, r *Result) error {
	n, err := collection.CountDocuments(ctx, bson.D{})
	if err != nil {
		return fmt.Errorf("counting what is stored: %w", err)
	}
	r.Stored = min(n, r.Measurements)
	r.Missing, r.Doubled = r.Measurements-r.Stored, n-r.Stored
	return nil
}

// SizeOf asks the server for what a collection takes, after it has written what it holds back.
func SizeOf(ctx context.Context, collection *mongo.Collection) Size {
	_ = collection.Database().Client().Database("admin").RunCommand(ctx, bson.D{{Key: "fsync", Value: 1}}).Err() // where there is such a thing
	var answer struct {
		Count          float64 `bson:"count"`
		Size           float64 `bson:"size"`
		StorageSize    float64 `bson:"storageSize"`
		TotalIndexSize float64 `bson:"totalIndexSize"`
	}
	err := collection.Database().RunCommand(ctx, bson.D{{Key: "collStats", Value: collection.Name()}}).Decode(&answer)
	if err != nil {
		return Size{}
	}
	return Size{
		Documents: int64(answer.Count), Data: int64(answer.Size), Disk: int64(answer.StorageSize), Indexes: int64(answer.TotalIndexSize),
	}
}
