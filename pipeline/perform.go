package pipeline

import (
	"context"
	"sync/atomic"

	"waterwheel/internal/record"
)

// executor carries out the actions of one worker, one action per call. Calls may overlap as far as the ports allow. It also
// tells the budget what the worker holds and will get, and the commit plan what the worker wants committed.
type executor struct {
	worker  *Worker
	ports   Ports
	letters Letters
	budget  *Budget
	log     Log // log and store are of the partition opened last
	store   Store

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

// perform carries out an action that an event answers, and returns that event.
func (x *executor) perform(ctx context.Context, action Action) Event {
	switch a := action.(type) {
	case ReadClaim:
		return x.readClaim(ctx)
	case WatchClaim:
		seen, err := x.store.Read(ctx)
		return ClaimWatched{seen, err}
	case NoteWaited:
		return WaitedNoted{x.store.NoteWaited(ctx, a.Claim, a.Waited)}
	case NoteLost:
		return LostNoted{a.Lost, x.store.NoteLost(ctx, a.Lost)}
	case SendClaim:
		won, err := x.store.Claim(ctx, a.Seen, a.Claim)
		return Claimed{won, err}
	case LoadStored:
		stored, err := x.store.Stored(ctx, a.Start, a.End)
		if err != nil || !a.Newest {
			return StoredLoaded{Stored: stored, Err: err}
		}
		return StoredLoaded{Stored: stored, Newest: x.newest(ctx)}
	case Fetch:
		batch, err := x.fetch(ctx, a.Offset)
		return Fetched{batch, err}
	case ReadRecord:
		batch, err := x.fetch(ctx, a.Offset)
		return RecordRead{batch, err}
	case FetchSchema:
		answer, err := x.ports.Schemas().Schema(ctx, x.worker.o.Partition.Topic, a.ID)
		return SchemaFetched{a.ID, answer, err}
	case AskBounds:
		bounds, err := x.log.Bounds(ctx)
		return BoundsAsked{bounds, err}
	case AskTopic:
		id, err := x.ports.TopicID(ctx, x.worker.o.Partition.Topic)
		return TopicAsked{id, err}
	case SendWrites:
		return WritesSent{x.store.Send(ctx, a.Writes)}
	case ResolveWrites:
		found, err := x.store.Resolve(ctx, a.Writes)
		return WritesResolved{found, err}
	case AskPositions:
		stored, err := x.store.Positions(ctx, a.Write)
		return PositionsAsked{stored, err}
	case FindBuckets:
		answers, err := x.store.Find(ctx, a.Lookups)
		x.budget.Found(x.worker, answerBytes(answers))
		return BucketsFound{answers, err}
	case ProduceLetters:
		written, err := x.letters.Produce(ctx, a.Letters)
		return LettersProduced{written, err}
	case ReadSegments:
		segments, err := x.store.Segments(ctx)
		return SegmentsRead{segments, err}
	case ChangeSegments:
		return SegmentsChanged{x.store.ChangeSegments(ctx, a.Compaction, a.Change, a.Segments)}
	case ReadFrozen:
		segments, err := x.store.Frozen(ctx, a.Compaction)
		return FrozenRead{segments, err}
	case InsertCompacted:
		return CompactedInserted{x.store.Send(ctx, a.Writes)}
	case DeleteCompacted:
		return CompactedDeleted{x.store.DeleteCompacted(ctx, a.Compaction)}
	case SweepSegments:
		return SegmentsSwept{x.store.Sweep(ctx, a.Segments, a.Before)}
	case SendRelease:
		return Released{x.store.Release(ctx)}
	}
	panic("pipeline: an action without a way to carry it out")
}

// readClaim asks MongoDB and Kafka in turn. An error counts for the server that was asked. A former owner commits before it
// releases its claim, so the committed offset is read after the document.
func (x *executor) readClaim(ctx context.Context) ClaimRead {
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

// newest asks for the time of the newest bucket. The answer only saves look-ups, so an error is ignored.
func (x *executor) newest(ctx context.Context) *int64 {
	newest, err := x.store.Newest(ctx)
	if err != nil {
		return nil
	}
	return &newest
}

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
