package sink_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// Failpoints of MongoDB's write commands.
const (
	holdUpdates = "hangDuringBatchUpdate"
	holdDeletes = "hangDuringBatchRemove"
)

// heldWrite is a write of a document that its shard holds until the document's chunk lies on another shard.
type heldWrite struct {
	failpoint string
	// prepare changes the stored bucket, which is a frozen segment of the compaction, or a bucket of it, for example.
	prepare bson.D
	write   func(context.Context, *sink.Partition, *claim.Compaction) error
	// byID is the same write by the _id alone.
	byID func(context.Context, *mongo.Collection, bson.ObjectID) error
	done func(stored bson.Raw) bool // stored is nil after a deletion
}

// TestWritesFollowAMovedChunk holds each write on the shard that has its document. Meanwhile the chunk moves to another shard. The
// write must then change the document there. On MongoDB 5.0 the same write by the _id alone changes only the copy that the chunk
// left behind, and succeeds. The test needs a cluster of at least two shards on which test commands are enabled.
func TestWritesFollowAMovedChunk(t *testing.T) {
	shards := shardsOf(t)
	deletesByID := func(ctx context.Context, c *mongo.Collection, id bson.ObjectID) error {
		_, err := c.DeleteMany(ctx, bson.D{{Key: "_id", Value: id}})
		return err
	}
	updatesByID := func(update bson.D) func(context.Context, *mongo.Collection, bson.ObjectID) error {
		return func(ctx context.Context, c *mongo.Collection, id bson.ObjectID) error {
			_, err := c.UpdateMany(ctx, bson.D{{Key: "_id", Value: id}}, update)
			return err
		}
	}
	isDeleted := func(stored bson.Raw) bool { return stored == nil }
	id := token()
	frozen := bson.D{{Key: timeseries.PathOwner, Value: "owner"}, {Key: timeseries.PathSegmentCompaction, Value: timeseries.UUID(id)}}
	ended := bson.D{{Key: timeseries.PathOwner, Value: "owner"}, {Key: timeseries.PathVisibleUntil, Value: bson.DateTime(minute)}}
	changes := func(change claim.SegmentChange) func(context.Context, *sink.Partition, *claim.Compaction) error {
		return func(ctx context.Context, p *sink.Partition, c *claim.Compaction) error {
			return p.ChangeSegments(ctx, c, change, c.Segments)
		}
	}
	for name, w := range map[string]heldWrite{
		"a segment ends": {
			failpoint: holdUpdates, prepare: frozen, write: changes(claim.End),
			byID: updatesByID(bson.D{{Key: "$set", Value: bson.D{{Key: timeseries.PathVisibleUntil, Value: bson.DateTime(minute)}}}}),
			done: func(stored bson.Raw) bool {
				return stored.Lookup(strings.Split(timeseries.PathVisibleUntil, ".")...).Type == bson.TypeDateTime
			},
		},
		"a segment is unfrozen": {
			failpoint: holdUpdates, prepare: frozen, write: changes(claim.Unfreeze),
			byID: updatesByID(bson.D{{Key: "$unset", Value: bson.D{{Key: timeseries.PathSegmentCompaction, Value: ""}}}}),
			done: func(stored bson.Raw) bool {
				return stored.Lookup(strings.Split(timeseries.PathSegmentCompaction, ".")...).Type == 0
			},
		},
		"an ended segment is deleted": {
			failpoint: holdDeletes, prepare: ended, byID: deletesByID, done: isDeleted,
			write: func(ctx context.Context, p *sink.Partition, c *claim.Compaction) error {
				return p.Sweep(ctx, c.Segments, time.UnixMilli(2*minute))
			},
		},
		"a compaction is rolled back": {
			failpoint: holdDeletes, prepare: bson.D{{Key: timeseries.PathCompactionID, Value: timeseries.UUID(id)}}, byID: deletesByID, done: isDeleted,
			write: func(ctx context.Context, p *sink.Partition, c *claim.Compaction) error {
				return p.DeleteCompacted(ctx, c)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, whole := range []bool{true, false} {
				e := connect(t)
				s := e.setup(t)
				if err := collection.Of(e.Database, "events").Shard(t.Context(), false); err != nil {
					t.Fatal(err)
				}
				p := e.claimed(t, s)
				bucket := insertOf("a", run(0, 3)...)
				sendAll(t, p, bucketer.Applied, bucket)
				buckets := e.Raw.Collection("events.buckets")
				key := bson.D{{Key: "meta", Value: "a"}, {Key: "control.min.time", Value: bson.DateTime(minute)}}
				if r, err := buckets.UpdateOne(t.Context(), key, bson.D{{Key: "$set", Value: w.prepare}}); err != nil || r.MatchedCount != 1 {
					t.Fatal(r, err)
				}
				c := claim.Compaction{ID: id, TopicID: source.TopicID, VisibleFrom: minute, Segments: []claim.Segment{
					{ID: bucket.ID, Meta: metaOf("a"), Min: minute, Compaction: id, First: 0, Last: 2},
				}}
				m := chunkMove{admin: e.Raw.Client().Database("admin"), of: e.Raw.Name() + ".events.buckets", key: key}
				if err := cmp.Or(m.split(t.Context(), shards[1].name), m.to(t.Context(), shards[0].name)); err != nil {
					t.Fatal(err)
				}
				release := shards[0].hold(t, w.failpoint, m.of)
				written, moved := make(chan error, 1), make(chan error, 1)
				go func() {
					if whole {
						written <- w.write(t.Context(), p, &c)
						return
					}
					written <- w.byID(t.Context(), buckets, bucket.ID)
				}()
				shards[0].waitHeld(t, w.failpoint)
				go func() { moved <- m.to(t.Context(), shards[1].name) }()
				m.waitFor(t, shards[1].name)
				release()
				if err := cmp.Or(<-written, <-moved); err != nil {
					t.Fatal(err)
				}
				stored, err := buckets.FindOne(t.Context(), key).Raw()
				if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
					t.Fatal(err)
				}
				switch done := w.done(stored); {
				case whole && !done:
					t.Errorf("the write missed the document: %v", stored)
				case !whole && done:
					t.Log("on this server a write by the _id alone finds the document, too")
				}
			}
		})
	}
}

// TestAFenceIsExecutedOnEveryShard counts the updates that each shard executes. Each has a chunk of the buckets.
func TestAFenceIsExecutedOnEveryShard(t *testing.T) {
	shards := shardsOf(t)
	e := connect(t)
	s := e.setup(t)
	if err := collection.Of(e.Database, "events").Shard(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	p := e.claimed(t, s)
	m := chunkMove{
		admin: e.Raw.Client().Database("admin"), of: e.Raw.Name() + ".events.buckets",
		key: bson.D{{Key: "meta", Value: "a"}, {Key: "control.min.time", Value: bson.DateTime(minute)}},
	}
	if err := cmp.Or(m.split(t.Context(), shards[1].name), m.to(t.Context(), shards[0].name)); err != nil {
		t.Fatal(err)
	}
	var before []int64
	for _, one := range shards {
		before = append(before, one.updates(t))
	}
	if _, err := p.Stored(t.Context(), 0, 10); err != nil {
		t.Fatal(err)
	}
	for i, one := range shards {
		if one.updates(t) == before[i] {
			t.Errorf("the shard %s executed no update", one.name)
		}
	}
}

// shard is a shard of the cluster behind E2E_MONGODB_URI, reached without the router.
type shard struct {
	name  string
	admin *mongo.Database
	held  int64 // number of times that a failpoint had been entered before it was set
}

// shardsOf connects to the first two shards.
func shardsOf(t *testing.T) []*shard {
	t.Helper()
	r := connect(t)
	if !r.Server().Sharded {
		t.Skip("the server at E2E_MONGODB_URI is no router of a sharded cluster")
	}
	var list struct {
		Shards []struct {
			ID   string `bson:"_id"`
			Host string `bson:"host"`
		} `bson:"shards"`
	}
	if err := r.Raw.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "listShards", Value: 1}}).Decode(&list); err != nil {
		t.Fatal(err)
	}
	if len(list.Shards) < 2 {
		t.Skip("the cluster has one shard")
	}
	var all []*shard
	for _, s := range list.Shards[:2] {
		set, hosts, _ := strings.Cut(s.Host, "/")
		client, err := mongo.Connect(options.Client().SetHosts(strings.Split(hosts, ",")).SetReplicaSet(set))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := client.Disconnect(context.Background()); err != nil {
				t.Error(err)
			}
		})
		all = append(all, &shard{name: s.ID, admin: client.Database("admin")})
	}
	return all
}

// hold makes the shard hold writes until release is called.
func (s *shard) hold(t *testing.T, failpoint, namespace string) (release func()) {
	t.Helper()
	set := func(ctx context.Context, mode string) (bson.Raw, error) {
		return s.admin.RunCommand(ctx, bson.D{
			{Key: "configureFailPoint", Value: failpoint}, {Key: "mode", Value: mode}, {Key: "data", Value: bson.D{{Key: "nss", Value: namespace}}},
		}).Raw()
	}
	reply, err := set(t.Context(), "alwaysOn")
	if err != nil {
		t.Skipf("the shard takes no test commands: %v", err)
	}
	s.held, _ = reply.Lookup("count").AsInt64OK()
	release = func() {
		if _, err := set(context.Background(), "off"); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(release)
	return release
}

// waitHeld waits until the shard holds a write.
func (s *shard) waitHeld(t *testing.T, failpoint string) {
	t.Helper()
	err := s.admin.RunCommand(t.Context(), bson.D{
		{Key: "waitForFailPoint", Value: failpoint}, {Key: "timesEntered", Value: s.held + 1}, {Key: "maxTimeMS", Value: 5000},
	}).Err()
	if err != nil {
		t.Fatal(err)
	}
}

// updates returns the number of updates that the shard has executed since it started.
func (s *shard) updates(t *testing.T) int64 {
	t.Helper()
	status, err := s.admin.RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Raw()
	if err != nil {
		t.Fatal(err)
	}
	n, _ := status.Lookup("opcounters", "update").AsInt64OK()
	return n
}

// chunkMove moves the chunk of a document.
type chunkMove struct {
	admin *mongo.Database
	of    string
	key   bson.D
}

func (m chunkMove) to(ctx context.Context, shard string) error {
	return m.admin.RunCommand(ctx, bson.D{{Key: "moveChunk", Value: m.of}, {Key: "find", Value: m.key}, {Key: "to", Value: shard}}).Err()
}

// split puts a chunk without documents on a shard. A write that can be of several shards is sent to all of them, without a version.
func (m chunkMove) split(ctx context.Context, shard string) error {
	at := bson.D{{Key: "meta", Value: "z"}, {Key: "control.min.time", Value: bson.DateTime(0)}}
	if err := m.admin.RunCommand(ctx, bson.D{{Key: "split", Value: m.of}, {Key: "middle", Value: at}}).Err(); err != nil {
		return err
	}
	return chunkMove{m.admin, m.of, at}.to(ctx, shard)
}

// waitFor waits until the shard answers reads of the document.
func (m chunkMove) waitFor(t *testing.T, shard string) {
	t.Helper()
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		plan, err := m.admin.Client().Database(strings.SplitN(m.of, ".", 2)[0]).RunCommand(t.Context(), bson.D{
			{Key: "explain", Value: bson.D{{Key: "find", Value: "events.buckets"}, {Key: "filter", Value: m.key}}},
		}).Raw()
		if err != nil {
			t.Fatal(err)
		}
		if at, _ := plan.Lookup("queryPlanner", "winningPlan", "shards", "0", "shardName").StringValueOK(); at == shard {
			return
		}
	}
	t.Fatalf("the chunk did not move to the shard %s", shard)
}
