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

// Write is one write of one bucket. It is immutable once Prepare has returned it, until its flush is released: sending it
// again sends the same bytes.
type Write struct {
	Kind Kind
	// ID is the bucket's _id.
	ID bson.ObjectID
	// Meta and MinTime (control.min.<time>, milliseconds) identify the bucket's series and shard. Meta.Type 0 means no meta. That of a
	// segment is timeseries.SegmentMetaOf.
	Meta    bson.RawValue
	MinTime int64
	// Filter is the condition of an update (E5): _id, meta, control.min.<time>, control.count, control.closed. Nil for
	// an insert.
	Filter bson.Raw
	// Document is the document of an insert, the operators of an update.
	Document bson.Raw
	// Added is the number of measurements this write adds, Count the bucket's control.count after it.
	Added, Count int32
	// Offsets is the element this write adds to control.source.offsets (timeseries.AppendPositions); nil when close-only.
	Offsets []byte
	// First is the smallest offset among the positions it adds.
	First int64
	// Closes means that the write sets control.closed.
	Closes bool
	// Segment means that it inserts a segment, with measurements of the series from Low to High in the order of Options.SegmentOrder.
	Segment   bool
	Low, High string
}

// Flush is the set of writes cut by one Prepare, at most one a bucket. They do not depend on each other.
type Flush struct {
	Writes []*Write
	// Bytes is the size of all filters and documents, Measurements the sum of Added.
	Bytes, Measurements int

	memory arena
}

// Result is what is known of a write.
type Result uint8

// The results. Each step on a write's way says which of them it may give.
const (
	// Applied means that the write is in the bucket, and durable.
	Applied Result = iota
	// AppliedForget means the same, but meta or closed of the bucket differ from ours: it is forgotten.
	AppliedForget
	// NotApplied means that the bucket is as it was before the write, which may still be executed until its grace has passed.
	NotApplied
	// NotExecuted means that it was not executed and never will be.
	NotExecuted
	// Conflicted means that the bucket is neither what it was before the write nor what the write makes of it. Once its grace has passed
	// the write never will be executed.
	Conflicted
	// Refused means that MongoDB will not have the write for its content. It was not executed and never will be.
	Refused
	// Unknown means that anything may have happened, or may still happen.
	Unknown
)

// String is the result's name.
func (r Result) String() string {
	return [...]string{"applied", "applied_forget", "not_applied", "not_executed", "conflicted", "refused", "unknown"}[r]
}

// Sent is what is known of a write after one attempt to send it: Applied, NotExecuted, Refused or Unknown.
type Sent struct {
	Result Result
	// Code and Message are MongoDB's, of a write that is Refused or Unknown by its answer; TooLarge: it is Refused because its
	// bucket would become too large a document.
	Code     int32
	Message  string
	TooLarge bool
	// Err tells why it is NotExecuted or Unknown. A Refused one has it when the whole command was refused.
	Err error
}

// Outcome is what became of one write of a flush, by its index in Flush.Writes: Applied, AppliedForget, Conflicted or Refused.
// Nothing else may be told to Finish: an unknown write is resolved first (E4).
type Outcome struct {
	Result Result
	// Stored lists those positions of a conflicted write that the database holds. The others are put back, with this bucket
	// out of bounds.
	Stored []timeseries.Position
	// Code, Message and TooLarge are those of the attempt, for a refused write.
	Code     int32
	Message  string
	TooLarge bool
}

// Rejected is a single measurement that MongoDB refuses: it becomes a letter.
type Rejected struct {
	Position timeseries.Position
	Code     int32
	Message  string
}
