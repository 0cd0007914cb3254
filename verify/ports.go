package verify

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/record"
	"waterwheel/timeseries"
)

// Log is where the records are.
type Log interface {
	// Records calls each for the partition's records with offsets in [from, to), in their order, and returns the first
	// offset that the log still had: from, or more where retention has removed what was before. A record's bytes are
	// valid during the call. An error of each ends the reading and is returned as it is. Calls do not overlap.
	Records(ctx context.Context, source timeseries.Source, from, to int64, each func(record.Record) error) (first int64, err error)
}

// Buckets is where the measurements are. Calls are not made from inside each, except Update and Delete.
type Buckets interface {
	// Find calls each for every bucket of the partition that may list offsets in [from, to), in any order; one that is
	// written meanwhile may come twice. A document has _id and control.count and control.source, and all the rest when
	// whole; it is valid during the call. An error of each ends the query and is returned as it is.
	Find(ctx context.Context, source timeseries.Source, from, to int64, whole bool, each func(bson.Raw) error) error
	// Update applies an update to the one bucket that the filter finds; false: none was found.
	Update(ctx context.Context, filter, update bson.Raw) (bool, error)
	// Delete deletes the one bucket that the filter finds; false: none was found.
	Delete(ctx context.Context, filter bson.Raw) (bool, error)
}
