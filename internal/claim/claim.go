package claim

import (
	"errors"
	"fmt"
	"time"
)

// Errors of requests that only the owner of a partition may send.
var (
	// ErrOtherOwner means that the partition document does not show our claim (any more): another owner has the partition (E7).
	ErrOtherOwner = errors.New("another consumer has claimed the partition")
	// ErrLapsed means that the lease did not hold when something was about to be sent. It was not executed and never will be.
	ErrLapsed = errors.New("the lease has lapsed")
	// ErrNoTurn is why a write was not executed whose turn did not come while there was time to send it: those before it took
	// all of it. It tells of no failure.
	ErrNoTurn = errors.New("the time for sending was over before its turn came")
	// ErrUnauthorized means that the server refuses an operation because the user lacks a right. Nothing of it was executed, or ever will
	// be.
	ErrUnauthorized = errors.New("a right is missing")
	// ErrRefused means that MongoDB refuses a request for what it is, and will do so again.
	ErrRefused = errors.New("MongoDB refuses the request")
)

// Token identifies one claim on a partition; the zero token is none.
type Token [16]byte

// String is the token as mongosh takes it: UUID("…").
func (t Token) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", t[:4], t[4:6], t[6:8], t[8:10], t[10:])
}

// DocumentID is the _id of a partition document.
func DocumentID(clusterID, topic string, partition int32) string {
	return fmt.Sprintf("%s/%s/%d", clusterID, topic, partition)
}

// Claim is what a claim writes.
type Claim struct {
	Token Token         // new and random for each attempt
	Start int64         // offset from which its owner reads
	Wait  time.Duration // how long the next owner must wait before it replaces the claim, unless that was released
	Lease time.Duration // how much of that its owner may go on writing and committing; the rest is for writes on their way
}

// Document is a partition document, or the lack of one.
type Document struct {
	Found    bool
	Group    string
	TopicID  [16]byte
	Claim    Token
	Released bool
	Start    int64
	Wait     time.Duration
	// Lease is the claim's. Zero means that it is not known, as of one by a former version.
	Lease time.Duration
	// Waited is for how long the claim's generation is over already, as members before us found out. Zero means that it is not known.
	Waited time.Duration
	// Owner is the host of the process that claimed it, for people.
	Owner string
	// HasBuckets tells, when there is no document, whether the collection has a bucket of this partition.
	HasBuckets bool
	// Watermarks are those of the partition's rollups, as bytes of the document: the claim that follows lowers them.
	Watermarks string
}

// Lost are offsets [From, To) that the log did not have any more when they were to be read. A former owner may have stored some.
type Lost struct{ From, To int64 }
