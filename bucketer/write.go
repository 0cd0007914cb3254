package bucketer

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// Kind tells a bucket's first write from its later ones.
type Kind uint8

// The kinds of writes.
const (
	Insert Kind = iota // the whole document
	Update             // a delta, or a close-only write (Added == 0)
)

// Write is one write of one bucket. It is immutable once Prepare has returned it: sending it again sends the same bytes.
type Write struct {
	Kind Kind
	// ID is the bucket's _id.
	ID bson.ObjectID
	// Meta and MinTime (control.min.<time>, milliseconds) identify the bucket's series and shard; Meta.Type 0: no meta.
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
	// Closes: the write sets control.closed.
	Closes bool
}

// Flush is the set of writes cut by one Prepare, at most one a bucket. They do not depend on each other.
type Flush struct {
	Writes []*Write
	// Bytes is the size of all filters and documents, Measurements the sum of Added.
	Bytes, Measurements int
}

// Verdict is what became of a write. Nothing else may be told to Finish: an unknown outcome is resolved first (E4).
type Verdict uint8

// The verdicts.
const (
	// Applied: the write is in the bucket.
	Applied Verdict = iota
	// AppliedForget: the same, but meta or closed of the bucket differ from ours: it is forgotten.
	AppliedForget
	// Conflicted: the write was not executed and never will be, because the bucket is not what it was. Those of its
	// positions in Stored are in the database; the others are put back, with this bucket out of bounds.
	Conflicted
	// Refused: MongoDB will not have the write for its content. It was not executed and never will be.
	Refused
)

// Outcome is the verdict on one write of a flush, by its index in Flush.Writes.
type Outcome struct {
	Verdict Verdict
	// Stored lists those positions of a conflicted write that the database holds.
	Stored []timeseries.Position
	// Code and Message are MongoDB's, for a refused write.
	Code    int32
	Message string
}

// Rejected is a single measurement that MongoDB refuses: it becomes a letter.
type Rejected struct {
	Position timeseries.Position
	Code     int32
	Message  string
}
