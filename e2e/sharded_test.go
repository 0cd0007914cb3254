package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness/refuser"
	"waterwheel/internal/timeseries"
)

// These tests need a sharded cluster: E2E_MONGODB_URI names a router (mongos), and the cluster has two shards or more.

// cluster is a sharded cluster as an operator has it.
type cluster struct {
	t      *testing.T
	s      *stream
	admin  *mongo.Database
	config *mongo.Database
	shards []string
}

// onCluster makes a stream whose collection is sharded, ranged or hashed, and skips the test without a cluster.
func onCluster(t *testing.T, partitions int, kind string) *cluster {
	t.Helper()
	s := newStream(t, partitions)
	client := s.collection(timeseries.BucketsSuffix).Database().Client()
	c := &cluster{t: t, s: s, admin: client.Database("admin"), config: client.Database("config")}
	ctx := within(t, 30*time.Second)
	var hello struct {
		Message string `bson:"msg"`
	}
	if err := c.admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil || hello.Message != "isdbgrid" {
		t.Skip("E2E_MONGODB_URI names no router of a sharded cluster")
	}
	var list struct {
		Shards []struct {
			ID string `bson:"_id"`
		} `bson:"shards"`
	}
	if err := c.admin.RunCommand(ctx, bson.D{{Key: "listShards", Value: 1}}).Decode(&list); err != nil {
		t.Fatal(err)
	}
	for _, one := range list.Shards {
		c.shards = append(c.shards, one.ID)
	}
	if len(c.shards) < 2 {
		t.Skipf("the cluster has the shards %v: one is not enough", c.shards)
	}
	s.succeed("init", "--shard", kind)
	return c
}

// namespace is the namespace of the buckets.
func (c *cluster) namespace() string {
	return c.s.database + "." + c.s.topic + timeseries.BucketsSuffix
}

// chunk is a part of the sharded collection.
type chunk struct {
	Min   bson.Raw `bson:"min"`
	Max   bson.Raw `bson:"max"`
	Shard string   `bson:"shard"`
}

func (c *cluster) chunks(ctx context.Context) (all []chunk, err error) {
	entry, err := c.config.Collection("collections").FindOne(ctx, bson.D{{Key: "_id", Value: c.namespace()}}).Raw()
	if err != nil {
		return nil, fmt.Errorf("looking for the sharded collection: %w", err)
	}
	of := bson.A{bson.D{{Key: "ns", Value: c.namespace()}}}
	if id := entry.Lookup("uuid"); id.Type != 0 {
		of = append(of, bson.D{{Key: "uuid", Value: id}})
	}
	cursor, err := c.config.Collection("chunks").Find(ctx, bson.D{{Key: "$or", Value: of}})
	if err == nil {
		err = cursor.All(ctx, &all)
	}
	if err == nil && len(all) == 0 {
		err = errors.New("the collection has no chunks")
	}
	return all, err
}

// disturb splits and moves chunks until it is stopped, and returns how many moves were made.
func (c *cluster) disturb() (stop func() (moved int)) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	made, refused, ended := 0, map[string]int{}, make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ctx.Err() == nil; n++ {
			if n%4 == 0 {
				c.split(ctx)
			}
			switch err := c.move(ctx); {
			case err == nil:
				made++
			case ctx.Err() == nil:
				refused[err.Error()]++
			}
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	return func() int {
		cancel()
		<-ended
		for why, n := range refused {
			c.t.Logf("%d moves were refused: %s", n, why)
		}
		return made
	}
}

// split splits the chunk of some document in the middle. It may be too small for that.
func (c *cluster) split(ctx context.Context) {
	buckets := c.s.collection(timeseries.BucketsSuffix)
	cursor, err := buckets.Aggregate(ctx, bson.A{bson.D{{Key: "$sample", Value: bson.D{{Key: "size", Value: 1}}}}})
	if err != nil {
		return
	}
	var sample []bson.Raw
	if cursor.All(ctx, &sample) != nil || len(sample) == 0 {
		return
	}
	key := bson.D{}
	meta, least := sample[0].Lookup(timeseries.FieldMeta), sample[0].Lookup(timeseries.FieldControl, timeseries.FieldMin)
	if meta.Type == 0 {
		key = append(key, bson.E{Key: timeseries.FieldMeta, Value: nil})
	} else {
		key = append(key, bson.E{Key: timeseries.FieldMeta, Value: meta})
	}
	key = append(key, bson.E{Key: timeseries.MinPath("time"), Value: least.Document().Lookup("time")})
	_ = c.admin.RunCommand(ctx, bson.D{{Key: "split", Value: c.namespace()}, {Key: "find", Value: key}}).Err()
}

// move moves some chunk to another shard. The cluster may refuse it, as it does while another one is moved.
func (c *cluster) move(ctx context.Context) error {
	all, err := c.chunks(ctx)
	if err != nil {
		return err
	}
	one := all[rand.IntN(len(all))]
	others := slices.DeleteFunc(slices.Clone(c.shards), func(shard string) bool { return shard == one.Shard })
	return c.admin.RunCommand(ctx, bson.D{
		{Key: "moveChunk", Value: c.namespace()}, {Key: "bounds", Value: bson.A{one.Min, one.Max}},
		{Key: "to", Value: others[rand.IntN(len(others))]},
	}).Err()
}

// TestAShardedCollectionLosesAndDoublesNothing: consumers that write segments are killed while chunks move, and at each moment each
// measurement is shown once.
func TestAShardedCollectionLosesAndDoublesNothing(t *testing.T) {
	for _, kind := range []string{"ranged", "hashed"} {
		t.Run(kind, func(t *testing.T) {
			c := onCluster(t, 4, kind)
			s := c.s
			load := s.startLoad(s.generator(300, func(o *events.Options) { o.NoArrayMetas = true }), 1000)
			stop := c.disturb()
			for range 2 {
				consumer := s.start(inSegments...)
				s.awaitCompacted(consumer, 2)
				s.checkShown()
				consumer.Kill()
				s.checkShown()
			}
			load.stop()
			consumer := s.start(inSegments...)
			s.awaitCommitted(consumer, 2*time.Minute)
			moved := stop()
			s.terminate(consumer)
			s.check()
			s.checkShown()
			if code, out := s.run("verify", "--content"); code != 0 {
				t.Errorf(check.Verdict+"verify ended with code %d:\n%s", code, out)
			}
			if shown := s.succeed("collection", "show"); !strings.Contains(shown, "Sharded") {
				t.Errorf("show says nothing of shards:\n%s", shown)
			}
			if t.Logf("%d chunks moved", moved); moved == 0 {
				t.Error("no chunk moved")
			}
		})
	}
}

// TestAnArrayIsADeadLetterOfAShardedCollection: a shard key takes no array. What comes with it is stored.
func TestAnArrayIsADeadLetterOfAShardedCollection(t *testing.T) {
	onCluster(t, 1, "hashed").s.refusesArrays()
}

// TestAnArrayBehindAShardKey is the same with answers as of a router, on any server.
func TestAnArrayBehindAShardKey(t *testing.T) {
	t.Parallel()
	s, r := newStream(t, 1), between(t)
	r.Obey(func(collection string, write bson.Raw) *refuser.Refusal {
		if strings.HasSuffix(collection, timeseries.BucketsSuffix) && write.Lookup(timeseries.FieldMeta).Type == bson.TypeArray {
			return &refuser.Refusal{Code: 61, Message: "Shard key cannot contain array values or array descendants."}
		}
		return nil
	})
	s.settings = s.settings.With("MONGODB_URI", r.URI())
	s.refusesArrays()
	if r.Refused()[61] == 0 {
		t.Error("nothing was refused")
	}
}

// refusesArrays sends measurements of one series, and one whose meta is an array.
func (s *stream) refusesArrays() {
	s.t.Helper()
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	event := func(i int, meta string) []byte {
		return fmt.Appendf(nil, `{"time":%d,"meta":%s,"n":%d}`, begin.Add(time.Duration(i)*time.Second).UnixMilli(), meta, i)
	}
	const number = 20
	var made []events.Event
	for i := range number {
		made = append(made, events.Event{Key: []byte("k"), Value: event(i, `"a"`), Fate: events.Fate{Parts: []events.Part{{Reading: &events.Reading{
			Time: begin.Add(time.Duration(i) * time.Second).UnixMilli(), Meta: "a", Fields: bson.D{{Key: "n", Value: int32(i)}},
		}}}}})
	}
	made = append(made, events.Event{Key: []byte("k"), Value: event(number, `["a","b"]`), Fate: events.Fate{Reason: "refused_by_database"}})
	s.storesWith(made, number, 1, "EVENT_TIME_FORMAT", "unix_ms")
	s.wantMessage("refused_by_database", "its meta is an array")
}

// TestMetasOfAShardedCollectionChange: a bucket whose shard key changes moves to another shard if need be.
func TestMetasOfAShardedCollectionChange(t *testing.T) {
	c := onCluster(t, 1, "hashed")
	s := c.s.inBuckets()
	const series = 12
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	var made []events.Event
	for i := range 10 * series {
		at, meta := begin.Add(time.Duration(i)*time.Second).UnixMilli(), bson.D{{Key: "site", Value: fmt.Sprint("s", i%series)}}
		made = append(made, events.Event{
			Key: []byte("k"), Value: fmt.Appendf(nil, `{"time":%d,"meta":{"site":"s%d"},"n":%d}`, at, i%series, i),
			Fate: events.Fate{Parts: []events.Part{{Reading: &events.Reading{Time: at, Meta: meta, Fields: bson.D{{Key: "n", Value: int32(i)}}}}}},
		})
	}
	s.storesWith(made, len(made), 0, "EVENT_TIME_FORMAT", "unix_ms")
	s.edit("update-meta", "--filter", "{}", "--update", `{"$set": {"meta.moved": true}}`, "--closed", "--yes")
	left, err := s.collection(timeseries.BucketsSuffix).CountDocuments(within(t, time.Minute), bson.D{{Key: "meta.moved", Value: bson.D{{Key: "$ne", Value: true}}}})
	if err != nil || left > 0 || s.measurements() != int64(len(made)) {
		t.Errorf(check.Verdict+"%d buckets were not changed, and %d of %d measurements are there: %v", left, s.measurements(), len(made), err)
	}
	if code, out := s.run("verify"); code != 0 {
		t.Errorf(check.Verdict+"verify ended with code %d:\n%s", code, out)
	}
}
