package pipeline

import (
	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// Moment is what a Worker may know of the world besides the event.
type Moment struct {
	Now Instant
	// Held means that the lease of the partition holds, so claims and writes may be sent.
	Held bool
	// Renewed is the send time of the newest commit known to be accepted while we owned the partition. Zero means none.
	Renewed Instant
	// Target is how many bytes the worker may use while the process is near or over its memory budget. Zero means no such bound.
	// Full means that the process is over its budget.
	Target int64
	Full   bool
	// Compacting means that another partition of the process compacts segments, which takes memory.
	Compacting bool
}

// Event is something that happened to a partition. An event that answers an action comes exactly once for it. Each event says how
// a Worker handles it; advance then starts what can be started now.
type Event interface {
	handle(w *Worker, m Moment)
}

// The events.
type (
	// Assigned begins a term, because the group gave the partition to this process.
	Assigned struct {
		TopicID [16]byte
		// Beside means that another program has been in the group since this process joined it. Offsets that this process has not
		// committed are then commits of that program, which has read up to them.
		Beside bool
		// From, when not nil, replaces what the group has committed.
		From *claim.Committed
		// Consecutive means that this process also owned the partition in the generation just before.
		Consecutive bool
	}
	// Ticked means that some time has passed.
	Ticked struct{}
	// ClaimRead answers ReadClaim. Of is the server that failed. Committed is what the group had committed after the document was
	// read. It is also set when the topic turns out to be gone. FirstPartitions is how many partitions the topic had when the
	// collection first saw its present id. Zero means that the collection knows the topic only under another id.
	ClaimRead struct {
		Seen            claim.Document
		Committed       claim.Committed
		FirstPartitions int32
		Bounds          record.Bounds
		Of              Dependency
		Err             error
	}
	// ClaimWatched answers WatchClaim.
	ClaimWatched struct {
		Seen claim.Document
		Err  error
	}
	// WaitedNoted answers NoteWaited.
	WaitedNoted struct{ Err error }
	// LostNoted answers NoteLost.
	LostNoted struct {
		Lost claim.Lost
		Err  error
	}
	// Claimed answers SendClaim.
	Claimed struct {
		Won bool
		Err error
	}
	// StoredPositionsLoaded answers LoadStoredPositions. Newest, if it was asked for, is an upper bound of control.min.<time> of
	// all stored buckets. Nil means that it is not known.
	StoredPositionsLoaded struct {
		Stored *timeseries.PositionSet
		Newest *int64
		Err    error
	}
	// Fetched answers Fetch.
	Fetched struct {
		Batch record.Batch
		Err   error
	}
	// BoundsAsked answers AskBounds.
	BoundsAsked struct {
		Bounds record.Bounds
		Err    error
	}
	// TopicAsked answers AskTopic.
	TopicAsked struct {
		TopicID [16]byte
		Err     error
	}
	// WritesSent answers SendWrites, in the order of its writes.
	WritesSent struct{ Sent []bucketer.Sent }
	// WritesResolved answers ResolveWrites, in the order of its writes.
	WritesResolved struct {
		Found []bucketer.Result
		Err   error
	}
	// PositionsAsked answers AskPositions.
	PositionsAsked struct {
		Stored []timeseries.Position
		Err    error
	}
	// BucketsFound answers FindBuckets.
	BucketsFound struct {
		Answers []bucketer.Answer
		Err     error
	}
	// SchemaFetched answers FetchSchema.
	SchemaFetched struct {
		ID     measurement.SchemaID
		Answer SchemaAnswer
		Err    error
	}
	// RecordRead answers ReadRecord. The batch begins with the wanted record, if the log still has it.
	RecordRead struct {
		Batch record.Batch
		Err   error
	}
	// DeadLettersProduced answers ProduceDeadLetters.
	DeadLettersProduced struct {
		Written int // how many letters, from the first on
		Err     error
	}
	// Committed tells the outcome of a commit of this partition's offset.
	Committed struct {
		Offset int64
		SentAt Instant
		Err    error
	}
	// Revoked asks to hand the partition over. The answer is the action HandedOver.
	Revoked struct{ Shutdown bool }
	// SegmentsRead answers ReadSegments.
	SegmentsRead struct {
		Segments claim.Segments
		Err      error
	}
	// SegmentsChanged answers ChangeSegments.
	SegmentsChanged struct{ Err error }
	// FrozenRead answers ReadFrozen.
	FrozenRead struct {
		Segments claim.Segments
		Err      error
	}
	// CompactedInserted answers InsertCompacted, in the order of its writes.
	CompactedInserted struct{ Sent []bucketer.Sent }
	// CompactedDeleted answers DeleteCompacted.
	CompactedDeleted struct{ Err error }
	// SegmentsSwept answers SweepSegments.
	SegmentsSwept struct{ Err error }
	// CompactionAsked means that an operator's command waits until all present segments are compacted.
	CompactionAsked struct{}
	// Released answers SendRelease.
	Released struct{ Err error }
	// Abandoned ends the term at once. Actions under way were cancelled and have returned; their events do not come any more.
	Abandoned struct{}
	// CollectionChanged means that the options of the collection have changed.
	CollectionChanged struct{ Options timeseries.Options }
	// Dropped means that the partition belongs to another process now, so its state in memory is useless.
	Dropped struct{}
)
