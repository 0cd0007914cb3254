package mongodb_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
)

// losing returns a function that loses the given number of answers, and then answers commands with another function. The
// connection stays open.
func losing(t *testing.T, answers int32, with func(bson.Raw) bson.D) func(bson.Raw) bson.D {
	var lost atomic.Int32
	return func(command bson.Raw) bson.D {
		if lost.Add(1) <= answers {
			<-t.Context().Done()
			return nil
		}
		return with(command)
	}
}

// TestAReadWhoseAnswerIsLostIsGivenUp covers a lost answer to a query and to a getMore. After each lost answer the next read
// waits twice as long.
func TestAReadWhoseAnswerIsLostIsGivenUp(t *testing.T) {
	const first = 100 * time.Millisecond
	document := bson.D{{Key: "_id", Value: 1}}
	begun := func(bson.Raw) bson.D {
		return bson.D{{Key: "cursor", Value: bson.D{{Key: "id", Value: int64(7)}, {Key: "ns", Value: "db.c"}, {Key: "firstBatch", Value: bson.A{document}}}}}
	}
	ended := func(bson.Raw) bson.D {
		return bson.D{{Key: "cursor", Value: bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "db.c"}, {Key: "nextBatch", Value: bson.A{document, document}}}}}
	}
	f := mongodbtest.NewFake(t, mongodbtest.ReplicaSet)
	f.Answer("find", losing(t, 1, begun))
	f.Answer("getMore", losing(t, 1, ended))
	f.Answer("killCursors", losing(t, 1, mongodbtest.Counting(0)))
	d := mongodbtest.Open(t, f, func(o *mongodb.Options) { o.AnswerTimeout, o.WriteTimeout = first, 50*time.Millisecond })
	for _, want := range []struct {
		found  int
		within string // Empty means that it succeeds.
	}{{0, "100ms"}, {1, "200ms"}, {3, ""}} {
		found := 0
		err := d.Collection("c").Find(t.Context(), mongodb.Query{Filter: mongodb.Document(bson.D{})}, func(bson.Raw) error { found++; return nil })
		switch {
		case found != want.found:
			t.Errorf("%d documents, want %d", found, want.found)
		case want.within == "" && err != nil:
			t.Errorf("the third read: %v", err)
		case want.within != "" && (err == nil || !strings.Contains(err.Error(), "MongoDB did not answer within "+want.within)):
			t.Errorf("%v, want that it did not answer within %s", err, want.within)
		}
		if _, ok := errors.AsType[*mongodb.NotSentError](err); ok {
			t.Errorf("%v is said to not have been sent", err)
		}
	}
	if n := len(f.Sent("killCursors")); n != 1 {
		t.Errorf("%d cursors were closed, want 1", n)
	}
}
