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

// bucketsOf returns the name of the collection in which waterwheel stores a topic's buckets.
func bucketsOf(topic string) string { return topic + ".buckets" }

// countBuckets reads the positions that the buckets and segments of a topic list, without documents that do not count. It adds to
// the result how many positions of the log are stored, and how often. No process writes meanwhile.
func countBuckets(ctx context.Context, buckets *mongo.Collection, ends []int64, r *Result) error {
	seen := make([][]uint8, len(ends)) // by partition and offset: 0, 1, or 2 for more
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

// countDocuments adds the number of documents to the result. Each document is one measurement.
func countDocuments(ctx context.Context, collection *mongo.Collection, r *Result) error {
	n, err := collection.CountDocuments(ctx, bson.D{})
	if err != nil {
		return fmt.Errorf("counting what is stored: %w", err)
	}
	r.Stored = min(n, r.Measurements)
	r.Missing, r.Doubled = r.Measurements-r.Stored, n-r.Stored
	return nil
}

// SizeOf returns the size of a collection as the server reports it, after the server has flushed its data to the disk.
func SizeOf(ctx context.Context, collection *mongo.Collection) Size {
	_ = collection.Database().Client().Database("admin").RunCommand(ctx, bson.D{{Key: "fsync", Value: 1}}).Err() // some servers have no such command
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
