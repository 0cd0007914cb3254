package discard_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"waterwheel/e2e/bench/discard"
	"waterwheel/e2e/harness"
)

// server returns the URI of the MongoDB in the environment, or of an embedded one.
func server(t *testing.T) string {
	t.Helper()
	if uri := os.Getenv("E2E_MONGODB_URI"); uri != "" {
		return uri
	}
	return harness.EmbeddedMongo(t).URI()
}

func connect(t *testing.T, uri string) *mongo.Database {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	return client.Database("discard_" + strings.ToLower(t.Name()))
}

// start starts the proxy. It returns the database through the proxy, and the same database without it.
func start(t *testing.T) (p *discard.Process, through, past *mongo.Database) {
	t.Helper()
	uri := server(t)
	p, err := discard.Start(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	through, past = connect(t, p.URI), connect(t, uri)
	t.Cleanup(func() { past.Drop(context.Background()) })
	return p, through, past
}

func TestBucketWritesAreAnswered(t *testing.T) {
	p, through, past := start(t)
	buckets := through.Collection("rooms.buckets")
	inserts := []mongo.WriteModel{}
	for i := range 700 {
		inserts = append(inserts, &mongo.InsertOneModel{Document: bson.D{{Key: "_id", Value: i}, {Key: "text", Value: strings.Repeat("x", i*7)}}})
	}
	result, err := buckets.BulkWrite(t.Context(), inserts, options.BulkWrite().SetOrdered(false))
	if err != nil || result.InsertedCount != 700 {
		t.Fatalf("the insert of 700 was answered %+v, %v", result, err)
	}
	updates := []mongo.WriteModel{}
	for i := range 30 {
		updates = append(updates, &mongo.UpdateOneModel{
			Filter: bson.D{{Key: "_id", Value: i}}, Update: bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: 1}}}},
		})
	}
	result, err = buckets.BulkWrite(t.Context(), updates)
	if err != nil || result.MatchedCount != 30 || result.ModifiedCount != 30 {
		t.Fatalf("the update of 30 was answered %+v, %v", result, err)
	}
	counts, err := p.Counts()
	if err != nil {
		t.Fatal(err)
	}
	if counts.Commands != 2 || counts.Inserts != 700 || counts.Updates != 30 || counts.Bytes < 7*700*699/2 {
		t.Errorf("counted %+v", counts)
	}
	for name, db := range map[string]*mongo.Database{"through the proxy": through, "past it": past} {
		if n, err := db.Collection("rooms.buckets").CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
			t.Errorf("%s %d buckets are found (%v), none should have come to the server", name, n, err)
		}
	}
}

func TestDocumentsInTheBodyAreCounted(t *testing.T) {
	p, through, _ := start(t)
	array := bson.A{}
	for i := range 12 {
		array = append(array, bson.D{{Key: "_id", Value: i}, {Key: "inner", Value: bson.A{bson.D{}, bson.D{}}}})
	}
	var reply struct{ N, NModified int32 }
	command := bson.D{
		{Key: "insert", Value: "rooms.buckets"},
		{Key: "ordered", Value: true},
		{Key: "maxTimeMS", Value: int64(5000)},
		{Key: "comment", Value: "a text"},
		{Key: "documents", Value: array},
		{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}}},
	}
	if err := through.RunCommand(t.Context(), command).Decode(&reply); err != nil || reply.N != 12 {
		t.Errorf("answered %+v, %v", reply, err)
	}
	if counts, err := p.Counts(); err != nil || counts.Inserts != 12 {
		t.Errorf("counted %+v, %v", counts, err)
	}
}

func TestOthersAreForwarded(t *testing.T) {
	p, through, past := start(t)
	if _, err := past.Collection("rooms.buckets").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := through.Collection("rooms.buckets").FindOne(t.Context(), bson.D{{Key: "_id", Value: 1}}).Err(); err != nil {
		t.Errorf("looking a bucket up: %v", err)
	}
	if _, err := through.Collection("rooms.partitions").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 2}}); err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("y", 3<<20)
	if _, err := through.Collection("rooms.options").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 3}, {Key: "big", Value: big}}); err != nil {
		t.Fatal(err)
	}
	if err := past.Collection("rooms.partitions").FindOne(t.Context(), bson.D{{Key: "_id", Value: 2}}).Err(); err != nil {
		t.Errorf("a document of another collection did not come to the server: %v", err)
	}
	var found struct{ Big string }
	if err := past.Collection("rooms.options").FindOne(t.Context(), bson.D{{Key: "_id", Value: 3}}).Decode(&found); err != nil || found.Big != big {
		t.Errorf("a large document came to the server with %d bytes, %v", len(found.Big), err)
	}
	if counts, err := p.Counts(); err != nil || counts != (discard.Counts{}) {
		t.Errorf("counted %+v, %v", counts, err)
	}
}

func TestUnacknowledgedWritesGetNoAnswer(t *testing.T) {
	p, through, _ := start(t)
	quiet := through.Collection("rooms.buckets", options.Collection().SetWriteConcern(writeconcern.Unacknowledged()))
	for i := range 5 {
		if _, err := quiet.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}}); err != nil {
			t.Fatal(err)
		}
	}
	// The driver would take an unexpected answer for the answer to the next request on the connection.
	for range 5 {
		if err := through.RunCommand(t.Context(), bson.D{{Key: "ping", Value: 1}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for {
		counts, err := p.Counts()
		if err != nil {
			t.Fatal(err)
		}
		if counts.Inserts == 5 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("counted %+v", counts)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
