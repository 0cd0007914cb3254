package chaos

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
)

// judgePast judges the buckets of topics that were deleted. It then deletes these buckets, so that the check of the present topic
// finds only buckets of this topic.
func (r *run) judgePast(ctx context.Context) error {
	if len(r.past) == 0 {
		return nil
	}
	client, err := mongo.Connect(options.Client().ApplyURI(r.options.MongoURI))
	if err != nil {
		return fmt.Errorf("connecting to read the buckets: %w", err)
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	database := client.Database(r.databaseName())
	buckets := database.Collection(r.topic + ".buckets")
	unfinished, err := check.ReadUnfinished(ctx, database, r.topic)
	if err != nil {
		return err
	}
	for _, past := range r.past {
		id := bson.D{{Key: "control.source.topicId", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: past.topic.ID[:]}}}
		stored, err := positionsIn(ctx, buckets, id, unfinished)
		if err != nil {
			return err
		}
		r.countPast(past, stored)
		if _, err := buckets.DeleteMany(ctx, id); err != nil {
			return fmt.Errorf("deleting the buckets of a past topic: %w", err)
		}
	}
	return nil
}

// spot is a measurement's place in a topic.
type spot struct {
	partition int32
	check.Position
}

// positionsIn counts for each measurement the buckets that store it.
func positionsIn(ctx context.Context, buckets *mongo.Collection, filter bson.D, unfinished check.Unfinished) (map[spot]int, error) {
	cursor, err := buckets.Find(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("reading the buckets of a past topic: %w", err)
	}
	defer cursor.Close(ctx)
	stored := map[spot]int{}
	for cursor.Next(ctx) {
		partition, positions, err := check.PositionsOf(cursor.Current)
		if err != nil {
			return nil, fmt.Errorf("reading the buckets of a past topic: %w", err)
		}
		if !unfinished.Counts(cursor.Current) {
			continue
		}
		for _, p := range positions {
			stored[spot{partition, p}]++
		}
	}
	if err := cursor.Err(); err != nil {
		return nil, fmt.Errorf("reading the buckets of a past topic: %w", err)
	}
	return stored, nil
}

// countPast adds a past topic to the result. Committed records must be stored once, the others at most once.
func (r *run) countPast(past incarnation, stored map[spot]int) {
	result := &r.result
	for _, record := range past.records {
		fate, _ := r.load.book.Fate(record.Value)
		for part := range fate.Parts {
			n := stored[spot{record.Partition, check.Position{Offset: record.Offset, Part: part}}]
			switch {
			case n > 1:
				result.Doubled++
			case n == 1:
				result.Stored++
			case record.Offset < past.committed[record.Partition]:
				result.Missing++
			default:
				continue // no consumer had read it
			}
			result.Valid++
		}
	}
}
