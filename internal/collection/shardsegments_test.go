package collection_test

import (
	"encoding/binary"
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

// chunked is a cluster with chunks that it splits and moves.
type chunked struct {
	*cluster
	t      *testing.T
	shards []string
	chunks []chunkOf
	moved  int
	until  int // number of commands until one fails. Zero means that none fails.
	zones  []chunkOf
	zoned  []string // the shards of the zones
	busy   int      // number of moves that conflict with the balancer
	large  int      // number of different metas of a chunk that is too large to be moved. Zero means that no chunk is.
}

// onChunks opens a database on a cluster of shards, with a time series that may have segments.
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
			_, inZone := command.Lookup("filter", "tags").StringValueOK()
			for _, name := range f.shards {
				if !inZone || slices.Contains(f.zoned, name) {
					all = append(all, bson.D{{Key: "_id", Value: name}})
				}
			}
			return mongodbtest.CursorOf(all...)
		case "chunks":
			return mongodbtest.CursorOf(found(f.chunks, command.Lookup("filter").Document())...)
		case "tags":
			if ns := command.Lookup("filter", "ns").StringValue(); ns != "db.events.buckets" {
				t.Errorf("the zones of %s are read", ns)
			}
			return mongodbtest.CursorOf(found(f.zones, command.Lookup("filter").Document())...)
		}
		return find(command)
	})
	shard := c.Answers["shardCollection"]
	c.Answer("shardCollection", func(command bson.Raw) bson.D {
		f.chunks = []chunkOf{{keyOf(bson.MinKey{}), keyOf(bson.MaxKey{}), shards[0]}}
		return shard(command)
	})
	c.Answer("split", func(command bson.Raw) bson.D {
		if bounds, ok := command.Lookup("bounds").ArrayOK(); ok { // the median of what the chunk holds
			from, before := routeOf(bounds.Index(0).Document()), routeOf(bounds.Index(1).Document())
			return f.changed(f.split(marshal(bson.D{{Key: "meta", Value: timeseries.SegmentMeta((from + before) / 2)}, {Key: "control.min.time", Value: bson.DateTime(5)}})))
		}
		return f.changed(f.split(command.Lookup("middle").Document()))
	})
	c.Answer("moveChunk", func(command bson.Raw) bson.D {
		if f.busy > 0 {
			f.busy--
			return mongodbtest.Failing(117, "this shard is currently donating a chunk")(nil)
		}
		bounds := command.Lookup("bounds").Array()
		if f.large > 0 && routeOf(bounds.Index(1).Document())-routeOf(bounds.Index(0).Document()) >= f.large {
			return mongodbtest.Failing(153, "the maximum number of documents for a chunk is 4")(nil)
		}
		return f.changed(f.move(command))
	})
	return f, d
}

// routeOf returns the number of the meta in the key of a segment.
func routeOf(key bson.Raw) int {
	_, data := key.Lookup("meta").Binary()
	return int(binary.BigEndian.Uint16(data[len(data)-2:]))
}

func keyOf(bound any) bson.Raw {
	return marshal(bson.D{{Key: "meta", Value: bound}, {Key: "control.min.time", Value: bound}})
}

// compareKeys orders keys like MongoDB.
func compareKeys(a, b bson.Raw) int {
	return timeseries.Compare(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: a}, bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: b})
}

// found returns the chunks or zones whose minimum and maximum match a filter.
func found(chunks []chunkOf, filter bson.Raw) (all []any) {
	for _, c := range chunks {
		meets := true
		for name, bound := range map[string]bson.Raw{"min": c.min, "max": c.max} {
			condition, _ := filter.Lookup(name).DocumentOK()
			for _, operator := range [...]string{"$eq", "$gte", "$gt", "$lt"} {
				if other, ok := condition.Lookup(operator).DocumentOK(); ok {
					order := compareKeys(bound, other)
					meets = meets && map[string]bool{"$eq": order == 0, "$gte": order >= 0, "$gt": order > 0, "$lt": order < 0}[operator]
				}
			}
		}
		if meets {
			all = append(all, bson.D{{Key: "min", Value: c.min}, {Key: "max", Value: c.max}, {Key: "shard", Value: c.shard}, {Key: "tag", Value: c.shard}})
		}
	}
	return all
}

// changed answers a command, which may be one that must fail.
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

// shardOf returns the shard of a document.
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

// TestARangedKeySpreadsSegments checks that each shard gets its part of the segments, and that no series moves. The next command
// continues after a failure.
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
		// A shard that is added later gets its part with the same command.
		f.shards = append(f.shards, "new")
		if _, state, err := events.Shardable(t.Context(), false); err != nil || state != collection.SegmentsUneven {
			t.Errorf("with a new shard: %v, %v", state, err)
		}
		if s, err := events.Sharding(t.Context()); err != nil || !s.Uneven {
			t.Errorf("with a new shard: %+v, %v", s, err)
		}
		for f.until = 1; ; f.until = 2 { // the first command, and then each second one, fails
			err := events.Shard(t.Context(), false)
			if err == nil {
				break
			}
			if _, state, err := events.Shardable(t.Context(), false); err != nil || state != collection.SegmentsUneven {
				t.Errorf("with a new shard, interrupted: %v, %v", state, err)
			}
		}
		if _, state, err := events.Shardable(t.Context(), false); err != nil || state != collection.Sharded {
			t.Errorf("with a new shard: %v, %v", state, err)
		}
		counts = map[string]int{}
		for i := range timeseries.SegmentRoutes {
			counts[f.shardOf(timeseries.SegmentMeta(i))]++
		}
		for _, name := range f.shards {
			if equal := timeseries.SegmentRoutes / len(f.shards); counts[name] < equal || counts[name] > equal+1 {
				t.Errorf("%+v with a new shard: %v", c, counts)
			}
		}
	}
}

// TestChunksThatAreDividedMeanwhileAreFoundAgain has a MongoDB 5.0, which divides a chunk while another one is being moved. The
// router then finds no chunk with the former bounds, and answers without a code.
func TestChunksThatAreDividedMeanwhileAreFoundAgain(t *testing.T) {
	f, d := onChunks(t, "s0", "s1")
	at := func(route int) bson.Raw {
		return marshal(bson.D{{Key: "meta", Value: timeseries.SegmentMeta(route)}, {Key: "control.min.time", Value: bson.DateTime(1)}})
	}
	shard, move := f.Answers["shardCollection"], f.Answers["moveChunk"]
	f.Answer("shardCollection", func(command bson.Raw) bson.D {
		answer := shard(command)
		f.split(at(2500))
		f.split(at(3000))
		return answer
	})
	f.Answer("moveChunk", func(command bson.Raw) bson.D {
		before := f.moved
		answer := move(command)
		if f.moved == before {
			return mongodbtest.Failing(0, "no chunk found with the shard key bounds")(nil)
		}
		if before == 0 {
			f.split(at(3200))
		}
		return answer
	})
	events := collection.Of(d, "events")
	if err := events.Shard(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if _, state, err := events.Shardable(t.Context(), false); err != nil || state != collection.Sharded {
		t.Errorf("%v, %v", state, err)
	}
}

// TestLargeChunksAreDivided checks that segments that MongoDB cannot move in one piece are moved in several.
func TestLargeChunksAreDivided(t *testing.T) {
	for _, fails := range []int{0, 4} {
		f, d := onChunks(t, "s0", "s1", "s2")
		f.large, f.until = timeseries.SegmentRoutes/10, fails
		events := collection.Of(d, "events")
		err := events.Shard(t.Context(), false)
		if fails > 0 {
			if err == nil {
				t.Error("no command failed")
			}
			f.until = 0
			err = events.Shard(t.Context(), false)
		}
		if _, state, failure := events.Shardable(t.Context(), false); err != nil || failure != nil || state != collection.Sharded {
			t.Errorf("%v, %v, %v", err, state, failure)
		}
		if f.moved != 8 { // two parts, each divided twice
			t.Errorf("%d chunks were moved", f.moved)
		}
	}
}

// TestMergedChunksAreEven has a MongoDB 7.0, which merges a chunk of segments with its neighbour on the same shard. The shard has
// its segments all the same.
func TestMergedChunksAreEven(t *testing.T) {
	f, d := onChunks(t, "s0", "s1")
	events := collection.Of(d, "events")
	if err := events.Shard(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if f.chunks[0].shard != "s0" || f.chunks[1].shard != "s0" {
		t.Fatalf("%v", f.chunks)
	}
	f.chunks = slices.Replace(f.chunks, 0, 2, chunkOf{f.chunks[0].min, f.chunks[1].max, "s0"})
	if s, err := events.Sharding(t.Context()); err != nil || s.Uneven {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestTheBalancerIsWaitedFor checks this because MongoDB moves one chunk of a shard at a time.
func TestTheBalancerIsWaitedFor(t *testing.T) {
	f, d := onChunks(t, "s0", "s1")
	f.busy = 1
	if err := collection.Of(d, "events").Shard(t.Context(), false); err != nil || f.moved != 1 {
		t.Errorf("%d chunks moved: %v", f.moved, err)
	}
}

// TestZonesHaveTheSegments checks that each shard of a zone with all segments gets a part. If zones divide the segments, nothing
// moves.
func TestZonesHaveTheSegments(t *testing.T) {
	zone := func(min, max any) chunkOf {
		return chunkOf{
			marshal(bson.D{{Key: "meta", Value: min}, {Key: "control.min.time", Value: bson.MinKey{}}}),
			marshal(bson.D{{Key: "meta", Value: max}, {Key: "control.min.time", Value: bson.MaxKey{}}}), "zone",
		}
	}
	least, most := timeseries.SegmentMeta(0), timeseries.SegmentMeta(timeseries.SegmentRoutes-1)
	for name, c := range map[string]struct {
		zone  chunkOf
		zoned []string
		moved int
		on    []any // the shards of the first and the last segment
	}{
		"of one shard":        {zone(least, most), []string{"s0"}, 0, []any{"s0", "s0"}},
		"of two shards":       {zone(bson.MinKey{}, bson.MaxKey{}), []string{"s0", "s2"}, 1, []any{"s0", "s2"}},
		"of some segments":    {zone(least, timeseries.SegmentMeta(9)), []string{"s0", "s2"}, 0, []any{"s0", "s0"}},
		"of a site elsewhere": {zone(bson.D{{Key: "site", Value: "eu"}}, bson.D{{Key: "site", Value: "ev"}}), []string{"s0"}, 2, []any{"s0", "s2"}},
	} {
		f, d := onChunks(t, "s0", "s1", "s2")
		f.zones, f.zoned = []chunkOf{c.zone}, c.zoned
		events := collection.Of(d, "events")
		if err := events.Shard(t.Context(), false); err != nil || f.moved != c.moved || f.shardOf(least) != c.on[0] || f.shardOf(most) != c.on[1] {
			t.Errorf("%s: %d chunks moved: %v, %v", name, f.moved, f.chunks, err)
		}
		if s, err := events.Sharding(t.Context()); err != nil || s.Uneven {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}
