package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness/proxy"
	"waterwheel/e2e/harness/sharded"
	"waterwheel/internal/timeseries"
)

// These tests need a sharded cluster with at least two shards. E2E_MONGODB_URI must be the URI of a router (mongos).

// cluster is a stream with a sharded collection.
type cluster struct {
	*stream
	on     *sharded.Cluster
	chunks *sharded.Chunks
	rows   *sharded.Chunks // chunks of its rollups by minute
}

// onCluster returns a stream with a sharded collection, ranged or hashed. It skips the test without a cluster.
func onCluster(t *testing.T, partitions int, kind string) *cluster {
	t.Helper()
	c := beforeSharding(t, partitions)
	c.succeed("init", "--shard", kind)
	return c
}

// beforeSharding returns a stream on a cluster, without a collection. It skips the test without a cluster.
func beforeSharding(t *testing.T, partitions int) *cluster {
	t.Helper()
	s := newStream(t, partitions)
	client := s.collection(timeseries.BucketsSuffix).Database().Client()
	on, err := sharded.Of(within(t, 30*time.Second), client)
	switch {
	case errors.Is(err, sharded.ErrNoRouter):
		t.Skip("E2E_MONGODB_URI names no router of a sharded cluster")
	case err != nil:
		t.Fatal(err)
	case len(on.Shards) < 2:
		t.Skipf("the cluster has the shards %v: one is not enough", on.Shards)
	}
	return &cluster{stream: s, on: on, chunks: on.Chunks(s.database, s.topic, "time"), rows: on.Chunks(s.database, s.topic+"_1m", "time")}
}

// disturb splits and moves chunks until it is stopped. It then logs the cluster's refusals, and fails the test if no chunk was
// moved.
func (c *cluster) disturb(chunks *sharded.Chunks) (stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan struct{})
	var moved int
	var refused map[string]int
	go func() {
		defer close(ended)
		moved, refused = chunks.Disturb(ctx, 500*time.Millisecond)
	}()
	return func() {
		c.t.Helper()
		cancel()
		<-ended
		for why, n := range refused {
			c.t.Logf("refused %d times: %s", n, why)
		}
		if c.t.Logf("%d chunks moved", moved); moved == 0 {
			c.t.Error("no chunk moved")
		}
	}
}

// TestAShardedCollectionLosesAndDoublesNothing kills consumers that write segments while chunks move. At each moment each
// measurement is shown once.
func TestAShardedCollectionLosesAndDoublesNothing(t *testing.T) {
	for _, kind := range []string{"ranged", "hashed"} {
		t.Run(kind, func(t *testing.T) {
			s := onCluster(t, 4, kind)
			load := s.startLoad(s.generator(300, func(o *events.Options) { o.NoArrayMetas = true }), 1000)
			stop := s.disturb(s.chunks)
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
			stop()
			s.terminate(consumer)
			s.check()
			s.checkShown()
			if code, out := s.run("verify", "--content"); code != 0 {
				t.Errorf(check.Verdict+"verify ended with code %d:\n%s", code, out)
			}
			if shown := s.succeed("collection", "show"); !strings.Contains(shown, "Sharded") {
				t.Errorf("show says nothing of shards:\n%s", shown)
			}
		})
	}
}

// TestEachShardGetsItsPartOfTheSegments checks that measurements of slow series are written to all shards, and that queries on
// the view find them on all shards.
func TestEachShardGetsItsPartOfTheSegments(t *testing.T) {
	for _, kind := range []string{"ranged", "hashed"} {
		t.Run(kind, func(t *testing.T) {
			s := onCluster(t, 4, kind)
			load := s.startLoad(s.generator(300, func(o *events.Options) { o.NoArrayMetas = true }), 1000)
			consumer := s.start(append(slices.Clone(inSegments), "COMPACT_INTERVAL", "1h")...)
			s.awaitStored(consumer, time.Minute)
			for end := time.Now().Add(time.Minute); s.segments(t.Context()) < 100 && time.Now().Before(end); {
				time.Sleep(100 * time.Millisecond)
			}
			load.stop()
			s.awaitCommitted(consumer, time.Minute)
			s.terminate(consumer)
			counts, err := s.countsOf(t.Context(), s.collection(timeseries.BucketsSuffix), bson.D{{Key: "control.segment", Value: bson.D{{Key: "$exists", Value: true}}}})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("segments by shard: %v", counts)
			all := int64(0)
			for _, n := range counts {
				all += n
			}
			for shard, n := range counts {
				if equal := all / int64(len(counts)); n < equal/2 || n > equal*3/2 {
					t.Errorf("%s has %d of %d segments", shard, n, all)
				}
			}
			s.check()
			s.checkShown()
			if plan := s.succeed(append([]string{"collection", "shard", "--dry-run"}, map[string][]string{"hashed": {"--hashed"}}[kind]...)...); !strings.Contains(plan, "is sharded by this key already") {
				t.Errorf("something is to be sharded:\n%s", plan)
			}
		})
	}
}

// TestLargeChunksOfSegmentsAreSpread spreads segments that are larger than a chunk that MongoDB moves. The collection was sharded
// before it had segments.
func TestLargeChunksOfSegmentsAreSpread(t *testing.T) {
	s := beforeSharding(t, 4)
	s.settings = s.settings.With("SEGMENTS", "off")
	s.succeed("init", "--shard", "ranged")
	if err := s.limitChunks(t.Context(), 1, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.limitChunks(context.Background(), 0, true); err != nil {
			t.Error(err)
		}
	})
	load := s.startLoad(s.generator(300, func(o *events.Options) { o.NoArrayMetas = true }), 2000)
	consumer := s.start(append(slices.Clone(inSegments), "COMPACT_INTERVAL", "1h")...)
	s.awaitStored(consumer, time.Minute)
	buckets := s.collection(timeseries.BucketsSuffix)
	began := time.Now()
	for large := false; !large && time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
		stats, err := buckets.Database().RunCommand(t.Context(), bson.D{{Key: "collStats", Value: buckets.Name()}}).Raw()
		if err != nil {
			t.Fatal(err)
		}
		bytes, _ := stats.Lookup("size").AsInt64OK()
		large = bytes > 6<<20 && time.Since(began) > 20*time.Second // routers know the settings then
	}
	load.stop()
	s.awaitCommitted(consumer, time.Minute)
	s.succeed("collection", "shard", "--yes")
	s.terminate(consumer)
	counts, err := s.countsOf(t.Context(), buckets, bson.D{{Key: "control.segment", Value: bson.D{{Key: "$exists", Value: true}}}})
	t.Logf("segments by shard, with copies that a move left: %v, %v", counts, err)
	for shard, n := range counts {
		if n == 0 {
			t.Errorf("%s has no segments", shard)
		}
	}
	// Before, behind and between the borders of the parts there is one chunk each, unless one was divided.
	if n, err := s.chunks.Count(t.Context()); err != nil || n <= len(counts)+2 {
		t.Errorf("%d chunks, %v: none was too large to be moved", n, err)
	}
	if plan := s.succeed("collection", "shard", "--dry-run"); !strings.Contains(plan, "is sharded by this key already") {
		t.Errorf("something is to be sharded:\n%s", plan)
	}
	s.check()
	s.checkShown()
}

// TestRollupsFollowTheShardKey checks that a consumer with rollups shards them like the time series. Rows are right while their
// chunks move.
func TestRollupsFollowTheShardKey(t *testing.T) {
	s := onCluster(t, 3, "hashed")
	load := s.startLoad(s.generator(50, func(o *events.Options) { o.NoArrayMetas = true }), 1000)
	c := s.start(rolledUp...)
	s.awaitRows(c, time.Minute)
	stop := s.disturb(s.rows)
	for range 2 {
		s.awaitStored(c, time.Minute)
		s.awaitRows(c, time.Minute)
		c.Kill()
		c = s.start(rolledUp...)
	}
	load.stop()
	s.awaitCommitted(c, 2*time.Minute)
	s.awaitRolledUp(c)
	stop()
	s.compareRollups()
	s.terminate(c)
	s.check()
	s.t.Log(s.succeed("rollup", "verify"))
	const done = "is sharded by this key already"
	if plan := s.succeed("collection", "shard", "--hashed", "--dry-run"); strings.Count(plan, done) != 4 {
		t.Errorf("the time series and three levels are to be sharded:\n%s", plan)
	}
}

// TestAnArrayIsADeadLetterOfAShardedCollection checks this because a shard key cannot be an array. Other measurements of its
// batch are stored.
func TestAnArrayIsADeadLetterOfAShardedCollection(t *testing.T) {
	onCluster(t, 1, "hashed").refusesArrays()
}

// TestAnArrayBehindAShardKey is the same on any server, with imitated answers of a router.
func TestAnArrayBehindAShardKey(t *testing.T) {
	t.Parallel()
	s, r := newStream(t, 1), between(t)
	r.Obey(func(collection string, write bson.Raw) *proxy.Refusal {
		if strings.HasSuffix(collection, timeseries.BucketsSuffix) && write.Lookup(timeseries.FieldMeta).Type == bson.TypeArray {
			return &proxy.Refusal{Code: 61, Message: "Shard key cannot contain array values or array descendants."}
		}
		return nil
	})
	s.settings = s.settings.With("MONGODB_URI", r.URI())
	s.refusesArrays()
	if r.Refused()[61] == 0 {
		t.Error("nothing was refused")
	}
}

// refusesArrays sends measurements of one series, and one with an array as meta.
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

// TestMetasOfAShardedCollectionChange checks that a bucket whose shard key changes moves to another shard if necessary.
func TestMetasOfAShardedCollectionChange(t *testing.T) {
	s := onCluster(t, 1, "hashed").inBuckets()
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
	code, out := s.run("collection", "update-meta", "--filter", "{}", "--update", `{"$set": {"meta": ["array"]}}`, "--closed", "--yes")
	if code == 0 || !strings.Contains(out, "a shard key cannot contain an array") {
		t.Errorf("a meta that is an array: code %d:\n%s", code, out)
	}
	left, err := s.collection(timeseries.BucketsSuffix).CountDocuments(within(t, time.Minute), bson.D{{Key: "meta.moved", Value: bson.D{{Key: "$ne", Value: true}}}})
	if err != nil || left > 0 || s.measurements() != int64(len(made)) {
		t.Errorf(check.Verdict+"%d buckets were not changed, and %d of %d measurements are there: %v", left, s.measurements(), len(made), err)
	}
	if code, out := s.run("verify"); code != 0 {
		t.Errorf(check.Verdict+"verify ended with code %d:\n%s", code, out)
	}
}

// TestVerifyTellsBucketsWithOneIDApart checks measurements that are stored twice, in two buckets with the same _id on two shards.
// Each shard keeps its own _ids unique, so a cluster accepts this.
func TestVerifyTellsBucketsWithOneIDApart(t *testing.T) {
	s := onCluster(t, 1, "hashed").inBuckets()
	const number = 7
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	var made []events.Event
	for i := range number {
		at := begin.Add(time.Duration(i) * time.Second).UnixMilli()
		made = append(made, events.Event{
			Key: []byte("k"), Value: fmt.Appendf(nil, `{"time":%d,"meta":"a","n":%d}`, at, i),
			Fate: events.Fate{Parts: []events.Part{{Reading: &events.Reading{Time: at, Meta: "a", Fields: bson.D{{Key: "n", Value: int32(i)}}}}}},
		})
	}
	s.storesWith(made, number, 0, "EVENT_TIME_FORMAT", "unix_ms")
	s.copyToAnotherShard(bson.D{{Key: timeseries.FieldMeta, Value: "a"}})
	code, out := s.run("verify")
	if want := fmt.Sprintf("%d doubled", number); code == 0 || !strings.Contains(out, want) {
		t.Errorf(check.Verdict+"verify ended with code %d, want %q in:\n%s", code, want, out)
	}
	if code, out := s.run("verify", "--repair", "--yes"); code == 0 || !strings.Contains(out, "the copies differ") || s.measurements() != 2*number {
		t.Errorf(check.Verdict+"the repair of copies with different metas ended with code %d, and %d measurements are stored:\n%s", code, s.measurements(), out)
	}
}

// copyToAnotherShard inserts a copy of a bucket with the same _id. Its meta is one whose chunk is on another shard.
func (s *stream) copyToAnotherShard(bucket bson.D) {
	s.t.Helper()
	buckets := s.collection(timeseries.BucketsSuffix)
	var d bson.D
	if err := buckets.FindOne(within(s.t, time.Minute), bucket).Decode(&d); err != nil {
		s.t.Fatal(err)
	}
	at := slices.IndexFunc(d, func(e bson.E) bool { return e.Key == timeseries.FieldMeta })
	for i := range 100 {
		d[at].Value = fmt.Sprint("another ", i)
		_, err := buckets.InsertOne(within(s.t, time.Minute), d)
		if err == nil {
			return
		}
		if !mongo.IsDuplicateKeyError(err) {
			s.t.Fatal(err)
		}
	}
	s.t.Fatal("no meta is on another shard")
}

// limitChunks sets the size of the largest chunk that the cluster moves, in MB, and whether it splits larger ones by itself. Zero
// means the default size. Routers read the settings every ten seconds.
func (c *cluster) limitChunks(ctx context.Context, megabytes int, splits bool) error {
	settings := c.collection("").Database().Client().Database("config").Collection("settings")
	set := func(id string, fields bson.D) error {
		_, err := settings.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$set", Value: fields}}, options.UpdateOne().SetUpsert(true))
		return err
	}
	err := set("autosplit", bson.D{{Key: "enabled", Value: splits}})
	if megabytes > 0 {
		err = errors.Join(err, set("chunksize", bson.D{{Key: "value", Value: megabytes}}))
	} else {
		_, failed := settings.DeleteOne(ctx, bson.D{{Key: "_id", Value: "chunksize"}})
		err = errors.Join(err, failed)
	}
	if err != nil {
		return fmt.Errorf("setting the size of chunks: %w", err)
	}
	return nil
}

// countsOf counts documents on each shard directly, without the router. The counts therefore include copies that a moved chunk
// left behind.
func (c *cluster) countsOf(ctx context.Context, of *mongo.Collection, filter any) (map[string]int64, error) {
	counts := map[string]int64{}
	for _, shard := range c.on.Shards {
		client, err := mongo.Connect(options.Client().SetHosts(c.on.Sets[shard]).SetReplicaSet(shard))
		if err != nil {
			return nil, err
		}
		counts[shard], err = client.Database(of.Database().Name()).Collection(of.Name()).CountDocuments(ctx, filter)
		if closed := client.Disconnect(context.WithoutCancel(ctx)); err == nil {
			err = closed
		}
		if err != nil {
			return nil, fmt.Errorf("counting documents on the shard %s: %w", shard, err)
		}
	}
	return counts, nil
}
