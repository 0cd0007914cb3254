package sink

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// Size is what the server tells of the buckets and segments of a time series.
type Size struct {
	Documents    int64 `json:"documents"`    // buckets and segments
	Bytes        int64 `json:"bytes"`        // of all documents, uncompressed
	StorageBytes int64 `json:"storageBytes"` // on disk
	IndexBytes   int64 `json:"indexBytes"`
	// Compressor is WiredTiger's of the buckets: "zstd", "snappy", "zlib", "none", on a sharded cluster perhaps several. Empty means that the
	// server does not tell.
	Compressor string `json:"compressor,omitempty"`
}

// Size asks the server how large the buckets of the time series are; it does not look at them.
func (t TimeSeries) Size(ctx context.Context) (Size, error) {
	raw, err := t.driver().RunCommand(ctx, bson.D{{Key: "collStats", Value: t.name + timeseries.BucketsSuffix}}).Raw()
	if err != nil {
		return Size{}, mongodb.Failure("asking for the size of "+t.name, t.db.Translate(err))
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
