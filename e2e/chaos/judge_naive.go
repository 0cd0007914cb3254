package chaos

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
)

// judgeNaive counts how often each measurement was inserted.
func (r *run) judgeNaive(ctx context.Context) error {
	stored, err := r.naivePositions(ctx)
	if err != nil {
		return err
	}
	topic, _, err := r.kafka.Topic(ctx, r.topic)
	if err != nil {
		return err
	}
	records, err := r.kafka.Read(ctx, topic)
	if err != nil {
		return err
	}
	result := &r.result
	for _, record := range records {
		fate, _ := r.load.book.Fate(record.Value)
		for part := range fate.Parts {
			result.Valid++
			switch n := stored[spot{record.Partition, check.Position{Offset: record.Offset, Part: part}}]; n {
			case 0:
				result.Missing++
			case 1:
				result.Stored++
			default:
				result.Doubled++
			}
		}
	}
	return nil
}

func (r *run) naivePositions(ctx context.Context) (map[spot]int, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(r.options.MongoURI))
	if err != nil {
		return nil, fmt.Errorf("connecting to read the documents: %w", err)
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	cursor, err := client.Database(r.databaseName()).Collection(r.topic).Find(ctx, bson.D{},
		options.Find().SetProjection(bson.D{{Key: "values", Value: 0}}))
	if err != nil {
		return nil, fmt.Errorf("reading the documents: %w", err)
	}
	defer cursor.Close(ctx)
	stored := map[spot]int{}
	for cursor.Next(ctx) {
		var document struct {
			Partition int32
			Offset    int64
			Part      int
		}
		if err := cursor.Decode(&document); err != nil {
			return nil, fmt.Errorf("reading a document: %w", err)
		}
		stored[spot{document.Partition, check.Position{Offset: document.Offset, Part: document.Part}}]++
	}
	if err := cursor.Err(); err != nil {
		return nil, fmt.Errorf("reading the documents: %w", err)
	}
	return stored, nil
}
