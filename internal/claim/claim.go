package claim

import (
	"errors"
	"fmt"
	"time"
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
