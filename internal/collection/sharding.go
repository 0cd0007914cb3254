package collection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// Sharding says how the buckets of a time series are spread over the shards of a cluster.
type Sharding struct {
	// Router means that the server is a router of a sharded cluster. Without one, no other field is set.
	Router bool
	// Key is the shard key. Nil means that the collection is not sharded.
	Key bson.Raw
	// Chunks counts the chunks of each shard, in the order of the names.
	Chunks []ShardChunks
	// Uneven means that segments do not lie on all shards. Shard spreads them.
	Uneven bool

	chunks bson.D // filter of the chunks of the collection
}

// ShardChunks is how many chunks of a collection a shard has.
type ShardChunks struct {
	Shard  string `bson:"_id" json:"shard"`
	Chunks int64  `bson:"n" json:"chunks"`
}

// Unnamed returns the fields of the shard key that updates and deletes of buckets do not name. A part of the meta is one of them,
// because the metas of segments and of some series do not have it.
func (s Sharding) Unnamed(timeField string) (fields []string) {
	elements, _ := s.Key.Elements()
	for _, e := range elements {
		switch path := e.Key(); {
		case path == timeseries.FieldID, path == timeseries.FieldMeta, path == timeseries.MinPath(timeField):
		default:
			fields = append(fields, path)
		}
	}
	return fields
}

// hashed is the kind of an index, or of a field of a shard key, that spreads the values.
const hashed = "hashed"

// ShardKey returns the shard key of the buckets of a time series. Each write of a bucket names the whole key. The key of a bucket
// never changes, unless a command changes the meta.
func ShardKey(o timeseries.Options, byHash bool) bson.D {
	key := o.SeriesIndex()
	if byHash {
		key[0].Value = hashed
	}
	return key
}

// KeyText returns a shard key in the notation of mongosh.
func KeyText(key bson.Raw) string {
	var fields []string
	elements, _ := key.Elements()
	for _, e := range elements {
		value := e.Value().String()
		if n, ok := e.Value().AsInt64OK(); ok {
			value = strconv.FormatInt(n, 10)
		}
		fields = append(fields, fmt.Sprintf("%q: %s", e.Key(), value))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// Sharding finds out how the buckets of the time series are sharded, and where its segments lie.
func (t TimeSeries) Sharding(ctx context.Context) (Sharding, error) {
	s, err := t.sharding(ctx)
	if err == nil && s.Key != nil {
		s.Uneven, err = t.isUneven(ctx, s, spreading.reachesAll)
	}
	return s, err
}

// sharding is Sharding without the place of segments.
func (t TimeSeries) sharding(ctx context.Context) (Sharding, error) {
	s := Sharding{Router: t.db.Server().Sharded, Chunks: []ShardChunks{}}
	if !s.Router {
		return s, nil
	}
	const operation = "reading how the collection is sharded"
	found, err := t.config("collections").FindOne(ctx, bson.D{
		{Key: timeseries.FieldID, Value: t.bucketsNamespace()}, // 4.4 keeps what was dropped; 7.1 lists what is not sharded
		{Key: "dropped", Value: bson.D{{Key: "$ne", Value: true}}}, {Key: "unsplittable", Value: bson.D{{Key: "$ne", Value: true}}},
	}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return s, nil
	}
	if err != nil {
		return s, mongodb.Failure(operation, t.db.Translate(err))
	}
	s.Key, _ = found.Lookup("key").DocumentOK()
	of := bson.A{bson.D{{Key: "ns", Value: t.bucketsNamespace()}}}
	if id := found.Lookup("uuid"); id.Type != 0 { // since 5.0 chunks have the uuid instead of the namespace
		of = append(of, bson.D{{Key: "uuid", Value: id}})
	}
	s.chunks = bson.D{{Key: "$or", Value: of}}
	s.Chunks, err = allOf[ShardChunks](ctx)(t.config("chunks").Aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: s.chunks}},
		bson.D{{Key: "$group", Value: bson.D{{Key: timeseries.FieldID, Value: "$shard"}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}},
		bson.D{{Key: "$sort", Value: bson.D{{Key: timeseries.FieldID, Value: 1}}}},
	}))
	return s, mongodb.Failure(operation, t.db.Translate(err))
}

// config returns a collection of the database in which a cluster keeps its own metadata.
func (t TimeSeries) config(name string) *mongo.Collection {
	return t.driver().Client().Database("config").Collection(name)
}

// Reasons why a time series cannot be sharded as asked.
var (
	ErrNoRouter   = errors.New("the servers in MONGODB_URI are not routers (mongos) of a sharded cluster: name the routers in MONGODB_URI")
	ErrSingle     = errors.New("the time series has no meta, so it is one series: a shard key on the meta cannot distribute it over shards")
	ErrArrayMetas = errors.New("a shard key cannot contain an array")
)

// ShardState is how far the sharding of a time series is.
type ShardState int

// The states.
const (
	NotSharded     ShardState = iota
	SegmentsUneven            // it is sharded, and some shard does not have its part of the segments
	Sharded
)

// Shardable finds out whether the time series can be sharded by ShardKey, and changes nothing.
func (t TimeSeries) Shardable(ctx context.Context, byHash bool) (o timeseries.Options, state ShardState, err error) {
	if !t.db.Server().Sharded {
		return o, state, ErrNoRouter
	}
	if o, _, err = t.Definition(ctx); err != nil {
		return o, state, err
	}
	if o.MetaField == "" {
		return o, state, ErrSingle
	}
	have, err := t.sharding(ctx)
	switch {
	case err != nil:
		return o, state, err
	case have.Key == nil:
		return o, state, t.series().refuseArrays(ctx)
	case !equalKeys(have.Key, ShardKey(o, byHash)):
		return o, state, fmt.Errorf("the collection is already sharded by %v: MongoDB 5.0 and later can change the shard key with reshardCollection", KeyText(have.Key))
	}
	uneven, err := t.isUneven(ctx, have, spreading.isDone)
	switch {
	case err != nil:
		return o, state, err
	case uneven:
		return o, SegmentsUneven, nil
	}
	return o, Sharded, nil
}

// equalKeys compares index keys. Their directions may have any type of number.
func equalKeys(have bson.Raw, want bson.D) bool {
	elements, err := have.Elements()
	return err == nil && slices.EqualFunc(elements, want, func(h bson.RawElement, w bson.E) bool {
		if kind, ok := w.Value.(string); ok {
			text, _ := h.Value().StringValueOK()
			return h.Key() == w.Key && text == kind
		}
		n, ok := h.Value().AsInt64OK()
		return h.Key() == w.Key && ok && n == int64(w.Value.(int))
	})
}

// refuseArrays returns an error that names a bucket whose meta is an array. Segments hold no such metas.
func (s *series) refuseArrays(ctx context.Context) error {
	found, err := mongodb.First(ctx, s.ports.Buckets, mongodb.Query{
		Filter:     mongodb.Document(bson.D{{Key: timeseries.FieldMeta, Value: bson.D{{Key: "$type", Value: "array"}}}}),
		Projection: mongodb.Document(bson.D{{Key: timeseries.FieldMeta, Value: 1}}),
	})
	if err != nil || found == nil {
		return mongodb.Failure("looking for metas that are arrays", err)
	}
	return fmt.Errorf("the bucket %v has the meta %v: %w. Give the series another meta first (`waterwheel collection update-meta`), or delete the series",
		found.Lookup(timeseries.FieldID), found.Lookup(timeseries.FieldMeta), ErrArrayMetas)
}

// Shard shards the buckets of the time series by ShardKey, through a router. It makes the index of the key, allows the database
// to be sharded, shards the collection, and spreads its segments. A repeated call does what is missing. Consumers may run
// meanwhile.
func (t TimeSeries) Shard(ctx context.Context, byHash bool) error {
	o, state, err := t.Shardable(ctx, byHash)
	if err == nil && state == NotSharded {
		if err = t.shard(ctx, o, byHash); err == nil {
			o, state, err = t.Shardable(ctx, byHash)
		}
	}
	if err != nil || state == Sharded {
		return err
	}
	have, err := t.sharding(ctx)
	if err != nil {
		return err
	}
	return t.spreading(o, have).carryOut(ctx)
}

// shard shards the collection. It begins with one chunk, or with some on each shard if the key is hashed.
func (t TimeSeries) shard(ctx context.Context, o timeseries.Options, byHash bool) error {
	s := t.series()
	s.options = o
	key := ShardKey(o, byHash)
	if _, err := s.buckets().Indexes().CreateOne(ctx, mongo.IndexModel{Keys: key}); err != nil {
		return mongodb.Failure("creating the index of the shard key", t.db.Translate(err))
	}
	// Databases need it only before 6.0. If the right to it is missing and needed, the next command fails.
	if err := t.admin().RunCommand(ctx, bson.D{{Key: "enableSharding", Value: t.db.Name()}}).Err(); err != nil {
		if err = t.db.Translate(err); !mongodb.HasCode(err, mongodb.CodeCommandNotFound) && !mongodb.LacksRight(err) {
			return mongodb.Failure("enabling sharding of the database", err)
		}
	}
	err := t.db.Translate(t.admin().RunCommand(ctx, bson.D{{Key: "shardCollection", Value: t.bucketsNamespace()}, {Key: "key", Value: key}}).Err())
	if mongodb.HasCode(err, mongodb.CodeInvalidOptions, mongodb.CodeOperationFailed) { // MongoDB never forgets that an index has held an array
		return fmt.Errorf("sharding the collection: %w; if a series has had an array as meta, drop the index of the keys %v and run the command again: it creates the index",
			err, mongodb.Document(key))
	}
	return mongodb.Failure("sharding the collection", err)
}
