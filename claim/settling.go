package claim

import (
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Errors of settling that tell of no failure.
var (
	// ErrAnnounced: the partition document announces another settling, which must be recovered first.
	ErrAnnounced = errors.New("another settling is announced")
	// ErrEdited: segments were changed or deleted by somebody else since they were read.
	ErrEdited = errors.New("segments have been changed or deleted meanwhile")
)

// Settling is what a partition document announces while segments are settled into buckets.
type Settling struct {
	By      Token    // new and random for each
	TopicID [16]byte // of the topic that the segments are of: another one, where it was created again since
	From    int64    // when the buckets are shown and the segments end, in milliseconds since 1970 by MongoDB's clock
	// Segments are those that end.
	Segments []Segment
	// First and Last bound the offsets in them.
	First, Last int64
}

// Segment is a segment as its owner knows it.
type Segment struct {
	ID      bson.ObjectID
	TopicID [16]byte
	// Low and High bound the hashes of its series.
	Low, High int32
	// Count is how many measurements it has, Bytes how large it is.
	Count int32
	Bytes int64
	// Edits is how often its content was changed, when it was read.
	Edits int32
	// Until is when it ends, in milliseconds since 1970 by MongoDB's clock; 0: it waits to be settled.
	Until int64
	// First and Last bound its offsets, and Document is all of it, where it was read as a whole.
	First, Last int64
	Document    bson.Raw
}

// Staging is what a partition has in segments.
type Staging struct {
	// Settling is what is announced; nil: nothing. Of its segments only the _ids are known.
	Settling *Settling
	// Segments are all that there are.
	Segments []Segment
	// Now is MongoDB's clock, in milliseconds since 1970.
	Now int64
}
