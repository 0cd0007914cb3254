package pipeline

import (
	"context"
	"sync/atomic"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// Action is something that a Worker wants done. Each action is carried out once, concurrently with others, and answered by its
// event.
type Action interface {
	// perform carries the action out, and returns the event that answers it.
	perform(ctx context.Context, x *executor) Event
}

// forRunner is an action that no event answers. The runner carries it out itself, at once.
type forRunner struct{}

func (forRunner) perform(context.Context, *executor) Event {
	panic("pipeline: this action is the runner's")
}

// Open makes the ports of the partition ready for this source. It precedes any other action for the source.
type Open struct {
	forRunner
	Source timeseries.Source
}

// CommitNow asks for a commit of Worker.Want without waiting for the interval, even if the offset was committed before.
type CommitNow struct{ forRunner }

// HandedOver answers Revoked: everything is flushed and committed, or nothing more can be.
type HandedOver struct{ forRunner }

// ReadClaim reads the partition document, then the group's committed offset and the log's bounds.
type ReadClaim struct{}

// perform asks MongoDB and Kafka in turn. An error counts for the server that was asked. A former owner commits before it
// releases its claim, so the committed offset is read after the document.
func (ReadClaim) perform(ctx context.Context, x *executor) Event {
	seen, err := x.store.Read(ctx)
	if err != nil {
		return ClaimRead{Of: MongoDB, Err: err}
	}
	committed, err := x.ports.Committed(ctx, x.worker.o.Partition)
	if err != nil {
		return ClaimRead{Of: Kafka, Err: err}
	}
	partitions, err := x.log.Partitions(ctx)
	if err != nil {
		return ClaimRead{Committed: committed, Of: Kafka, Err: err}
	}
	first, err := x.store.FirstPartitions(ctx, partitions)
	if err != nil {
		return ClaimRead{Of: MongoDB, Err: err}
	}
	bounds, err := x.log.Bounds(ctx)
	return ClaimRead{Seen: seen, Committed: committed, FirstPartitions: first, Bounds: bounds, Of: Kafka, Err: err}
}

// WatchClaim reads the partition document only.
type WatchClaim struct{}

func (WatchClaim) perform(ctx context.Context, x *executor) Event {
	seen, err := x.store.Read(ctx)
	return ClaimWatched{seen, err}
}

// NoteWaited writes the time waited for the claim into the partition document, if the document still shows that claim.
type NoteWaited struct {
	Claim  claim.Token
	Waited time.Duration
}

func (a NoteWaited) perform(ctx context.Context, x *executor) Event {
	return WaitedNoted{x.store.NoteWaited(ctx, a.Claim, a.Waited)}
}

// NoteLost writes lost offsets into the partition document, if the document still shows our claim. The log lost them before
// they were read.
type NoteLost struct{ Lost claim.Lost }

func (a NoteLost) perform(ctx context.Context, x *executor) Event {
	return LostNoted{a.Lost, x.store.NoteLost(ctx, a.Lost)}
}

// SendClaim claims the partition, if its document still shows the claim seen.
type SendClaim struct {
	Seen  claim.Document
	Claim claim.Claim
}

func (a SendClaim) perform(ctx context.Context, x *executor) Event {
	won, err := x.store.Claim(ctx, a.Seen, a.Claim)
	return Claimed{won, err}
}

// LoadStoredPositions reads the stored positions for the offsets [Start, End), and the time of the newest bucket if Newest is set.
type LoadStoredPositions struct {
	Start, End int64
	Newest     bool
}

func (a LoadStoredPositions) perform(ctx context.Context, x *executor) Event {
	stored, err := x.store.Stored(ctx, a.Start, a.End)
	if err != nil || !a.Newest {
		return StoredPositionsLoaded{Stored: stored, Err: err}
	}
	newest, err := x.store.Newest(ctx)
	if err != nil {
		return StoredPositionsLoaded{Stored: stored} // it only saves look-ups
	}
	return StoredPositionsLoaded{Stored: stored, Newest: &newest}
}

// Fetch reads the log from Offset.
type Fetch struct{ Offset int64 }

func (a Fetch) perform(ctx context.Context, x *executor) Event {
	batch, err := x.fetch(ctx, a.Offset)
	return Fetched{batch, err}
}

// AskBounds reads the log's bounds.
type AskBounds struct{}

func (AskBounds) perform(ctx context.Context, x *executor) Event {
	bounds, err := x.log.Bounds(ctx)
	return BoundsAsked{bounds, err}
}

// AskTopic reads the topic's id.
type AskTopic struct{}

func (AskTopic) perform(ctx context.Context, x *executor) Event {
	id, err := x.ports.TopicID(ctx, x.worker.o.Partition.Topic)
	return TopicAsked{id, err}
}

// SendWrites sends writes to MongoDB.
type SendWrites struct{ Writes []*bucketer.Write }

func (a SendWrites) perform(ctx context.Context, x *executor) Event {
	return WritesSent{x.store.Send(ctx, a.Writes)}
}

// ResolveWrites reads unknown writes back.
type ResolveWrites struct{ Writes []*bucketer.Write }

func (a ResolveWrites) perform(ctx context.Context, x *executor) Event {
	found, err := x.store.Resolve(ctx, a.Writes)
	return WritesResolved{found, err}
}

// AskPositions asks which positions of a write are stored.
type AskPositions struct{ Write *bucketer.Write }

func (a AskPositions) perform(ctx context.Context, x *executor) Event {
	stored, err := x.store.Positions(ctx, a.Write)
	return PositionsAsked{stored, err}
}

// FindBuckets looks stored buckets up.
type FindBuckets struct{ Lookups []bucketer.Lookup }

func (a FindBuckets) perform(ctx context.Context, x *executor) Event {
	answers, err := x.store.Find(ctx, a.Lookups)
	x.budget.Found(x.worker, answerBytes(answers))
	return BucketsFound{answers, err}
}

// FetchSchema asks the registry for a schema.
type FetchSchema struct{ ID measurement.SchemaID }

func (a FetchSchema) perform(ctx context.Context, x *executor) Event {
	answer, err := x.ports.Schemas().Schema(ctx, x.worker.o.Partition.Topic, a.ID)
	return SchemaFetched{a.ID, answer, err}
}

// ReadRecord reads one record again, for its letter.
type ReadRecord struct{ Offset int64 }

func (a ReadRecord) perform(ctx context.Context, x *executor) Event {
	batch, err := x.fetch(ctx, a.Offset)
	return RecordRead{batch, err}
}

// ProduceDeadLetters writes letters to the dead-letter topic.
type ProduceDeadLetters struct{ DeadLetters []record.DeadLetter }

func (a ProduceDeadLetters) perform(ctx context.Context, x *executor) Event {
	written, err := x.deadLetters.Produce(ctx, a.DeadLetters)
	return DeadLettersProduced{written, err}
}

// ReadSegments reads which segments the partition has.
type ReadSegments struct{}

func (ReadSegments) perform(ctx context.Context, x *executor) Event {
	segments, err := x.store.Segments(ctx)
	return SegmentsRead{segments, err}
}

// ChangeSegments freezes, ends or unfreezes some segments of a compaction.
type ChangeSegments struct {
	Compaction *claim.Compaction
	Change     claim.SegmentChange
	Segments   []claim.Segment
}

func (a ChangeSegments) perform(ctx context.Context, x *executor) Event {
	return SegmentsChanged{x.store.ChangeSegments(ctx, a.Compaction, a.Change, a.Segments)}
}

// ReadFrozen reads the segments of a compaction as a whole.
type ReadFrozen struct{ Compaction *claim.Compaction }

func (a ReadFrozen) perform(ctx context.Context, x *executor) Event {
	segments, err := x.store.Frozen(ctx, a.Compaction)
	return FrozenRead{segments, err}
}

// InsertCompacted sends buckets made of segments to MongoDB.
type InsertCompacted struct{ Writes []*bucketer.Write }

func (a InsertCompacted) perform(ctx context.Context, x *executor) Event {
	return CompactedInserted{x.store.Send(ctx, a.Writes)}
}

// DeleteCompacted deletes the buckets of a compaction.
type DeleteCompacted struct{ Compaction *claim.Compaction }

func (a DeleteCompacted) perform(ctx context.Context, x *executor) Event {
	return CompactedDeleted{x.store.DeleteCompacted(ctx, a.Compaction)}
}

// SweepSegments deletes segments that ended before a moment of MongoDB's clock.
type SweepSegments struct {
	Segments []claim.Segment
	Before   time.Time
}

func (a SweepSegments) perform(ctx context.Context, x *executor) Event {
	return SegmentsSwept{x.store.Sweep(ctx, a.Segments, a.Before)}
}

// SendRelease marks the claim as released.
type SendRelease struct{}

func (SendRelease) perform(ctx context.Context, x *executor) Event {
	return Released{x.store.Release(ctx)}
}

// executor carries out the actions of one worker, one action per call. Calls may overlap as far as the ports allow. It also
// tells the budget what the worker holds and will get, and the commit plan what the worker wants committed.
type executor struct {
	worker      *Worker
	ports       Ports
	deadLetters DeadLetters
	budget      *Budget
	log         Log // log and store are of the partition opened last
	store       Store

	want   atomic.Pointer[record.Commit] // Nil means that nothing may be committed.
	urgent atomic.Bool                   // the next commit must not wait for a change of offset
}

// give hands an event to the worker and returns the actions that follow. It records the wanted commit before it returns, so a
// commit that is asked for now finds it. Calls must not overlap.
func (x *executor) give(m Moment, e Event) []Action {
	m.Target, m.Full = x.budget.Report(x.worker, x.worker.Bytes())
	m.Compacting = x.budget.OthersCompact(x.worker)
	actions := x.worker.Handle(m, e)
	x.budget.Compacts(x.worker, x.worker.compacts())
	x.budget.Use(x.worker, x.worker.Bytes())
	if want, ok := x.worker.Want(); !ok {
		x.want.Store(nil)
	} else if old := x.want.Load(); old == nil || *old != want {
		x.want.Store(&want)
	}
	switch e := e.(type) {
	case Fetched:
		x.budget.Release(x.worker, e.Batch.Left)
	case RecordRead:
		x.budget.Release(x.worker, e.Batch.Left)
	case BucketsFound:
		x.budget.Found(x.worker, 0)
	}
	return actions
}

// leave ends a term when nothing is under way any more. No worker takes the fetched records then.
func (x *executor) leave() {
	x.log, x.store = nil, nil
	x.budget.Compacts(x.worker, false)
	x.budget.Release(x.worker, 0)
	x.budget.Found(x.worker, 0)
}

// forget drops what the worker holds in memory. It is called between terms only.
func (x *executor) forget(now Instant) {
	x.worker.Handle(Moment{Now: now}, Dropped{})
	x.budget.Leave(x.worker)
	x.want.Store(nil)
}

// open makes the ports of the partition ready.
func (x *executor) open(a Open) { x.log, x.store = x.ports.Open(a.Source) }

// fetch waits for records, and then for room to take them in. The budget counts what the fetch has brought until the worker has
// taken it.
func (x *executor) fetch(ctx context.Context, offset int64) (record.Batch, error) {
	held, err := x.log.Await(ctx, offset, x.budget.Share())
	x.budget.Fetched(x.worker, held)
	if err != nil {
		return record.Batch{}, err
	}
	bytes, err := x.budget.Reserve(ctx, x.worker)
	if err != nil {
		return record.Batch{}, err
	}
	batch, err := x.log.Take(offset, bytes)
	x.budget.Fetched(x.worker, batch.Bytes+batch.Left)
	return batch, err
}
