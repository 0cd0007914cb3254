package bucketer

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// Kind tells a bucket's first write from its later ones.
type Kind uint8

// The kinds of writes.
const (
	Insert Kind = iota // the whole document
	Update             // a delta, or a close-only write (Added == 0)
)

// Write is one write of one bucket. It is immutable after Prepare has returned it, until its flush is released. Sending it
// again sends the same bytes.
type Write struct {
	Kind Kind
	// ID is the bucket's _id.
	ID bson.ObjectID
	// Meta and MinTime (control.min.<time>, in milliseconds) identify the bucket's series and shard. A Meta.Type of 0 means no
	// meta. The Meta of a segment is timeseries.SegmentMetaOf.
	Meta    bson.RawValue
	MinTime int64
	// Filter is the condition of an update (E5): _id, meta, control.min.<time>, control.count, control.closed. It is nil for an
	// insert.
	Filter bson.Raw
	// Document is the document of an insert, or the operators of an update.
	Document bson.Raw
	// Added is the number of measurements that this write adds. Count is the bucket's control.count after it.
	Added, Count int32
	// Offsets is the element that this write adds to control.source.offsets (timeseries.AppendPositions). It is nil for a
	// close-only write.
	Offsets []byte
	// First is the smallest offset among the positions that the write adds.
	First int64
	// Closes means that the write sets control.closed.
	Closes bool
	// Segment means that the write inserts a segment. It has series from Low to High in the order of Options.SegmentOrder.
	Segment   bool
	Low, High string
}

// Flush is the set of writes cut by one Prepare, at most one for each bucket. They do not depend on each other.
type Flush struct {
	Writes []*Write
	// Bytes is the size of all filters and documents, Measurements the sum of Added.
	Bytes, Measurements int

	memory arena
}

// Result is the known state of a write.
type Result uint8

// The results. Each step of a write says which of them it may give.
const (
	// Applied means that the write is in the bucket and durable.
	Applied Result = iota
	// AppliedForget means the same, but the bucket's meta or closed differs from ours, so the catalog forgets the bucket.
	AppliedForget
	// NotApplied means that the bucket is as it was before the write. The write may still be executed until its grace has passed.
	NotApplied
	// NotExecuted means that the write was not executed and never will be.
	NotExecuted
	// Conflicted means that the bucket has neither its state before the write nor its state after it. Once its grace has passed,
	// the write will never be executed.
	Conflicted
	// Refused means that MongoDB refuses the write for its content. The write was not executed and never will be.
	Refused
	// Unknown means that anything may have happened, or may still happen.
	Unknown
)

// String is the result's name.
func (r Result) String() string {
	return [...]string{"applied", "applied_forget", "not_applied", "not_executed", "conflicted", "refused", "unknown"}[r]
}

// Sent is the result of one attempt to send a write: Applied, NotExecuted, Refused or Unknown.
type Sent struct {
	Result Result
	// Code and Message are MongoDB's, if its answer makes the write Refused or Unknown. TooLarge means that the write is Refused
	// because its bucket would become too large a document.
	Code     int32
	Message  string
	TooLarge bool
	// Err is why the write is NotExecuted or Unknown. A Refused write has it if the whole command was refused.
	Err error
}

// Outcome is the final result of one write of a flush, by its index in Flush.Writes: Applied, AppliedForget, Conflicted or
// Refused. Finish takes no other result, so an unknown write is resolved first (E4).
type Outcome struct {
	Result Result
	// Stored lists the positions of a conflicted write that the database holds. The others are put back, and their series does not
	// reopen this bucket.
	Stored []timeseries.Position
	// Code, Message and TooLarge are those of the attempt, for a refused write.
	Code     int32
	Message  string
	TooLarge bool
}

// Rejected is a single measurement that MongoDB refuses. It becomes a letter.
type Rejected struct {
	Position timeseries.Position
	Code     int32
	Message  string
}
