// Package claim has the words and rules of owning a partition, without any I/O. They cover the claim in its partition document,
// the metadata of a commit, and the offset at which an owner begins. The worker, "waterwheel check" and "waterwheel verify" use
// the same rules, so they always agree.
package claim

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// Errors of requests that only the owner of a partition may send.
var (
	// ErrOtherOwner means that the partition document no longer shows our claim, so another owner has the partition (E7).
	ErrOtherOwner = errors.New("another consumer has claimed the partition")
	// ErrLapsed means that the lease did not hold when a request was to be sent. The request was not executed and never will be.
	ErrLapsed = errors.New("the lease has expired")
	// ErrNoTurn means that a write was not sent, because the writes before it took all the time. It is not a failure.
	ErrNoTurn = errors.New("the write was not sent: earlier writes used up the time limit")
	// ErrUnauthorized means that the server refuses an operation because the user lacks a right. No part of it was executed or
	// ever will be.
	ErrUnauthorized = errors.New("the MongoDB user lacks a right")
	// ErrRefused means that MongoDB refuses a request for its content, and will refuse it again.
	ErrRefused = errors.New("MongoDB refuses the request")
)

// Token identifies one claim on a partition. The zero token means no claim.
type Token [16]byte

// String returns the token in mongosh's form of a UUID, without UUID("…") around it.
func (t Token) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", t[:4], t[4:6], t[6:8], t[8:10], t[10:])
}

// DocumentID is the _id of a partition document.
func DocumentID(clusterID, topic string, partition int32) string {
	return fmt.Sprintf("%s/%s/%d", clusterID, topic, partition)
}

// Claim is the content of a claim.
type Claim struct {
	Token Token         // new and random for each attempt
	Start int64         // offset from which the owner reads
	Wait  time.Duration // how long the next owner must wait before it replaces a claim that was not released
	Lease time.Duration // the part of Wait in which the owner may write and commit; the rest is for writes under way
}

// Lost are the offsets [From, To) that the log no longer had when they were to be read. A former owner may have stored some of
// them.
type Lost struct{ From, To int64 }

// Document is a partition document. Found is false if there is none.
type Document struct {
	Found    bool
	Group    string
	TopicID  [16]byte
	Claim    Token
	Released bool
	Start    int64
	Wait     time.Duration
	// Lease is the lease of the claim. Zero means unknown.
	Lease time.Duration
	// Waited is how long the claim's generation has been over, as earlier members found out. Zero means unknown.
	Waited time.Duration
	// Owner is the host of the claiming process, for people.
	Owner string
	// HasBuckets means, if there is no document, that the collection has a bucket of this partition.
	HasBuckets bool
	// Watermarks are the watermarks of the partition's rollups, as bytes of the document. The next claim lowers them.
	Watermarks string
}

// Fields of a partition document.
const (
	fieldClaim    = "claim"
	fieldReleased = "released"
	fieldStart    = "start"
	fieldWait     = "waitMs"
	fieldLease    = "lease"
	fieldWaited   = "waited"
	fieldOwner    = "owner"
)

// Decode reads a partition document, except its watermarks. A field that is missing or of another type, as after an edit by hand,
// reads as its zero value. That only makes the next owner wait longer or be refused.
func Decode(d bson.Raw) Document {
	seen := Document{Found: true, TopicID: timeseries.UUIDIn(d, timeseries.FieldTopicID), Claim: timeseries.UUIDIn(d, fieldClaim)}
	seen.Group, _ = d.Lookup("group").StringValueOK()
	seen.Owner, _ = d.Lookup(fieldOwner).StringValueOK()
	seen.Released, _ = d.Lookup(fieldReleased).BooleanOK()
	seen.Start, _ = d.Lookup(fieldStart).AsInt64OK()
	seen.Wait = timeIn(d, fieldWait)
	seen.Lease, seen.Waited = timeOf(d, fieldLease, seen.Claim), timeOf(d, fieldWaited, seen.Claim)
	return seen
}

// Fields returns the fields of a partition document that a claim sets. topicID is the topic's, and owner names the claiming process.
func (c Claim) Fields(topicID [16]byte, owner string) bson.D {
	return bson.D{
		{Key: timeseries.FieldTopicID, Value: timeseries.UUID(topicID)},
		{Key: fieldClaim, Value: timeseries.UUID(c.Token)},
		{Key: fieldReleased, Value: false},
		{Key: fieldStart, Value: c.Start},
		{Key: fieldWait, Value: c.Wait.Milliseconds()},
		{Key: fieldLease, Value: ofClaim(c.Token, c.Lease)},
		{Key: fieldOwner, Value: owner},
	}
}

// IsReleased is the field that says whether the claim of a partition document is released.
func IsReleased(released bool) bson.E { return bson.E{Key: fieldReleased, Value: released} }

// HasWaited is the field that says how long, at least, the generation of a claim has been over.
func HasWaited(of Token, waited time.Duration) bson.E {
	return bson.E{Key: fieldWaited, Value: ofClaim(of, waited)}
}

// ofClaim is a duration that belongs to one claim. It means nothing once the document shows another claim.
func ofClaim(of Token, d time.Duration) bson.D {
	return bson.D{{Key: fieldClaim, Value: timeseries.UUID(of)}, {Key: "ms", Value: d.Milliseconds()}}
}

// timeOf reads what ofClaim wrote. Zero means that it belongs to another claim.
func timeOf(d bson.Raw, field string, of Token) time.Duration {
	if about, ok := d.Lookup(field).DocumentOK(); ok && timeseries.UUIDIn(about, fieldClaim) == of {
		return timeIn(about, "ms")
	}
	return 0
}

func timeIn(d bson.Raw, field string) time.Duration {
	ms, _ := d.Lookup(field).AsInt64OK()
	return time.Duration(max(0, min(ms, mostWaitMs))) * time.Millisecond
}

// mostWaitMs bounds how long a partition document can make the next owner wait: a day.
const mostWaitMs = 24 * 60 * 60 * 1000

// WriteGrace returns how long after its sending a write may still be executed. That is one write timeout in transit, and one as
// maxTimeMS.
func WriteGrace(writeTimeout time.Duration) time.Duration { return 2 * writeTimeout }

// Pending returns how long writes may still be executed that owners have sent before. It is at least the write grace period of
// our own writes. An owner with a longer write timeout has recorded a longer wait in its claim.
func Pending(writeGrace time.Duration, claims []Document) time.Duration {
	for i := range claims {
		if c := &claims[i]; !c.Released {
			writeGrace = max(writeGrace, c.Wait)
		}
	}
	return writeGrace
}

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
