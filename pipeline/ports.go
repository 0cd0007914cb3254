package pipeline

import (
	"context"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// Instant is a reading of a clock that never goes back and keeps running while the machine sleeps. Its zero is arbitrary.
type Instant = time.Duration

// Log is a partition of Kafka, read by topic id. Calls for one partition never overlap.
type Log interface {
	// Await waits until records from offset on are at hand, still compressed, or until none came in time. It returns how many
	// bytes they hold until the next Await. Records at hand are not requested again. The argument most bounds the requested bytes.
	// The errors are ErrOutOfRange, ErrTopicGone and *StopError; any other error is an outage.
	Await(ctx context.Context, offset, most int64) (int64, error)
	// Take returns the next piece of these records, from the same offset on, with about the given bytes of records. The piece
	// covers at least one offset. It is empty if no record came. It is valid until the next Await. The errors are those of Await.
	Take(offset int64, bytes int) (record.Batch, error)
	// Bounds returns where the log begins and ends, and where the configured start (KAFKA_START) points to in it.
	Bounds(ctx context.Context) (record.Bounds, error)
	// Partitions returns how many partitions the topic has now.
	Partitions(ctx context.Context) (int32, error)
}

// DeadLetters is the dead-letter topic.
type DeadLetters interface {
	// Produce writes letters in their order. It returns how many of them, from the first on, all in-sync replicas have
	// acknowledged. If these are not all letters, the error says why the next one failed. A *record.StopError means that the topic
	// refuses it. Produce does not keep the letters.
	Produce(ctx context.Context, letters []record.DeadLetter) (written int, err error)
}

// Store is a partition's view of MongoDB. Each method makes one attempt; the worker decides what to do about a failure. Calls
// for one partition never overlap.
type Store interface {
	// Read returns the partition document.
	Read(ctx context.Context) (claim.Document, error)
	// FirstPartitions returns how many partitions the topic had when the collection first saw this topic id. If it sees the id for
	// the first time, that is now. Zero means that the collection knows the topic only under another id.
	FirstPartitions(ctx context.Context, now int32) (int32, error)
	// Claim replaces exactly the seen claim by a new one. False means that the document no longer showed it. After an error the
	// outcome is unknown, and Read tells it.
	Claim(ctx context.Context, seen claim.Document, claim claim.Claim) (bool, error)
	// Stored returns the stored positions, that is, the positions in [start, end) that buckets of this partition list, read
	// causally after the claim. The window of the set may end before end if there are too many. A *StopError means that a bucket in
	// this range is damaged.
	Stored(ctx context.Context, start, end int64) (*timeseries.PositionSet, error)
	// Newest returns an upper bound of control.min.<time>, in milliseconds, of all stored buckets of this partition. It is read
	// causally after the claim. math.MinInt64 means that there is no bucket.
	Newest(ctx context.Context) (int64, error)
	// Send sends each write once and returns what is known of it: Applied, NotExecuted, Refused or Unknown. Like Resolve and
	// Positions it keeps no reference to the writes after it returns, because their memory is used again.
	Send(ctx context.Context, writes []*bucketer.Write) []bucketer.Sent
	// Resolve fences and then reads back the outcomes of unknown writes: each is Applied, AppliedForget, NotApplied or Conflicted.
	Resolve(ctx context.Context, writes []*bucketer.Write) ([]bucketer.Result, error)
	// Positions fences and then returns the positions of the write that any bucket of the partition lists.
	Positions(ctx context.Context, write *bucketer.Write) ([]timeseries.Position, error)
	// Find looks stored buckets up. The answers have the order of the look-ups. Some may be missing, those of look-ups ahead
	// first, but never those of all other look-ups.
	Find(ctx context.Context, lookups []bucketer.Lookup) ([]bucketer.Answer, error)
	// Segments reads the partition's segments without their measurements, causally after every write before.
	Segments(ctx context.Context) (claim.Segments, error)
	// ChangeSegments makes one change to some segments of a compaction, each on its condition. After an error it is unknown which
	// were changed. Segments tells, once no part of the change can be executed any more.
	ChangeSegments(ctx context.Context, c *claim.Compaction, change claim.SegmentChange, segments []claim.Segment) error
	// Frozen reads the whole segments of a compaction, causally after every write before, and then MongoDB's clock.
	Frozen(ctx context.Context, c *claim.Compaction) (claim.Segments, error)
	// DeleteCompacted deletes all buckets of a compaction of which no segment has ended. claim.ErrUnauthorized means that the user
	// may not, and that the buckets are hidden for good.
	DeleteCompacted(ctx context.Context, c *claim.Compaction) error
	// Sweep deletes segments that ended before a moment of MongoDB's clock.
	Sweep(ctx context.Context, segments []claim.Segment, before time.Time) error
	// NoteWaited writes down how long the generation of another owner's claim has been over, if the document still shows that
	// claim. Otherwise the error is ErrOtherOwner.
	NoteWaited(ctx context.Context, claim claim.Token, waited time.Duration) error
	// NoteLost writes down what the log lost before it was read, if the document still shows our claim. Otherwise the error is
	// ErrOtherOwner. Noting the same loss again does no harm.
	NoteLost(ctx context.Context, lost claim.Lost) error
	// Release marks our claim as released.
	Release(ctx context.Context) error
}

// Schemas is the registry in which producers write down the schemas of their records.
type Schemas interface {
	// Schema asks for a schema that a record of the topic names. An error is an outage, but a *record.StopError stops the
	// partition.
	Schema(ctx context.Context, topic string, id measurement.SchemaID) (SchemaAnswer, error)
}

// SchemaAnswer is a registry's answer about an id.
type SchemaAnswer struct {
	// Schema may be one that can read no record. It has a reason then.
	Schema measurement.Schema
	// Unknown means that the registry has no schema with this id.
	Unknown bool
	// KnowsTopic means that the registry has given this process another schema of the topic before.
	KnowsTopic bool
}

// Ports opens what a worker reads and writes.
type Ports interface {
	// Open returns the ports of one partition under one topic id. It does no I/O. Ports opened before for the partition are not
	// used any more.
	Open(source timeseries.Source) (Log, Store)
	// DeadLetters returns the dead-letter topic of a topic.
	DeadLetters(topic string) DeadLetters
	// Schemas returns the registry. It is asked only if records name schemas.
	Schemas() Schemas
	// TopicID returns the topic's present id. The zero id means that there is no such topic.
	TopicID(ctx context.Context, topic string) ([16]byte, error)
	// Committed returns what the group has committed for a partition. A *record.StopError means that this user may not read it.
	Committed(ctx context.Context, partition record.Partition) (claim.Committed, error)
}

// Generation is a period in which this process is a member of its group with the same partitions. Its methods are safe for
// concurrent use.
type Generation interface {
	// Held reports whether the lease holds now. It is cheap. After another generation has followed, the lease is no longer
	// renewed.
	Held() bool
	// Renewed is the send time of the newest commit known to be accepted in this generation. Before the first one, it is a moment
	// before the generation.
	Renewed() Instant
	// Commit commits the offsets in one request. It returns one error per commit, in the order of the commits. claim.ErrLapsed means
	// that the generation ends or that the topic is gone, which is no outage of Kafka.
	Commit(ctx context.Context, commits []record.Commit) ([]error, error)
}
