package pipeline

import (
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// Moment is what a Worker may know of the world beside the event.
type Moment struct {
	Now Instant
	// Held means that the lease of the partition holds, claims and writes may be sent.
	Held bool
	// Renewed is the send time of the newest commit known to be accepted while we owned the partition. Zero means none.
	Renewed Instant
	// Target is how many bytes the worker may use while the process is near its memory budget or over it. Zero means no such
	// bound now. Full: it is over it.
	Target int64
	Full   bool
	// Compacting means that another partition of the process compacts segments, which takes memory.
	Compacting bool
}

// Event is something that happened to a partition. One that answers an action comes exactly once for it.
type Event interface{ event() }

// The events.
type (
	// Assigned begins a term: the partition was given to this process.
	Assigned struct {
		TopicID [16]byte
		// Beside means that another program was in the group since this process is. What this one has not committed, that one has, after
		// it had read up to it.
		Beside bool
		// From, when not nil, counts in the place of what the group has committed.
		From *claim.Committed
		// Consecutive means that the partition was ours in the generation just before, too.
		Consecutive bool
	}
	// Ticked means that some time passed.
	Ticked struct{}
	// ClaimRead answers ReadClaim; Of is the server that failed. Committed is what the group had committed after the document
	// was read, also when the topic turns out to be gone. FirstPartitions is how many partitions the topic had when the collection first
	// saw it under its present id, 0 when it knows the topic under another id only.
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
	// StoredLoaded answers LoadStored. Newest, where it was asked for, bounds control.min.<time> of what is stored. Nil means that it is
	// not known.
	StoredLoaded struct {
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
	// WritesSent answers SendWrites, by its writes.
	WritesSent struct{ Sent []bucketer.Sent }
	// WritesResolved answers ResolveWrites, by its writes.
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
	// LettersProduced answers ProduceLetters.
	LettersProduced struct {
		Written int // letters, from the first on
		Err     error
	}
	// Committed tells what became of a commit of this partition's offset.
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
	// CompactedInserted answers InsertCompacted, by its writes.
	CompactedInserted struct{ Sent []bucketer.Sent }
	// CompactedDeleted answers DeleteCompacted.
	CompactedDeleted struct{ Err error }
	// SegmentsSwept answers SweepSegments.
	SegmentsSwept struct{ Err error }
	// CompactionAsked tells that an operator's command waits until all present segments are compacted.
	CompactionAsked struct{}
	// Released answers SendRelease.
	Released struct{ Err error }
	// Abandoned ends the term at once. Actions that were under way have been cancelled and have returned; their events
	// do not come any more.
	Abandoned struct{}
	// CollectionChanged means that the options of the collection are others from now on.
	CollectionChanged struct{ Options timeseries.Options }
	// Dropped tells that the partition belongs to another process now, so its state in memory is of no use.
	Dropped struct{}
)

func (Assigned) event()          {}
func (Ticked) event()            {}
func (ClaimRead) event()         {}
func (ClaimWatched) event()      {}
func (WaitedNoted) event()       {}
func (LostNoted) event()         {}
func (Claimed) event()           {}
func (StoredLoaded) event()      {}
func (Fetched) event()           {}
func (BoundsAsked) event()       {}
func (TopicAsked) event()        {}
func (WritesSent) event()        {}
func (WritesResolved) event()    {}
func (PositionsAsked) event()    {}
func (BucketsFound) event()      {}
func (SchemaFetched) event()     {}
func (RecordRead) event()        {}
func (LettersProduced) event()   {}
func (SegmentsRead) event()      {}
func (SegmentsChanged) event()   {}
func (FrozenRead) event()        {}
func (CompactedInserted) event() {}
func (CompactedDeleted) event()  {}
func (SegmentsSwept) event()     {}
func (CompactionAsked) event()   {}
func (Committed) event()         {}
func (Revoked) event()           {}
func (Released) event()          {}
func (Abandoned) event()         {}
func (CollectionChanged) event() {}
func (Dropped) event()           {}

// Action is something a Worker wants done. Each is carried out once, beside the others, and answered by its event.
type Action interface{ action() }

// The actions.
type (
	// Open makes the ports of the partition ready for this source, before any other action for it.
	Open struct{ Source timeseries.Source }
	// ReadClaim reads the partition document, then what the group has committed, and the log's bounds.
	ReadClaim struct{}
	// WatchClaim reads the partition document alone.
	WatchClaim struct{}
	// NoteWaited writes into the partition document, if it still shows the claim, how long that was waited for.
	NoteWaited struct {
		Claim  claim.Token
		Waited time.Duration
	}
	// NoteLost writes into the partition document, if it still shows our claim, what the log lost before it was read.
	NoteLost struct{ Lost claim.Lost }
	// SendClaim claims the partition, if its document still shows what was seen.
	SendClaim struct {
		Seen  claim.Document
		Claim claim.Claim
	}
	// LoadStored reads D for the offsets [Start, End), and of which time the newest bucket is, if the catalog is to know.
	LoadStored struct {
		Start, End int64
		Newest     bool
	}
	// Fetch reads the log from Offset.
	Fetch struct{ Offset int64 }
	// AskBounds reads the log's bounds.
	AskBounds struct{}
	// AskTopic reads the topic's id.
	AskTopic struct{}
	// SendWrites sends writes to MongoDB.
	SendWrites struct{ Writes []*bucketer.Write }
	// ResolveWrites reads unknown writes back.
	ResolveWrites struct{ Writes []*bucketer.Write }
	// AskPositions asks which positions of a write are stored.
	AskPositions struct{ Write *bucketer.Write }
	// FindBuckets looks stored buckets up.
	FindBuckets struct{ Lookups []bucketer.Lookup }
	// FetchSchema asks the registry for a schema.
	FetchSchema struct{ ID measurement.SchemaID }
	// ReadRecord reads one record again, for its letter.
	ReadRecord struct{ Offset int64 }
	// ProduceLetters writes letters to the dead-letter topic.
	ProduceLetters struct{ Letters []record.Letter }
	// ReadSegments reads which segments the partition has.
	ReadSegments struct{}
	// ChangeSegments freezes, ends or unfreezes some segments of a compaction.
	ChangeSegments struct {
		Compaction *claim.Compaction
		Change     claim.SegmentChange
		Segments   []claim.Segment
	}
	// ReadFrozen reads the segments of a compaction as a whole.
	ReadFrozen struct{ Compaction *claim.Compaction }
	// InsertCompacted sends buckets made of segments to MongoDB.
	InsertCompacted struct{ Writes []*bucketer.Write }
	// DeleteCompacted deletes the buckets of a compaction.
	DeleteCompacted struct{ Compaction *claim.Compaction }
	// SweepSegments deletes segments that ended before a moment of MongoDB's clock.
	SweepSegments struct {
		Segments []claim.Segment
		Before   time.Time
	}
	// CommitNow asks for a commit of Worker.Want without waiting for the interval, even of an offset committed before.
	CommitNow struct{}
	// SendRelease marks the claim as released.
	SendRelease struct{}
	// HandedOver answers Revoked: everything is flushed and committed, or nothing can be.
	HandedOver struct{}
)

func (Open) action()            {}
func (ReadClaim) action()       {}
func (WatchClaim) action()      {}
func (NoteWaited) action()      {}
func (NoteLost) action()        {}
func (SendClaim) action()       {}
func (LoadStored) action()      {}
func (Fetch) action()           {}
func (AskBounds) action()       {}
func (AskTopic) action()        {}
func (SendWrites) action()      {}
func (ResolveWrites) action()   {}
func (AskPositions) action()    {}
func (FindBuckets) action()     {}
func (FetchSchema) action()     {}
func (ReadRecord) action()      {}
func (ProduceLetters) action()  {}
func (ReadSegments) action()    {}
func (ChangeSegments) action()  {}
func (ReadFrozen) action()      {}
func (InsertCompacted) action() {}
func (DeleteCompacted) action() {}
func (SweepSegments) action()   {}
func (CommitNow) action()       {}
func (SendRelease) action()     {}
func (HandedOver) action()      {}
