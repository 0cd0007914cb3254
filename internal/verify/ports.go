package verify

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// Log reads records. Calls do not overlap.
type Log interface {
	// Scan calls each for the partition's records with offsets in [from, to), in their order. It returns the first offset after
	// the last record that was deleted before Scan could read it. That is from if none was. A record's bytes are valid during the
	// call. An error of each ends the scan and is returned unchanged.
	Scan(ctx context.Context, of record.Partition, from, to int64, each func(*record.Record) error) (first int64, err error)
}

// Offsets returns what a group has committed, and where logs begin and end.
type Offsets interface {
	// Committed returns what the group has committed for partitions of a topic, in their order.
	Committed(ctx context.Context, group string, partitions []record.Partition) ([]claim.Committed, error)
	// Bounds returns the first offset of a partition's log, and the offset after the last record that can be read.
	Bounds(ctx context.Context, of record.Partition) (first, end int64, err error)
	// OffsetAt returns the offset of the first record from a time on, in milliseconds since 1970. If there is none, it returns
	// the log's end.
	OffsetAt(ctx context.Context, of record.Partition, time int64) (int64, error)
}

// Claims reads the partition documents of the time series. Their owners may be writing.
type Claims interface {
	Claims(ctx context.Context) ([]claim.Document, error)
}

// Notes reports what operators have done to stored measurements by commands. A command notes a position before it acts. Each
// method calls each for positions with offsets in [from, to), in any order, and possibly more than once for the same position.
type Notes interface {
	// Deleted calls each for the positions that are noted as deleted. A noted position that is still stored was not deleted.
	Deleted(ctx context.Context, source timeseries.Source, from, to int64, each func(timeseries.Position)) error
	// Changed calls each for the positions that are noted because a command changed the meta of their measurements.
	Changed(ctx context.Context, source timeseries.Source, from, to int64, each func(timeseries.Position)) error
}

// Buckets accesses the stored measurements, including those in segments. Only Update and Delete may be called from inside each.
type Buckets interface {
	// Find calls each for every bucket and segment of the partition that may list offsets in [from, to), in any order. A document
	// that is written meanwhile may come twice. One that is inserted or deleted meanwhile may be left out. A document has _id,
	// and count, source, segment and compaction below control. With whole it has everything. It is valid during the call. An
	// error of each ends the query and is returned unchanged.
	Find(ctx context.Context, source timeseries.Source, from, to int64, whole bool, each func(bson.Raw) error) error
	// Unfinished returns the compactions that have frozen segments, and of which no segment has ended. They may be rolled back.
	Unfinished(ctx context.Context) (map[claim.Token]bool, error)
	// Update applies an update to the one bucket that the filter finds. False means that none was found.
	Update(ctx context.Context, filter, update bson.Raw) (bool, error)
	// Delete deletes the one bucket that the filter finds. False means that none was found.
	Delete(ctx context.Context, filter bson.Raw) (bool, error)
}
