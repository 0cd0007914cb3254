package verify

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// Log is where the records are. Calls do not overlap.
type Log interface {
	// Scan calls each for the partition's records with offsets in [from, to), in their order, and returns where the log went
	// on behind the last records that were deleted before they were read: from, when none were. A record's bytes are valid
	// during the call. An error of each ends the scan and is returned as it is.
	Scan(ctx context.Context, of record.Partition, from, to int64, each func(*record.Record) error) (first int64, err error)
}

// Offsets tells what a group has committed, and where logs begin and end.
type Offsets interface {
	// Committed returns what the group has committed for partitions of a topic, in their order.
	Committed(ctx context.Context, group string, partitions []record.Partition) ([]claim.Committed, error)
	// Bounds are the first offset of a partition's log, and the one after the last that may be read.
	Bounds(ctx context.Context, of record.Partition) (first, end int64, err error)
	// OffsetAt is the offset of the first record from a time on, in milliseconds since 1970; the log's end without one.
	OffsetAt(ctx context.Context, of record.Partition, time int64) (int64, error)
}

// Claims are the partition documents of the time series, whose owners may be writing.
type Claims interface {
	Claims(ctx context.Context) ([]claim.Document, error)
}

// Notes tell what operators have done to stored measurements by commands. A command notes a position before it does so. Each is
// called for positions with offsets in [from, to), in any order, and may be called more than once for the same.
type Notes interface {
	// Deleted calls each for the positions that are noted as deleted. One that is stored all the same was not.
	Deleted(ctx context.Context, source timeseries.Source, from, to int64, each func(timeseries.Position)) error
	// Changed calls each for the positions that are noted as those of measurements with another meta than their records have.
	Changed(ctx context.Context, source timeseries.Source, from, to int64, each func(timeseries.Position)) error
}

// Buckets is where the measurements are, those in segments too. Calls are not made from inside each, except Update and Delete.
type Buckets interface {
	// Find calls each for every bucket and segment of the partition that may list offsets in [from, to), in any order; one
	// that is written meanwhile may come twice, one that is inserted or deleted may be left out. A document has _id and of
	// control count, source, segment and compaction, and all the rest when whole; it is valid during the call. An error of each ends the query and is returned as it is.
	Find(ctx context.Context, source timeseries.Source, from, to int64, whole bool, each func(bson.Raw) error) error
	// Unfinished are the compactions that have frozen segments, and of which no segment has ended: they may be rolled back.
	Unfinished(ctx context.Context) (map[claim.Token]bool, error)
	// Update applies an update to the one bucket that the filter finds. False means that none was found.
	Update(ctx context.Context, filter, update bson.Raw) (bool, error)
	// Delete deletes the one bucket that the filter finds. False means that none was found.
	Delete(ctx context.Context, filter bson.Raw) (bool, error)
}
