package mongodb_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
)

// TestReadsAtOnceMissNoMovingDocument changes shard keys on a real cluster, so that documents move to other shards, while it reads
// all documents in small batches. A read at one moment finds each document once. Other reads need not.
func TestReadsAtOnceMissNoMovingDocument(t *testing.T) {
	const documents = 300
	r := mongodbtest.Connect(t)
	if !r.Server().Sharded {
		t.Skip("the server at E2E_MONGODB_URI is no router of a sharded cluster")
	}
	admin, namespace := r.Raw.Client().Database("admin"), r.Name()+".moving"
	for _, command := range []bson.D{
		{{Key: "enableSharding", Value: r.Name()}},
		{{Key: "shardCollection", Value: namespace}, {Key: "key", Value: bson.D{{Key: "meta", Value: "hashed"}}}},
	} {
		if err := admin.RunCommand(t.Context(), command).Err(); err != nil {
			t.Fatal(err)
		}
	}
	c := r.Collection("moving")
	var all []bson.Raw
	metas := make([]int64, documents)
	for i := range metas {
		metas[i] = rand.Int64()
		all = append(all, mongodb.Document(bson.D{{Key: "_id", Value: i}, {Key: "meta", Value: metas[i]}}))
	}
	if reply, err := c.Insert(t.Context(), all); err != nil || reply.N != documents {
		t.Fatalf("%+v, %v", reply, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var moving sync.WaitGroup
	moved := 0
	moving.Go(func() {
		for ctx.Err() == nil {
			i := rand.IntN(documents)
			next := rand.Int64()
			reply, err := r.MoveKeys(ctx, "moving", []mongodb.Update{{
				Filter: mongodb.Document(bson.D{{Key: "_id", Value: i}, {Key: "meta", Value: metas[i]}}),
				Update: mongodb.Set(bson.D{{Key: "meta", Value: next}}),
			}})
			if err == nil && reply.N == 1 && len(reply.Errors) == 0 {
				metas[i] = next
				moved++
			} else if ctx.Err() == nil && err == nil {
				t.Errorf("moving a document: %+v", reply)
				return
			}
		}
	})
	session, err := r.Session()
	if err != nil {
		t.Fatal(err)
	}
	defer session.End()
	reads, otherwise := 0, 0
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); reads++ {
		for _, atOnce := range []bool{true, false} {
			found := 0
			err := c.Find(session.Context(t.Context()), mongodb.Query{Filter: mongodb.Document(bson.D{}), Batch: 10, AtOnce: atOnce}, func(bson.Raw) error {
				found++
				return nil
			})
			switch {
			case err != nil:
				t.Fatal(err)
			case found == documents:
			case atOnce:
				t.Errorf("a read at one moment finds %d of %d documents", found, documents)
			default:
				otherwise++
			}
		}
	}
	stop()
	moving.Wait()
	t.Logf("%d reads of each kind, %d changes of shard keys; %d reads of several moments found another number of documents", reads, moved, otherwise)
	if moved == 0 {
		t.Error("no shard key was changed")
	}
	if strings.Contains(r.Said.String(), "snapshot reads") {
		t.Errorf("the router refuses snapshot reads:\n%s", r.Said)
	}
}
