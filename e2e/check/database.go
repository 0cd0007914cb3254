package check

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// batchBuckets is the batch size of queries. Without it some servers send as much as a message can hold, or more.
const batchBuckets = 1000

// WithDatabase connects to a MongoDB, calls do with one of its databases, and disconnects.
func WithDatabase(ctx context.Context, uri, name string, do func(*mongo.Database) error) error {
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return fmt.Errorf("connecting to MongoDB: %w", err)
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	return do(client.Database(name))
}

// withBuckets calls do with the collection of the buckets.
func (s Source) withBuckets(ctx context.Context, do func(*mongo.Collection) error) error {
	return WithDatabase(ctx, s.MongoURI, s.Database, func(database *mongo.Database) error {
		return do(bucketsOf(database, s.Topic))
	})
}

// bucketsOf returns the collection of the buckets of a series.
func bucketsOf(database *mongo.Database, series string) *mongo.Collection {
	return database.Collection(series + ".buckets")
}

// each calls take for every document that matches a filter. The document is valid until take returns. fields are the fields that
// are read. Nil means all.
func each(ctx context.Context, collection *mongo.Collection, filter bson.D, fields []string, take func(bson.Raw) error) error {
	find := options.Find().SetBatchSize(batchBuckets)
	if fields != nil {
		projection := bson.D{}
		for _, name := range fields {
			projection = append(projection, bson.E{Key: name, Value: 1})
		}
		find.SetProjection(projection)
	}
	cursor, err := collection.Find(ctx, filter, find)
	if err != nil {
		return fmt.Errorf("reading %s: %w", collection.Name(), err)
	}
	defer cursor.Close(ctx)
	for cursor.Next(ctx) {
		if err := take(cursor.Current); err != nil {
			return err
		}
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", collection.Name(), err)
	}
	return nil
}

// exists is a condition of a filter on the presence of a field.
func exists(field string, is bool) bson.E {
	return bson.E{Key: field, Value: bson.D{{Key: "$exists", Value: is}}}
}
