package embedded_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"waterwheel/e2e/embedded"
	"waterwheel/e2e/harness"
)

// TestMongoHasWhatTheConsumerUses runs the operations that the consumer relies on: the source index, a conditional update that
// pushes an element, its miss after the count has changed, and a claim by findAndModify.
func TestMongoHasWhatTheConsumerUses(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	database := probe(t, harness.EmbeddedMongo(t))
	buckets := database.Collection("events.buckets")

	_, err := buckets.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{
		{Key: "control.source.topicId", Value: 1}, {Key: "control.source.partition", Value: 1}, {Key: "control.source.last", Value: 1},
	}})
	if err != nil {
		t.Fatalf("creating the source index: %v", err)
	}
	id := bson.NewObjectID()
	_, err = buckets.InsertOne(ctx, bson.D{
		{Key: "_id", Value: id},
		{Key: "control", Value: bson.D{{Key: "count", Value: int32(1)}, {Key: "source", Value: bson.D{
			{Key: "topicId", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}},
			{Key: "partition", Value: int32(3)},
			{Key: "last", Value: int64(5)},
			{Key: "offsets", Value: bson.A{bson.Binary{Data: []byte{1}}}},
		}}}},
		{Key: "meta", Value: bson.D{{Key: "host", Value: "a"}}},
		{Key: "data", Value: bson.D{{Key: "x", Value: bson.D{{Key: "0", Value: 1.5}}}}},
	})
	if err != nil {
		t.Fatalf("inserting a bucket: %v", err)
	}

	delta := bson.D{
		{Key: "$set", Value: bson.D{{Key: "control.count", Value: int32(2)}, {Key: "data.x.1", Value: 2.5}}},
		{Key: "$push", Value: bson.D{{Key: "control.source.offsets", Value: bson.Binary{Data: []byte{2}}}}},
		{Key: "$max", Value: bson.D{{Key: "control.source.last", Value: int64(6)}}},
	}
	filter := bson.D{
		{Key: "_id", Value: id},
		{Key: "meta", Value: bson.D{{Key: "$eq", Value: bson.D{{Key: "host", Value: "a"}}}}},
		{Key: "control.count", Value: int32(1)},
		{Key: "control.closed", Value: bson.D{{Key: "$ne", Value: true}}},
	}
	for i, want := range []int64{1, 0} {
		result, err := buckets.UpdateOne(ctx, filter, delta)
		if err != nil {
			t.Fatalf("update %d: %v", i, err)
		}
		if result.MatchedCount != want {
			t.Errorf("update %d matched %d, want %d", i, result.MatchedCount, want)
		}
	}

	stored, err := buckets.CountDocuments(ctx, bson.D{
		{Key: "control.source.topicId", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}},
		{Key: "control.source.partition", Value: int32(3)},
		{Key: "control.source.last", Value: bson.D{{Key: "$gte", Value: int64(6)}}},
	})
	if err != nil || stored != 1 {
		t.Errorf("buckets found by their source: %d (%v), want 1", stored, err)
	}

	claims := database.Collection("events.partitions")
	if _, err := claims.InsertOne(ctx, bson.D{{Key: "_id", Value: "c/events/0"}, {Key: "claim", Value: "one"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := claims.InsertOne(ctx, bson.D{{Key: "_id", Value: "c/events/0"}}); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("inserting a claim twice: %v, want a duplicate key", err)
	}
	claimed := claims.FindOneAndUpdate(ctx,
		bson.D{{Key: "_id", Value: "c/events/0"}, {Key: "claim", Value: "one"}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "claim", Value: "two"}}}})
	if claimed.Err() != nil {
		t.Errorf("claiming: %v", claimed.Err())
	}
}

// TestMongoLosesNoUpdate checks that concurrent updates of one document by several clients all take effect.
func TestMongoLosesNoUpdate(t *testing.T) {
	const clients, updates = 4, 100
	server := harness.EmbeddedMongo(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := probe(t, server).Collection("counters").InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "n", Value: 0}}); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, clients)
	for range clients {
		counter := probe(t, server).Collection("counters")
		go func() {
			for range updates {
				if _, err := counter.UpdateByID(ctx, 1, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	var counted struct{ N int }
	if err := probe(t, server).Collection("counters").FindOne(ctx, bson.D{}).Decode(&counted); err != nil || counted.N != clients*updates {
		t.Errorf("after %d updates: %d (%v)", clients*updates, counted.N, err)
	}
}

// TestMongoTakesUnacknowledgedWrites checks that these writes are executed, and that the connection stays usable.
func TestMongoTakesUnacknowledgedWrites(t *testing.T) {
	acknowledged := probe(t, harness.EmbeddedMongo(t)).Collection("counters")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	unacknowledged := acknowledged.Database().Collection(acknowledged.Name(),
		options.Collection().SetWriteConcern(writeconcern.Unacknowledged()))
	const writes = 3
	for i := range writes {
		if _, err := unacknowledged.InsertOne(ctx, bson.D{{Key: "_id", Value: i}}); err != nil {
			t.Fatal(err)
		}
	}
	if stored, err := unacknowledged.CountDocuments(ctx, bson.D{}); err != nil || stored != writes {
		t.Errorf("%d documents (%v), want %d", stored, err, writes)
	}
}

// probe returns a database of the server. Its client has a single connection of its own.
func probe(t *testing.T, server *embedded.Mongo) *mongo.Database {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(server.URI()).SetMaxPoolSize(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	return client.Database("probe")
}
