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
	// Meta is the meta of the document, which belongs to no series. Min is control.min.<time>, in milliseconds since 1970. Both
	// are the segment's shard key.
	Meta bson.RawValue
	Min  int64
	// Low and High bound the places of its series, compared as bytes.
	Low, High string
	// Count is the number of its measurements, and Bytes its size.
	Count int32
	Bytes int64
	// First and Last are its smallest and largest offset.
	First, Last int64
	// Compaction is the compaction that froze the segment. Zero means that none did.
	Compaction Token
	// VisibleUntil is the time at which it ends, in milliseconds since 1970 by MongoDB's clock. Zero means that it has not ended.
	VisibleUntil int64
	// Document is the whole document, if it was read as a whole.
	Document bson.Raw
}

// Frozen reports whether a compaction has frozen the segment and has not ended it.
func (s *Segment) Frozen() bool { return s.Compaction != Token{} && s.VisibleUntil == 0 }

// SegmentChange is what a compaction does to its segments.
type SegmentChange uint8

// The changes. Each is one conditional update for each segment.
const (
	// Freeze gives the compaction to segments that have none. Nobody changes their content from then on.
	Freeze SegmentChange = iota
	// End gives the segments of the compaction their end.
	End
	// Unfreeze removes the compaction from its segments.
	Unfreeze
)

// Compaction makes buckets from segments.
type Compaction struct {
	ID      Token    // new and random for each compaction
	TopicID [16]byte // topic id of the segments; a former one, if the topic was created again since
	// VisibleFrom is when queries see the buckets instead of the segments, in milliseconds since 1970 by MongoDB's clock.
	VisibleFrom int64
	Segments    []Segment
}

// First returns the smallest offset of all segments.
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
