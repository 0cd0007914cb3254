package collection

import (
	"context"

	"waterwheel/internal/timeseries"
)

// What tests outside of the package look at.
var (
	PortablePipeline    = portablePipeline
	InternalPipeline    = internalPipeline
	UnionPipeline       = unionPipeline
	Measurements        = unpacked
	CompareMeasurements = compareMeasurements
)

// Errors that no caller tells apart.
type (
	MismatchError      = mismatchError
	IndexConflictError = indexConflictError
	NeededIndexError   = neededIndexError
	MixedKindsError    = mixedKindsError
	OtherKeyError      = otherKeyError
)

// CreateIndexForMeta makes an index of any keys as META_INDEXES does.
func (t TimeSeries) CreateIndexForMeta(ctx context.Context, user timeseries.Index) (Index, bool, error) {
	return t.createIndex(ctx, user, byMetaIndexes)
}
