package e2e_test

import (
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"
)

// late imitates a MongoDB that writes buckets slowly. It delays the answers to inserts and updates of buckets, and forwards all
// others at once. To the client the server looks alive but busy. Its methods may be called by several goroutines.
type late struct {
	*proxy.Proxy

	mu       sync.Mutex
	pace     pace
	free     time.Time // when the server has done all writes so far, at the pace of pace.Write
	commands int
	writes   int
}

// pace is how slowly the server answers a command that writes buckets.
type pace struct {
	// Answer is how long each answer takes, no matter how many are due.
	Answer time.Duration
	// Write is how long each write takes. The server works on one write at a time, so commands wait for each other.
	Write time.Duration
}

// newLate listens for connections to the server at uri. It delays nothing until Slow is called. The caller closes it.
func newLate(uri string) (_ *late, err error) {
	l := &late{}
	l.Proxy, err = proxy.NewMessages(uri, l.decide)
	return l, err
}

// Slow sets the pace for commands from now on.
func (l *late) Slow(p pace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pace, l.free = p, time.Time{}
}

// Slowed counts the commands so far whose answers are delayed, and the writes in them.
func (l *late) Slowed() (commands, writes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.commands, l.writes
}

// decide forwards a message, whose answer is due at the pace of now.
func (l *late) decide(m proxy.Message) proxy.Decision {
	c, _, ok := proxy.ParseBucketWrite(m)
	if !ok {
		return proxy.Decision{Forward: m}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pace == (pace{}) {
		return proxy.Decision{Forward: m}
	}
	l.commands++
	l.writes += len(c.Documents)
	if now := time.Now(); l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(len(c.Documents)) * l.pace.Write)
	return proxy.Decision{Forward: m, Due: l.free.Add(l.pace.Answer)}
}

func lateServer(t *testing.T) (*late, *mongo.Database) {
	t.Helper()
	l, err := newLate(harness.EmbeddedMongo(t).URI())
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

// insertLate inserts n documents at once, and returns the time of the answer.
func insertLate(t *testing.T, into *mongo.Collection, n int) time.Time {
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
	l, database := lateServer(t)
	buckets, others := database.Collection("things.buckets"), database.Collection("things")
	l.Slow(pace{Answer: time.Minute})
	insertLate(t, others, 3)
	if n, err := buckets.CountDocuments(t.Context(), bson.D{}); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if commands, _ := l.Slowed(); commands != 0 {
		t.Errorf("%d commands were slowed", commands)
	}
	const answer = 200 * time.Millisecond
	l.Slow(pace{Answer: answer})
	began := time.Now()
	if took := insertLate(t, buckets, 3).Sub(began); took < answer {
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
	l.Slow(pace{})
	insertLate(t, buckets, 3)
	if commands, _ := l.Slowed(); commands != 2 {
		t.Errorf("%d commands were slowed", commands)
	}
}

func TestWritesWaitForEachOther(t *testing.T) {
	l, database := lateServer(t)
	const write = 50 * time.Millisecond
	l.Slow(pace{Write: write})
	began, ends := time.Now(), make(chan time.Time)
	for range 2 {
		go func() { ends <- insertLate(t, database.Collection("things.buckets"), 4) }()
	}
	<-ends
	if took := (<-ends).Sub(began); took < 8*write {
		t.Errorf("the later of two commands of 4 writes took %v", took)
	}
}
