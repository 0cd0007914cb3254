package collection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// spreading gives each shard, or each shard of a zone, an equal part of the metas of segments, if the key is ranged. A cluster
// begins with one chunk. It would split and move this chunk much later than segments are deleted. A hashed key spreads segments
// by itself.
type spreading struct {
	t       TimeSeries
	options timeseries.Options
	chunks  bson.D // filter of the chunks of the collection
}

func (t TimeSeries) spreading(o timeseries.Options, have Sharding) spreading {
	return spreading{t, o, have.chunks}
}

// isUneven reports whether segments of the collection have a ranged key, and lie otherwise than a method of spreading wants.
func (t TimeSeries) isUneven(ctx context.Context, have Sharding, wanted func(spreading, context.Context) (bool, error)) (bool, error) {
	definition, err := ReadDefinition(ctx, t.Ports().Options)
	switch {
	case errors.Is(err, ErrNotSetUp):
		return false, nil
	case err != nil || !definition.Segments || !equalKeys(have.Key, ShardKey(definition.Options, false)):
		return false, err
	}
	even, err := wanted(t.spreading(definition.Options, have), ctx)
	return !even && err == nil, err
}

// chunk is a part of a sharded collection, from Min on and before Max.
type chunk struct {
	Min   bson.Raw `bson:"min"`
	Max   bson.Raw `bson:"max"`
	Shard string   `bson:"shard"`
}

// reachesAll reports whether each shard that should have segments has some. A chunk may hold more than segments, because MongoDB
// 7.0 merges neighbours on one shard by itself.
func (s spreading) reachesAll(ctx context.Context) (bool, error) {
	shards, chunks, err := s.now(ctx)
	return !slices.ContainsFunc(shards, func(shard string) bool {
		return !slices.ContainsFunc(chunks, func(c chunk) bool { return c.Shard == shard })
	}), err
}

// isDone reports whether each shard that should have segments has exactly the part that spread gives it.
func (s spreading) isDone(ctx context.Context) (bool, error) {
	shards, chunks, err := s.now(ctx)
	borders := s.borders(len(shards))
	return !slices.ContainsFunc(chunks, func(c chunk) bool {
		for i, shard := range shards {
			if c.Shard != shard && c.overlaps(borders[i], borders[i+1]) {
				return true
			}
		}
		return false
	}), err
}

// now returns the shards that should have segments, and the chunks that have some. A single shard has nothing to spread, and
// counts as none.
func (s spreading) now(ctx context.Context) (shards []string, chunks []chunk, err error) {
	if shards, err = s.shards(ctx); err != nil || len(shards) < 2 {
		return nil, nil, err
	}
	chunks, err = s.having(ctx, s.overlapping()...)
	return shards, chunks, err
}

// equals reports whether two chunks are the same, on the same shard.
func (c chunk) equals(o chunk) bool {
	return bytes.Equal(c.Min, o.Min) && bytes.Equal(c.Max, o.Max) && c.Shard == o.Shard
}

// overlaps reports whether the chunk has keys from one border on and before the next.
func (c chunk) overlaps(from, before bson.D) bool {
	return compareKeys(c.Min, mongodb.Document(before)) < 0 && compareKeys(mongodb.Document(from), c.Max) < 0
}

// The balancer may be moving a chunk of a shard. MongoDB then refuses to move another one.
const (
	moveTries = 60
	moveRetry = 2 * time.Second
)

// carryOut spreads segments. While the balancer moves chunks it waits, and then continues with the present chunks. It also
// continues if the chunks have changed meanwhile, because MongoDB or another command has divided or moved one of them.
func (s spreading) carryOut(ctx context.Context) error {
	for try := 1; ; try++ {
		before, err := s.having(ctx, s.overlapping()...)
		if err != nil {
			return err
		}
		if err = s.spread(ctx); err == nil {
			return nil
		}
		after, failed := s.having(ctx, s.overlapping()...)
		_, refused := errors.AsType[*mongodb.RefusedError](err)
		busy := mongodb.HasCode(err, mongodb.CodeLockBusy, mongodb.CodeConflictingOperation)
		switch {
		case failed != nil || refused || !busy && slices.EqualFunc(before, after, chunk.equals):
			return err
		case try == moveTries:
			return fmt.Errorf("%w: the balancer is moving chunks; run the command again when the balancer has finished", err)
		}
		if err := sleep(ctx, moveRetry); err != nil {
			return err
		}
	}
}

// spread splits chunks at the borders of the parts and moves each to its shard. A repeated call does what is missing.
func (s spreading) spread(ctx context.Context) error {
	shards, err := s.shards(ctx)
	if err != nil || len(shards) < 2 {
		return err
	}
	borders := s.borders(len(shards))
	for _, border := range borders {
		if err := s.split(ctx, border); err != nil {
			return err
		}
	}
	for i, shard := range shards {
		if err := s.move(ctx, borders[i], borders[i+1], shard); err != nil {
			return err
		}
	}
	return nil
}

// move moves the chunks from one border on and before the next to a shard. A chunk may be too large to be moved. MongoDB then
// divides it at the median of its keys, and each half is moved, or divided again.
func (s spreading) move(ctx context.Context, from, before bson.D, to string) error {
	chunks, err := s.having(ctx, bson.E{Key: "min", Value: bson.D{{Key: "$gte", Value: from}, {Key: "$lt", Value: before}}})
	for len(chunks) > 0 && err == nil {
		c := chunks[0]
		if chunks = chunks[1:]; c.Shard == to {
			continue
		}
		of, bounds := s.t.bucketsNamespace(), bson.A{c.Min, c.Max}
		err = s.run(ctx, bson.D{{Key: "moveChunk", Value: of}, {Key: "bounds", Value: bounds}, {Key: "to", Value: to}})
		if !mongodb.HasCode(err, mongodb.CodeChunkTooBig) {
			err = mongodb.Failure("moving segments to "+to, err)
			continue
		}
		if err = s.command(ctx, "dividing a large chunk of segments", bson.D{{Key: "split", Value: of}, {Key: "bounds", Value: bounds}}); err == nil {
			var parts []chunk
			parts, err = s.having(ctx, bson.E{Key: "min", Value: bson.D{{Key: "$gte", Value: c.Min}, {Key: "$lt", Value: c.Max}}})
			chunks = append(parts, chunks...)
		}
	}
	return err
}

// borders returns where the parts of segments begin, and where the last one ends.
func (s spreading) borders(parts int) []bson.D {
	key := func(meta bson.RawValue, least any) bson.D {
		return bson.D{{Key: timeseries.FieldMeta, Value: meta}, {Key: timeseries.MinPath(s.options.TimeField), Value: least}}
	}
	var all []bson.D
	for i := range parts {
		all = append(all, key(timeseries.SegmentMeta(i*timeseries.SegmentRoutes/parts), bson.MinKey{}))
	}
	return append(all, key(timeseries.SegmentMeta(timeseries.SegmentRoutes-1), bson.MaxKey{}))
}

// overlapping returns the condition that a chunk, or the range of a zone, has keys of segments.
func (s spreading) overlapping() bson.D {
	ends := s.borders(1)
	return bson.D{{Key: "min", Value: bson.D{{Key: "$lt", Value: ends[1]}}}, {Key: "max", Value: bson.D{{Key: "$gt", Value: ends[0]}}}}
}

// shards returns the names of the shards that should have segments. These are all shards that take chunks, or those of the zone
// that has all segments. If zones cover only some segments, it returns none, because the operator who made the zones has chosen
// their shards.
func (s spreading) shards(ctx context.Context) ([]string, error) {
	var zones []zone
	if err := s.all(ctx, "tags", append(bson.D{{Key: "ns", Value: s.t.bucketsNamespace()}}, s.overlapping()...), &zones); err != nil {
		return nil, err
	}
	filter := bson.D{{Key: "draining", Value: bson.D{{Key: "$ne", Value: true}}}}
	if len(zones) > 0 {
		if !zones[0].covers(s.borders(1)) {
			return nil, nil
		}
		filter = append(filter, bson.E{Key: "tags", Value: zones[0].Tag})
	}
	var shards []struct {
		Name string `bson:"_id"`
	}
	err := s.all(ctx, "shards", filter, &shards)
	names := make([]string, len(shards))
	for i := range shards {
		names[i] = shards[i].Name
	}
	slices.Sort(names)
	return names, err
}

// zone is a range of keys that is reserved for some shards.
type zone struct {
	Min bson.Raw `bson:"min"`
	Max bson.Raw `bson:"max"`
	Tag string   `bson:"tag"`
}

// covers reports whether all keys from the first border to the last lie in the zone.
func (z zone) covers(borders []bson.D) bool {
	return compareKeys(z.Min, mongodb.Document(borders[0])) <= 0 && compareKeys(mongodb.Document(borders[len(borders)-1]), z.Max) <= 0
}

// compareKeys orders shard keys as MongoDB does.
func compareKeys(a, b bson.Raw) int {
	return timeseries.Compare(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: a}, bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: b})
}

// having returns the chunks that meet conditions.
func (s spreading) having(ctx context.Context, conditions ...bson.E) (chunks []chunk, err error) {
	err = s.all(ctx, "chunks", append(slices.Clone(s.chunks), conditions...), &chunks)
	return chunks, err
}

// split splits a chunk so that one begins at this key.
func (s spreading) split(ctx context.Context, at bson.D) error {
	there, err := s.having(ctx, bson.E{Key: "min", Value: bson.D{{Key: "$eq", Value: at}}})
	if err != nil || len(there) > 0 {
		return err
	}
	return s.command(ctx, "splitting the chunk of segments", bson.D{{Key: "split", Value: s.t.bucketsNamespace()}, {Key: "middle", Value: at}})
}

// all reads the cluster's own metadata.
func (s spreading) all(ctx context.Context, of string, filter bson.D, into any) error {
	cursor, err := s.t.config(of).Find(ctx, filter)
	if err == nil {
		err = cursor.All(ctx, into)
	}
	return mongodb.Failure("reading the chunks and zones of segments", s.t.db.Translate(err))
}

func (s spreading) command(ctx context.Context, operation string, command bson.D) error {
	return mongodb.Failure(operation, s.run(ctx, command))
}

func (s spreading) run(ctx context.Context, command bson.D) error {
	return s.t.db.Translate(s.t.admin().RunCommand(ctx, command).Err())
}
