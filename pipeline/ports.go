package pipeline

import (
	"context"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// Instant is a reading of a clock that never goes back and does not stand still while the machine sleeps; its zero is
// arbitrary.
type Instant = time.Duration

// Log is a partition of Kafka, read by topic id. Calls for one partition never overlap.
type Log interface {
	// Await sees to it that what follows offset is at hand, as it came, or that nothing came in time, and returns how many
	// bytes it holds until the next Await. Records at hand are not requested again; most bounds the requested bytes.
	// Errors: ErrOutOfRange, ErrTopicGone, *StopError; others are outages.
	Await(ctx context.Context, offset, most int64) (int64, error)
	// Take returns the next piece of it, from the same offset on: about as many bytes of records as it is told, at least the
	// position after offset; an empty batch when nothing came. The batch is valid until the next Await. Errors as Await.
	Take(offset int64, bytes int) (record.Batch, error)
	// Bounds returns where the log begins and ends, and where the configured start (KAFKA_START) points to in it.
	Bounds(ctx context.Context) (record.Bounds, error)
	// Partitions returns how many partitions the topic has now.
	Partitions(ctx context.Context) (int32, error)
}

// Letters is the dead-letter topic.
type Letters interface {
	// Produce writes letters in their order and returns how many of them, from the first on, are acknowledged by all in-sync
	// replicas: all, or the error says why the next one is not. *record.StopError: the topic will not have it. The letters are
	// not kept.
	Produce(ctx context.Context, letters []record.Letter) (written int, err error)
}

// Store is a partition's side of MongoDB. Each method is one attempt; what to do about a failure is the worker's. Calls
// for one partition never overlap.
type Store interface {
	// Read returns the partition document.
	Read(ctx context.Context) (claim.Document, error)
	// FirstPartitions returns how many partitions the topic had when the collection first saw it under this topic id, which is
	// now if it did not yet; 0 when it knows the topic under another id only.
	FirstPartitions(ctx context.Context, now int32) (int32, error)
	// Claim replaces exactly the claim seen by a new one. False means that it was no longer there. An error: unknown, read again.
	Claim(ctx context.Context, seen claim.Document, claim claim.Claim) (bool, error)
	// Stored returns D: the positions from start on, below end, that buckets of this partition list, read causally after
	// the claim. The set's window may end before end: then there were too many. *StopError: a bucket in this range is damaged.
	Stored(ctx context.Context, start, end int64) (*timeseries.PositionSet, error)
	// Newest returns a time (milliseconds) that control.min.<time> of no stored bucket of this partition exceeds, read causally
	// after the claim; math.MinInt64: there is none.
	Newest(ctx context.Context) (int64, error)
	// Send sends the writes, each once, and says what is known of each: Applied, NotExecuted, Refused or Unknown. Like
	// Resolve and Positions it keeps nothing of them after its return: their memory is used again.
	Send(ctx context.Context, writes []*bucketer.Write) []bucketer.Sent
	// Resolve fences and reads back what became of unknown writes: each is Applied, AppliedForget, NotApplied or Conflicted.
	Resolve(ctx context.Context, writes []*bucketer.Write) ([]bucketer.Result, error)
	// Positions fences and returns those of the write's positions that any bucket of the partition lists.
	Positions(ctx context.Context, write *bucketer.Write) ([]timeseries.Position, error)
	// Find looks stored buckets up. The answers come in the order of the look-ups; some may be left out, those ahead first,
	// but never all of the others.
	Find(ctx context.Context, lookups []bucketer.Lookup) ([]bucketer.Answer, error)
	// Segments reads which segments the partition has, without their measurements, causally after every write before.
	Segments(ctx context.Context) (claim.Segments, error)
	// ChangeSegments makes one change to some segments of a compaction, each on its condition. After an error it is not known how
	// far that came: when nothing of it can be executed any more, Segments tells.
	ChangeSegments(ctx context.Context, c *claim.Compaction, change claim.SegmentChange, segments []claim.Segment) error
	// Frozen reads the segments of a compaction as a whole, causally after every write before, and then MongoDB's clock.
	Frozen(ctx context.Context, c *claim.Compaction) (claim.Segments, error)
	// DeleteCompacted deletes all buckets of a compaction of which no segment has ended. claim.ErrUnauthorized: the user may not, and
	// they are hidden for good.
	DeleteCompacted(ctx context.Context, c *claim.Compaction) error
	// Sweep deletes segments that ended before a moment of MongoDB's clock.
	Sweep(ctx context.Context, segments []claim.Segment, before time.Time) error
	// NoteWaited writes down for how long the generation of another owner's claim is over, if the document still shows that
	// claim; else the error is ErrOtherOwner.
	NoteWaited(ctx context.Context, claim claim.Token, waited time.Duration) error
	// NoteLost writes down what the log lost before it was read, if the document still shows our claim; else the error is
	// ErrOtherOwner. The same may be noted again.
	NoteLost(ctx context.Context, lost claim.Lost) error
	// Release marks our claim as released.
	Release(ctx context.Context) error
}

// Ports opens what a worker reads and writes.
type Ports interface {
	// Open returns the ports of one partition under one topic id. It does no I/O. Those opened for the partition before
	// are not used any more.
	Open(source timeseries.Source) (Log, Store)
	// Letters returns the dead-letter topic of a topic.
	Letters(topic string) Letters
	// Schemas returns the registry. It is not asked unless records name schemas.
	Schemas() Schemas
	// TopicID returns the topic's id of now; the zero id when there is no such topic.
	TopicID(ctx context.Context, topic string) ([16]byte, error)
	// Committed returns what the group has committed for a partition. *record.StopError: it cannot be read by this user.
	Committed(ctx context.Context, partition record.Partition) (claim.Committed, error)
}

// Generation is a time in which this process is a member of its group with the same partitions. Its methods are safe for
// concurrent use.
type Generation interface {
	// Held reports whether the lease holds now. It is cheap. The lease of a generation that another one has followed is renewed no more.
	Held() bool
	// Renewed is the send time of the newest commit known to be accepted in this generation. Before the first, it is a moment before the generation.
	Renewed() Instant
	// Commit commits the offsets in one request; the errors are by partition, in their order.
	Commit(ctx context.Context, commits []record.Commit) ([]error, error)
}
