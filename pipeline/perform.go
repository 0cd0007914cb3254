package pipeline

import (
	"context"
	"sync/atomic"

	"waterwheel/internal/record"
)

// hands carry out what one worker wants done, one action a call; calls may overlap as far as the ports allow. They also tell
// the budget what the worker holds and will get, and the commit plan what it wants committed.
type hands struct {
	worker  *Worker
	ports   Ports
	letters Letters
	budget  *Budget
	log     Log // of the partition that was opened last, as store
	store   Store

	want   atomic.Pointer[record.Commit] // Nil means that nothing may be committed.
	urgent atomic.Bool                   // the next commit must not wait for a change of offset
}

// give hands an event to the worker and returns what it wants done. What it wants committed is known by then, so that a commit
// that is asked for now finds it. Calls must not overlap.
func (h *hands) give(m Moment, e Event) []Action {
	m.Target, m.Full = h.budget.Report(h.worker, h.worker.Bytes())
	m.Compacting = h.budget.OthersCompact(h.worker)
	actions := h.worker.Handle(m, e)
	h.budget.Compacts(h.worker, h.worker.compacts())
	h.budget.Use(h.worker, h.worker.Bytes())
	if want, ok := h.worker.Want(); !ok {
		h.want.Store(nil)
	} else if old := h.want.Load(); old == nil || *old != want {
		h.want.Store(&want)
	}
	switch e := e.(type) {
	case Fetched:
		h.budget.Release(h.worker, e.Batch.Left)
	case RecordRead:
		h.budget.Release(h.worker, e.Batch.Left)
	case BucketsFound:
		h.budget.Found(h.worker, 0)
	}
	return actions
}

// leave ends a term of which nothing is under way any more: nobody takes the fetched records.
func (h *hands) leave() {
	h.log, h.store = nil, nil
	h.budget.Compacts(h.worker, false)
	h.budget.Release(h.worker, 0)
	h.budget.Found(h.worker, 0)
}

// forget drops what the worker holds in memory. Only between terms.
func (h *hands) forget(now Instant) {
	h.worker.Handle(Moment{Now: now}, Dropped{})
	h.budget.Leave(h.worker)
	h.want.Store(nil)
}

// open makes the ports of the partition ready.
func (h *hands) open(a Open) { h.log, h.store = h.ports.Open(a.Source) }

// perform carries out an action that an event answers, and returns that.
func (h *hands) perform(ctx context.Context, action Action) Event {
	switch a := action.(type) {
	case ReadClaim:
		return h.readClaim(ctx)
	case WatchClaim:
		seen, err := h.store.Read(ctx)
		return ClaimWatched{seen, err}
	case NoteWaited:
		return WaitedNoted{h.store.NoteWaited(ctx, a.Claim, a.Waited)}
	case NoteLost:
		return LostNoted{a.Lost, h.store.NoteLost(ctx, a.Lost)}
	case SendClaim:
		won, err := h.store.Claim(ctx, a.Seen, a.Claim)
		return Claimed{won, err}
	case LoadStored:
		stored, err := h.store.Stored(ctx, a.Start, a.End)
		if err != nil || !a.Newest {
			return StoredLoaded{Stored: stored, Err: err}
		}
		return StoredLoaded{Stored: stored, Newest: h.newest(ctx)}
	case Fetch:
		batch, err := h.fetch(ctx, a.Offset)
		return Fetched{batch, err}
	case ReadRecord:
		batch, err := h.fetch(ctx, a.Offset)
		return RecordRead{batch, err}
	case FetchSchema:
		answer, err := h.ports.Schemas().Schema(ctx, h.worker.o.Partition.Topic, a.ID)
		return SchemaFetched{a.ID, answer, err}
	case AskBounds:
		bounds, err := h.log.Bounds(ctx)
		return BoundsAsked{bounds, err}
	case AskTopic:
		id, err := h.ports.TopicID(ctx, h.worker.o.Partition.Topic)
		return TopicAsked{id, err}
	case SendWrites:
		return WritesSent{h.store.Send(ctx, a.Writes)}
	case ResolveWrites:
		found, err := h.store.Resolve(ctx, a.Writes)
		return WritesResolved{found, err}
	case AskPositions:
		stored, err := h.store.Positions(ctx, a.Write)
		return PositionsAsked{stored, err}
	case FindBuckets:
		answers, err := h.store.Find(ctx, a.Lookups)
		h.budget.Found(h.worker, answerBytes(answers))
		return BucketsFound{answers, err}
	case ProduceLetters:
		written, err := h.letters.Produce(ctx, a.Letters)
		return LettersProduced{written, err}
	case ReadSegments:
		segments, err := h.store.Segments(ctx)
		return SegmentsRead{segments, err}
	case ChangeSegments:
		return SegmentsChanged{h.store.ChangeSegments(ctx, a.Compaction, a.Change, a.Segments)}
	case ReadFrozen:
		segments, err := h.store.Frozen(ctx, a.Compaction)
		return FrozenRead{segments, err}
	case InsertCompacted:
		return CompactedInserted{h.store.Send(ctx, a.Writes)}
	case DeleteCompacted:
		return CompactedDeleted{h.store.DeleteCompacted(ctx, a.Compaction)}
	case SweepSegments:
		return SegmentsSwept{h.store.Sweep(ctx, a.Segments, a.Before)}
	case SendRelease:
		return Released{h.store.Release(ctx)}
	}
	panic("pipeline: an action without a way to carry it out")
}

// readClaim asks MongoDB and Kafka in turn; an error counts as that of the server asked. A former owner commits before it
// releases its claim: the committed offset is read after the document.
func (h *hands) readClaim(ctx context.Context) ClaimRead {
	seen, err := h.store.Read(ctx)
	if err != nil {
		return ClaimRead{Of: MongoDB, Err: err}
	}
	committed, err := h.ports.Committed(ctx, h.worker.o.Partition)
	if err != nil {
		return ClaimRead{Of: Kafka, Err: err}
	}
	partitions, err := h.log.Partitions(ctx)
	if err != nil {
		return ClaimRead{Committed: committed, Of: Kafka, Err: err}
	}
	first, err := h.store.FirstPartitions(ctx, partitions)
	if err != nil {
		return ClaimRead{Of: MongoDB, Err: err}
	}
	bounds, err := h.log.Bounds(ctx)
	return ClaimRead{Seen: seen, Committed: committed, FirstPartitions: first, Bounds: bounds, Of: Kafka, Err: err}
}

// newest asks of which time the newest bucket is. It saves look-ups and nothing depends on it: without an answer none is saved.
func (h *hands) newest(ctx context.Context) *int64 {
	newest, err := h.store.Newest(ctx)
	if err != nil {
		return nil
	}
	return &newest
}

// fetch waits for records, and then for the memory to take them in; what it brought counts until the worker has taken it.
func (h *hands) fetch(ctx context.Context, offset int64) (record.Batch, error) {
	held, err := h.log.Await(ctx, offset, h.budget.Share())
	h.budget.Fetched(h.worker, held)
	if err != nil {
		return record.Batch{}, err
	}
	bytes, err := h.budget.Reserve(ctx, h.worker)
	if err != nil {
		return record.Batch{}, err
	}
	batch, err := h.log.Take(offset, bytes)
	h.budget.Fetched(h.worker, batch.Bytes+batch.Left)
	return batch, err
}
