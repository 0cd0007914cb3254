package claim

import (
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Segment is a segment as its owner knows it.
type Segment struct {
	ID      bson.ObjectID
	TopicID [16]byte
	// Meta is that of the document, of no series. Min is control.min.<time>, in milliseconds since 1970. Both are the segment's shard key.
	Meta bson.RawValue
	Min  int64
	// Low and High bound where its series lie, as bytes compare.
	Low, High string
	// Count is how many measurements it has, Bytes how large it is.
	Count int32
	Bytes int64
	// First and Last bound its offsets.
	First, Last int64
	// Compaction is the compaction that froze the segment. Zero means that none did.
	Compaction Token
	// VisibleUntil is when it ends, in milliseconds since 1970 by MongoDB's clock. Zero means that it has not ended.
	VisibleUntil int64
	// Document is all of it, where it was read as a whole.
	Document bson.Raw
}

// Frozen reports whether a compaction has begun with the segment and has not ended it.
func (s *Segment) Frozen() bool { return s.Compaction != Token{} && s.VisibleUntil == 0 }

// SegmentChange is what a compaction does to its segments.
type SegmentChange uint8

// The changes. Each is one update a segment, on a condition.
const (
	// Freeze gives segments the compaction, if they have none: nobody changes their content from then on.
	Freeze SegmentChange = iota
	// End gives segments of the compaction their last moment.
	End
	// Unfreeze takes the compaction off its segments.
	Unfreeze
)

// Compaction is the making of buckets from segments.
type Compaction struct {
	ID      Token    // new and random for each
	TopicID [16]byte // of the topic that the segments are of: another one, where it was created again since
	// VisibleFrom is when queries see the buckets and no longer the segments, in milliseconds since 1970 by MongoDB's clock.
	VisibleFrom int64
	Segments    []Segment
}

// First is the smallest offset of all segments.
func (c *Compaction) First() int64 {
	first := int64(math.MaxInt64)
	for i := range c.Segments {
		first = min(first, c.Segments[i].First)
	}
	return first
}

// Segments are the segments of a partition at a moment of MongoDB's clock.
type Segments struct {
	All []Segment
	Now time.Time
}
