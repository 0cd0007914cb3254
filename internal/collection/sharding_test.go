package collection_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
)

// cluster is a router whose answers say how a collection is sharded.
type cluster struct {
	*mongodbtest.Fake
	definition bson.Raw
	key        bson.D // Nil means not sharded.
	buckets    []any  // found by every query
}

// onCluster opens a database behind a router, with a time series.
func onCluster(t *testing.T, hello bson.D) (*cluster, *mongodb.Database) {
	t.Helper()
	f := mongodbtest.NewFake(t, hello)
	for _, name := range []string{"find", "listCollections"} {
		f.Answer(name, mongodbtest.EmptyCursor)
	}
	f.Answer("insert", mongodbtest.Counting(1))
	f.Answer("createIndexes", func(bson.Raw) bson.D { return bson.D{} })
	d := mongodbtest.Open(t, f)
	if _, err := collection.Of(d, "events").Setup(t.Context(), definition, collection.Settings{}); err != nil {
		t.Fatal(err)
	}
	c := &cluster{Fake: f, definition: f.Sent("insert")[0].Lookup("documents").Array().Index(0).Document()}
	f.Answer("find", func(command bson.Raw) bson.D {
		switch command.Index(0).Value().StringValue() {
		case "events.options":
			return mongodbtest.CursorOf(c.definition)
		case "collections":
			if c.key == nil || command.Lookup("filter", "_id").StringValue() != "db.events.buckets" || command.Lookup("$db").StringValue() != "config" {
				return mongodbtest.CursorOf()
			}
			return mongodbtest.CursorOf(bson.D{{Key: "_id", Value: "db.events.buckets"}, {Key: "key", Value: c.key}, {Key: "uuid", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}}})
		case "events.buckets":
			return mongodbtest.CursorOf(c.buckets...)
		}
		return mongodbtest.CursorOf()
	})
	f.Answer("aggregate", func(bson.Raw) bson.D {
		return mongodbtest.CursorOf(bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 3}}, bson.D{{Key: "_id", Value: "b"}, {Key: "n", Value: 1}})
	})
	f.Answer("enableSharding", func(bson.Raw) bson.D { return bson.D{} })
	f.Answer("shardCollection", func(command bson.Raw) bson.D {
		if err := bson.Unmarshal(command.Lookup("key").Document(), &c.key); err != nil {
			t.Error(err)
		}
		return bson.D{}
	})
	return c, d
}

func TestShardingIsRead(t *testing.T) {
	_, none := onCluster(t, mongodbtest.ReplicaSet)
	if s, err := collection.Of(none, "events").Sharding(t.Context()); err != nil || s.Router || s.Key != nil {
		t.Errorf("a replica set: %+v, %v", s, err)
	}
	c, d := onCluster(t, mongodbtest.Router)
	if s, err := collection.Of(d, "events").Sharding(t.Context()); err != nil || !s.Router || s.Key != nil || len(s.Chunks) != 0 {
		t.Errorf("not sharded: %+v, %v", s, err)
	}
	for name, one := range map[string]struct {
		key     bson.D
		text    string
		unnamed []string
	}{
		"ours":         {bson.D{{Key: "meta", Value: 1}, {Key: "control.min.time", Value: 1}}, `{"meta": 1, "control.min.time": 1}`, nil},
		"ours, hashed": {bson.D{{Key: "meta", Value: "hashed"}, {Key: "control.min.time", Value: 1}}, `{"meta": "hashed", "control.min.time": 1}`, nil},
		"of the _id":   {bson.D{{Key: "_id", Value: "hashed"}}, `{"_id": "hashed"}`, nil},
		"within meta":  {bson.D{{Key: "meta.site", Value: 1.0}}, `{"meta.site": 1}`, []string{"meta.site"}},
		"foreign": {
			bson.D{{Key: "meta", Value: 1}, {Key: "control.max.time", Value: 1}, {Key: "metas", Value: 1}},
			`{"meta": 1, "control.max.time": 1, "metas": 1}`,
			[]string{"control.max.time", "metas"},
		},
	} {
		c.key = one.key
		s, err := collection.Of(d, "events").Sharding(t.Context())
		if text := collection.KeyText(s.Key); text != one.text {
			t.Errorf("%s: %s, want %s", name, text, one.text)
		}
		if err != nil || !slices.Equal(s.Unnamed("time"), one.unnamed) {
			t.Errorf("%s: %+v, %v, %v", name, s, s.Unnamed("time"), err)
		}
		if want := []collection.ShardChunks{{Shard: "a", Chunks: 3}, {Shard: "b", Chunks: 1}}; !slices.Equal(s.Chunks, want) {
			t.Errorf("%s: %+v", name, s.Chunks)
		}
	}
}

func TestShardMakesTheIndexFirst(t *testing.T) {
	for _, hashed := range []bool{false, true} {
		c, d := onCluster(t, mongodbtest.Router)
		if hashed { // since 6.0 the command may be removed some day
			c.Answer("enableSharding", mongodbtest.Failing(59, "no such command: 'enableSharding'"))
		} else { // and it needs a right that nothing else needs
			c.Answer("enableSharding", mongodbtest.Failing(13, "not authorized on admin to execute command { enableSharding: \"db\" }"))
		}
		var order []string
		for _, name := range []string{"createIndexes", "shardCollection"} {
			before := c.Answers[name]
			c.Answer(name, func(command bson.Raw) bson.D {
				order = append(order, mongodbtest.NameOf(command))
				return before(command)
			})
		}
		for range 2 {
			if err := collection.Of(d, "events").Shard(t.Context(), hashed); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(order, []string{"createIndexes", "shardCollection"}) {
			t.Errorf("commands: %v", order)
		}
		command := c.Last("shardCollection")
		if command.Index(0).Value().StringValue() != "db.events.buckets" || command.Lookup("$db").StringValue() != "admin" {
			t.Errorf("%v", command)
		}
		kind, _ := command.Lookup("key", "meta").StringValueOK()
		if (kind == "hashed") != hashed || command.Lookup("key", "control.min.time").Type == 0 {
			t.Errorf("%v", command)
		}
		if _, state, err := collection.Of(d, "events").Shardable(t.Context(), hashed); state != collection.Sharded || err != nil {
			t.Errorf("afterwards: %v, %v", state, err)
		}
		if _, _, err := collection.Of(d, "events").Shardable(t.Context(), !hashed); err == nil || !strings.Contains(err.Error(), "already sharded") {
			t.Errorf("by another key: %v", err)
		}
	}
}

func TestShardRefuses(t *testing.T) {
	array := bson.D{{Key: "_id", Value: bson.ObjectID{7}}, {Key: "meta", Value: bson.A{"x"}}}
	for name, one := range map[string]struct {
		hello  bson.D
		change func(c *cluster)
		want   error
		says   string
	}{
		"without a router": {mongodbtest.ReplicaSet, func(*cluster) {}, collection.ErrNoRouter, "mongos"},
		"an array as meta": {mongodbtest.Router, func(c *cluster) { c.buckets = []any{array} }, collection.ErrArrayMetas, `the bucket {"$oid":"07`},
		"no time series":   {mongodbtest.Router, func(c *cluster) { c.Answer("find", mongodbtest.EmptyCursor) }, collection.ErrNotSetUp, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, d := onCluster(t, one.hello)
			one.change(c)
			err := collection.Of(d, "events").Shard(t.Context(), false)
			if !errors.Is(err, one.want) || !strings.Contains(err.Error(), one.says) {
				t.Errorf("%v", err)
			}
			if len(c.Sent("shardCollection")) > 0 {
				t.Error("it is sharded all the same")
			}
		})
	}
}

// TestExpiryReachesAllShards repeats a change of the expiry that only one shard has executed. It is the shard whose indexes a
// router lists.
func TestExpiryReachesAllShards(t *testing.T) {
	c, d := onCluster(t, mongodbtest.Router)
	c.key = bson.D{{Key: "meta", Value: "hashed"}, {Key: "control.min.time", Value: 1}}
	c.definition = marshal(merged(decoded(t, c.definition), bson.D{{Key: "expireAfterSeconds", Value: int64(3600)}}))
	listed, other, down := int64(7200), int64(7200), true
	c.Answer("listIndexes", func(bson.Raw) bson.D {
		return mongodbtest.CursorOf(bson.D{{Key: "v", Value: 2}, {Key: "key", Value: bson.D{{Key: "control.min.time", Value: 1}}}, {Key: "name", Value: "control.min.time_1"}, {Key: "expireAfterSeconds", Value: listed}})
	})
	c.Answer("update", mongodbtest.Counting(1))
	c.Answer("collMod", func(command bson.Raw) bson.D {
		seconds, ok := command.Lookup("index", "expireAfterSeconds").AsInt64OK()
		if !ok || command.Lookup("index", "name").StringValue() != "control.min.time_1" {
			return bson.D{}
		}
		listed = seconds
		if down && seconds != 7200 {
			return mongodbtest.Failing(133, "Could not find host matching read preference { mode: \"primary\" } for set shard1")(nil)
		}
		other = seconds
		return bson.D{}
	})
	events := collection.Of(d, "events")
	if _, _, err := events.SetExpiry(t.Context(), 90*24*3600); err == nil {
		t.Error("a change that one shard has not executed succeeds")
	}
	down = false
	_, after, err := events.SetExpiry(t.Context(), 90*24*3600)
	if want := int64(90*24*3600 + 3600); err != nil || after.ExpireAfterSeconds != 90*24*3600 || listed != want || other != want {
		t.Errorf("%v: the shards delete after %d and %d seconds", err, listed, other)
	}
}
