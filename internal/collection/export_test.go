package collection

import (
	"context"

	"waterwheel/internal/timeseries"
)

// These are exported for tests outside of the package.
var (
	PortablePipeline    = portablePipeline
	InternalPipeline    = internalPipeline
	UnionPipeline       = unionPipeline
	Measurements        = unpacked
	CompareMeasurements = compareMeasurements
)

// CreateIndexForMeta creates an index with any keys, as META_INDEXES does.
func (t TimeSeries) CreateIndexForMeta(ctx context.Context, user timeseries.Index) (Index, bool, error) {
	return t.createIndex(ctx, user, byMetaIndexes)
}
