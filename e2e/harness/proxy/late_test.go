package proxy_test

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"
)

func connected(t *testing.T) (*proxy.Late, *mongo.Database) {
	t.Helper()
	l, err := proxy.NewLate(harness.EmbeddedMongo(t).URI())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	client, err := mongo.Connect(options.Client().ApplyURI(l.URI()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(t.Context()) })
	return l, client.Database("late")
}

// insert inserts n documents at once, and returns the time of the answer.
func insert(t *testing.T, into *mongo.Collection, n int) time.Time {
	t.Helper()
	documents := make([]bson.D, n)
	for i := range documents {
		documents[i] = bson.D{{Key: "_id", Value: bson.NewObjectID()}}
	}
	if _, err := into.InsertMany(t.Context(), documents); err != nil {
		t.Error(err)
	}
	return time.Now()
}

func TestOnlyWritesOfBucketsAreLate(t *testing.T) {
	l, database := connected(t)
	buckets, others := database.Collection("things.buckets"), database.Collection("things")
	l.Slow(proxy.Pace{Answer: time.Minute})
	insert(t, others, 3)
	if n, err := buckets.CountDocuments(t.Context(), bson.D{}); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if commands, _ := l.Slowed(); commands != 0 {
		t.Errorf("%d commands were slowed", commands)
	}
	const answer = 200 * time.Millisecond
	l.Slow(proxy.Pace{Answer: answer})
	began := time.Now()
	if took := insert(t, buckets, 3).Sub(began); took < answer {
		t.Errorf("an insert took %v", took)
	}
	began = time.Now()
	if _, err := buckets.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "a", Value: 1}}}}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < answer {
		t.Errorf("an update took %v", took)
	}
	if commands, writes := l.Slowed(); commands != 2 || writes != 4 {
		t.Errorf("%d commands and %d writes were slowed, want 2 and 4", commands, writes)
	}
	l.Slow(proxy.Pace{})
	insert(t, buckets, 3)
	if commands, _ := l.Slowed(); commands != 2 {
		t.Errorf("%d commands were slowed", commands)
	}
}

func TestWritesWaitForEachOther(t *testing.T) {
	l, database := connected(t)
	const write = 50 * time.Millisecond
	l.Slow(proxy.Pace{Write: write})
	began, ends := time.Now(), make(chan time.Time)
	for range 2 {
		go func() { ends <- insert(t, database.Collection("things.buckets"), 4) }()
	}
	<-ends
	if took := (<-ends).Sub(began); took < 8*write {
		t.Errorf("the later of two commands of 4 writes took %v", took)
	}
}
