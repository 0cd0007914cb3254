package collection_test

import (
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
	"waterwheel/internal/timeseries"
)

// chunkOf is a chunk of a cluster.
type chunkOf struct {
	min, max bson.Raw
	shard    string
}

// chunked is a cluster with chunks, which it splits and moves.
type chunked struct {
	*cluster
	t      *testing.T
	shards []string
	chunks []chunkOf
	moved  int
	until  int // The command of this number fails, counted down. Zero means that none does.
}

// onChunks opens a database on a cluster of shards. Its time series may have segments.
func onChunks(t *testing.T, shards ...string) (*chunked, *mongodb.Database) {
	t.Helper()
	c, d := onCluster(t, mongodbtest.Router)
	definition := decoded(t, c.definition)
	c.definition = marshal(merged(definition, bson.D{{Key: "segments", Value: true}}))
	f := &chunked{cluster: c, t: t, shards: shards}
	find := c.Answers["find"]
	c.Answer("find", func(command bson.Raw) bson.D {
		switch command.Index(0).Value().StringValue() {
		case "shards":
			all := []any{}
			for _, name := range f.shards {
				all = append(all, bson.D{{Key: "_id", Value: name}})
			}
			return mongodbtest.CursorOf(all...)
		case "chunks":
			return mongodbtest.CursorOf(f.found(command.Lookup("filter", "min").Document())...)
		}
		return find(command)
	})
	shard := c.Answers["shardCollection"]
	c.Answer("shardCollection", func(command bson.Raw) bson.D {
		f.chunks = []chunkOf{{keyOf(bson.MinKey{}), keyOf(bson.MaxKey{}), shards[0]}}
		return shard(command)
	})
	c.Answer("split", func(command bson.Raw) bson.D { return f.changed(f.split(command.Lookup("middle").Document())) })
	c.Answer("moveChunk", func(command bson.Raw) bson.D { return f.changed(f.move(command)) })
	return f, d
}

func keyOf(bound any) bson.Raw {
	return marshal(bson.D{{Key: "meta", Value: bound}, {Key: "control.min.time", Value: bound}})
}

// compareKeys orders keys as MongoDB does.
func compareKeys(a, b bson.Raw) int {
	return timeseries.Compare(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: a}, bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: b})
}

// found are the chunks whose minimum meets a condition.
func (f *chunked) found(condition bson.Raw) (all []any) {
	for _, c := range f.chunks {
		meets := true
		for _, operator := range [...]string{"$eq", "$gte", "$lt"} {
			if bound, ok := condition.Lookup(operator).DocumentOK(); ok {
				order := compareKeys(c.min, bound)
				meets = meets && map[string]bool{"$eq": order == 0, "$gte": order >= 0, "$lt": order < 0}[operator]
			}
		}
		if meets {
			all = append(all, bson.D{{Key: "min", Value: c.min}, {Key: "max", Value: c.max}, {Key: "shard", Value: c.shard}})
		}
	}
	return all
}

// changed answers a command, which may be one of those that fail.
func (f *chunked) changed(ok bool) bson.D {
	if !ok {
		return mongodbtest.Failing(20, "the chunk cannot be changed so")(nil)
	}
	return bson.D{}
}

func (f *chunked) failing() bool {
	f.until--
	return f.until == 0
}

func (f *chunked) split(at bson.Raw) bool {
	i := slices.IndexFunc(f.chunks, func(c chunkOf) bool { return compareKeys(c.min, at) < 0 && compareKeys(at, c.max) < 0 })
	if i < 0 || f.failing() {
		return false
	}
	c := f.chunks[i]
	f.chunks = slices.Replace(f.chunks, i, i+1, chunkOf{c.min, at, c.shard}, chunkOf{at, c.max, c.shard})
	return true
}

func (f *chunked) move(command bson.Raw) bool {
	bounds := command.Lookup("bounds").Array()
	for i, c := range f.chunks {
		if slices.Equal(c.min, bounds.Index(0).Document()) && slices.Equal(c.max, bounds.Index(1).Document()) && !f.failing() {
			f.chunks[i].shard = command.Lookup("to").StringValue()
			f.moved++
			return true
		}
	}
	return false
}

// shardOf is where a document lies.
func (f *chunked) shardOf(meta any) string {
	key := marshal(bson.D{{Key: "meta", Value: meta}, {Key: "control.min.time", Value: bson.DateTime(1.8e12)}})
	for _, c := range f.chunks {
		if compareKeys(c.min, key) <= 0 && compareKeys(key, c.max) < 0 {
			return c.shard
		}
	}
	f.t.Fatal("no chunk has", key)
	return ""
}

// TestARangedKeySpreadsSegments: each shard gets its part of the segments, and no series. What fails goes on with the next command.
func TestARangedKeySpreadsSegments(t *testing.T) {
	for _, c := range []struct{ shards, fails int }{{1, 0}, {2, 0}, {3, 0}, {3, 2}, {7, 0}, {7, 3}} {
		var names []string
		for i := range c.shards {
			names = append(names, fmt.Sprintf("s%d", i))
		}
		f, d := onChunks(t, names...)
		events := collection.Of(d, "events")
		for try := range c.fails {
			f.until = try + 1
			if err := events.Shard(t.Context(), false); err == nil {
				t.Fatalf("%+v: no command failed the time %d", c, try)
			}
		}
		f.until = 0
		if err := events.Shard(t.Context(), false); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if _, state, err := events.Shardable(t.Context(), false); err != nil || state != collection.Sharded {
			t.Errorf("%+v: %v, %v", c, state, err)
		}
		counts := map[string]int{}
		for i := range timeseries.SegmentRoutes {
			counts[f.shardOf(timeseries.SegmentMeta(i))]++
		}
		for _, name := range names {
			if equal := timeseries.SegmentRoutes / c.shards; counts[name] < equal || counts[name] > equal+1 {
				t.Errorf("%+v: %v", c, counts)
			}
		}
		for _, meta := range []any{"s-17", bson.D{{Key: "sensor", Value: "s-17"}}, int32(5), bson.Binary{Data: []byte("x")}, true, bson.Binary{Data: make([]byte, 40)}} {
			if shard := f.shardOf(meta); shard != "s0" {
				t.Errorf("the series %v moved to %s", meta, shard)
			}
		}
		before := f.moved
		if err := events.Shard(t.Context(), false); err != nil || f.moved != before {
			t.Errorf("repeated: %v, %d chunks moved", err, f.moved-before)
		}
		// A shard that comes later gets its part by the same command.
		f.shards = append(f.shards, "new")
		if _, state, err := events.Shardable(t.Context(), false); err != nil || state != collection.SegmentsUneven {
			t.Errorf("with a new shard: %v, %v", state, err)
		}
		if s, err := events.Sharding(t.Context()); err != nil || !s.Uneven {
			t.Errorf("with a new shard: %+v, %v", s, err)
		}
		if err := events.Shard(t.Context(), false); err != nil {
			t.Error(err)
		}
		if _, state, err := events.Shardable(t.Context(), false); err != nil || state != collection.Sharded {
			t.Errorf("with a new shard: %v, %v", state, err)
		}
	}
}
