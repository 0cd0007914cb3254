package mongodb_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
)

// onBuckets opens the collection of buckets on a scripted server. The pool then holds a connection.
func onBuckets(t *testing.T, hello bson.D) (*mongodbtest.Fake, mongodb.Collection) {
	t.Helper()
	f := mongodbtest.NewFake(t, hello)
	d, err := mongodb.Open(t.Context(), mongodb.Options{
		URI: "mongodb://" + f.Addr().String() + "/?directConnection=true", Database: "db", WriteTimeout: 2 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(t.Context()) })
	f.Answer("insert", mongodbtest.Counting(1))
	buckets := d.Collection("events.buckets")
	if _, err := buckets.Insert(t.Context(), documentsOf(1)); err != nil {
		t.Fatal(err)
	}
	return f, buckets
}

func documentsOf(n int) []bson.Raw {
	documents := make([]bson.Raw, n)
	for i := range documents {
		documents[i] = mongodb.Document(bson.D{{Key: "_id", Value: i}})
	}
	return documents
}

func TestWhatTheDriverHadNoTimeForWasNotSent(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{
		"the deadline is over": mongodbtest.NewHurried(t.Context(), -time.Millisecond), "the context is cancelled": cancelled,
	} {
		f, buckets := onBuckets(t, nil)
		before := len(f.Sent("insert"))
		_, err := buckets.Insert(ctx, documentsOf(2))
		if _, ok := errors.AsType[*mongodb.NotSentError](err); !ok || !errors.Is(err, claim.ErrNoTurn) {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(f.Sent("insert")) - before; n != 0 {
			t.Errorf("%s: %d commands were sent", name, n)
		}
	}
}

// TestACallThatIsSplitIsUnknownWhenTheTimeIsOverInTheMiddle covers a call that the driver splits into two commands. The deadline
// passes between them.
func TestACallThatIsSplitIsUnknownWhenTheTimeIsOverInTheMiddle(t *testing.T) {
	f, buckets := onBuckets(t, bson.D{{Key: "maxWriteBatchSize", Value: int32(1)}})
	ctx := mongodbtest.NewHurried(t.Context(), time.Minute)
	f.Answer("insert", func(bson.Raw) bson.D {
		ctx.Set(-time.Millisecond)
		return bson.D{{Key: "n", Value: int32(1)}}
	})
	before := len(f.Sent("insert"))
	_, err := buckets.Insert(ctx, documentsOf(2))
	if n := len(f.Sent("insert")) - before; n != 1 {
		t.Fatalf("%d commands were sent: %v", n, err)
	}
	if _, ok := errors.AsType[*mongodb.NotSentError](err); err == nil || ok {
		t.Errorf("a call of which the first command was executed is said to be not sent: %v", err)
	}
}

func TestWhatWasSentAndNotAnsweredInItsTimeIsUnknown(t *testing.T) {
	f, buckets := onBuckets(t, nil)
	release := make(chan struct{})
	f.Answer("insert", func(bson.Raw) bson.D { <-release; return mongodbtest.Counting(1)(nil) })
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := buckets.Insert(ctx, documentsOf(1))
	if _, ok := errors.AsType[*mongodb.NotSentError](err); err == nil || ok {
		t.Errorf("what was sent is said to be not sent: %v", err)
	}
	if len(f.Sent("insert")) == 0 {
		t.Error("nothing was sent")
	}
}
