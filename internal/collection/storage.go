package collection

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// BlockCompressor is WiredTiger's compressor for buckets, if a collection can choose. MongoDB makes its own time-series
// collections with it, whatever the server's default is (SERVER-57426). Buckets repeat their field names and indexes. zstd finds
// these repetitions, and snappy, the default of other collections, does not.
const BlockCompressor = "zstd"

// createBuckets makes the collection of the buckets if it does not exist. An existing one stays as it is. A server may refuse the
// compressor, refuse creating collections at all, or ignore the option. The buckets are then compressed by the server's default,
// and the first index makes the collection.
func (s *series) createBuckets(ctx context.Context) error {
	have, err := s.existing(ctx, s.buckets().Name())
	if err != nil || have.kind != "" {
		return err
	}
	engine := bson.D{{Key: "wiredTiger", Value: bson.D{{Key: "configString", Value: "block_compressor=" + BlockCompressor}}}}
	err = s.driver().CreateCollection(ctx, s.buckets().Name(), options.CreateCollection().SetStorageEngine(engine))
	why := errors.New("the server ignores the option storageEngine")
	if err != nil {
		refused, unknown := s.refusal("creating the collection of the buckets", err)
		switch {
		case mongodb.LacksRight(unknown):
			s.db.Log().Warn("a right is missing: this user may not create the collection of the buckets, so MongoDB creates it with the first index, compressed with MongoDB's default compressor",
				"collection", s.namespace(), "err", unknown)
			return nil
		case unknown != nil:
			return unknown
		}
		if mongodb.HasCode(refused, mongodb.CodeNamespaceExists) {
			return nil // another consumer was quicker
		}
		why = refused
	} else if have, err = s.existing(ctx, s.buckets().Name()); err != nil || have.engine.Type != 0 {
		return err
	}
	s.db.Log().Info("this MongoDB does not let a collection choose "+BlockCompressor+": buckets are compressed with MongoDB's default compressor",
		"collection", s.namespace(), "why", why)
	return nil
}

// creation finds the compressor in WiredTiger's description of a table.
var creation = regexp.MustCompile(`(?:^|,)block_compressor=([a-z0-9]*)`)

// compressorOf returns WiredTiger's compressor from the statistics of a collection. On a sharded cluster it may return several.
// Empty means that the server does not tell.
func compressorOf(stats bson.Raw) string {
	var found []string
	add := func(stats bson.Raw) {
		words, _ := stats.Lookup("wiredTiger", "creationString").StringValueOK()
		if match := creation.FindStringSubmatch(words); match != nil {
			name := match[1]
			if name == "" {
				name = "none"
			}
			found = append(found, name)
		}
	}
	add(stats)
	if shards, ok := stats.Lookup("shards").DocumentOK(); ok {
		values, _ := shards.Values()
		for _, v := range values {
			if shard, ok := v.DocumentOK(); ok {
				add(shard)
			}
		}
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), ", ")
}

// Size is the server's statistics about the buckets and segments of a time series.
type Size struct {
	Documents    int64 `json:"documents"`    // buckets and segments
	Bytes        int64 `json:"bytes"`        // of all documents, uncompressed
	StorageBytes int64 `json:"storageBytes"` // on disk
	IndexBytes   int64 `json:"indexBytes"`
	// Compressor is WiredTiger's compressor of the buckets: "zstd", "snappy", "zlib", "none", or several on a sharded cluster.
	// Empty means that the server does not tell.
	Compressor string `json:"compressor,omitempty"`
}

// Size asks the server how large the buckets of the time series are. It reads no bucket.
func (t TimeSeries) Size(ctx context.Context) (Size, error) {
	raw, err := t.driver().RunCommand(ctx, bson.D{{Key: "collStats", Value: t.name + timeseries.BucketsSuffix}}).Raw()
	if err != nil {
		return Size{}, mongodb.Failure("reading the size of "+t.name, t.db.Translate(err))
	}
	number := func(key string) int64 {
		n, _ := raw.Lookup(key).AsInt64OK()
		return n
	}
	return Size{
		Documents: number("count"), Bytes: number("size"), StorageBytes: number("storageSize"), IndexBytes: number("totalIndexSize"),
		Compressor: compressorOf(raw),
	}, nil
}
