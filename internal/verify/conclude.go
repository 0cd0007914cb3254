package verify

import (
	"context"

	"waterwheel/internal/timeseries"
)

// conclude compares the measurements in the log with those that buckets list.
func (w *window) conclude(ctx context.Context) error {
	if err := w.recount(ctx, w.again); err != nil {
		return err
	}
	missing := w.absent()
	if err := w.lookAgain(ctx, missing); err != nil {
		return err
	}
	if err := w.judgeMissing(ctx, missing.without(w.stored)); err != nil {
		return err
	}
	w.bad.each(w.judgeBad)
	compacted := w.judgeSurplus()
	if err := w.judgeDoubles(ctx, w.twice.without(w.twice.without(w.valid).without(compacted))); err != nil {
		return err
	}
	compacted.without(w.doubled).each(func(p timeseries.Position) { w.found.Compacted.add(p, w.Examples) })
	once := w.stored.and(w.valid)
	w.found.Valid, w.found.Bad = w.valid.count(), w.bad.count()
	w.found.StoredOnce = once.without(w.doubled).count()
	if once.count() > 0 {
		w.firstStored, _ = once.span()
	}
	return nil
}

// judgeMissing separates measurements that a command has deleted from missing ones. The notes are read after the buckets, so they
// include deletions in between.
func (w *window) judgeMissing(ctx context.Context, missing *set) error {
	if missing.count() > 0 && w.Notes != nil {
		from, to := missing.span()
		deleted := newSet(w.start)
		err := w.Notes.Deleted(ctx, w.rng.Source, from, to, func(p timeseries.Position) { deleted.add(p) })
		if err != nil {
			return err
		}
		missing.and(deleted).each(func(p timeseries.Position) { w.found.Deleted.add(p, w.Examples) })
		missing = missing.without(deleted)
	}
	missing.each(func(p timeseries.Position) { w.found.Missing.add(p, w.Examples) })
	return nil
}

// judgeSurplus looks at stored positions for which the log has no valid measurement. It returns the positions at whose offset the
// log has no record at all, and counts the others as unknown.
func (w *window) judgeSurplus() (compacted *set) {
	compacted = newSet(w.start)
	w.stored.without(w.valid).each(func(p timeseries.Position) {
		record := timeseries.Position{Offset: p.Offset} // the position of the record, or of its first measurement
		if w.valid.has(record) || w.bad.has(record) || w.empty.has(record) {
			w.found.Unknown.add(p, w.Examples)
		} else {
			compacted.add(p)
		}
	})
	return compacted
}

// absent returns the positions that are missing. It counts those that need not be stored.
func (w *window) absent() *set {
	missing := newSet(w.start)
	w.valid.without(w.stored).each(func(p timeseries.Position) {
		switch {
		case w.lettered(p):
			w.found.DeadLettered++
		case w.old.has(p):
			w.found.Expired++
		default:
			missing.add(p)
		}
	})
	return missing
}

func (w *window) lettered(p timeseries.Position) bool {
	return w.Letters.has(w.rng.Source.Partition, p)
}

// judgeBad looks for the dead letters of records that could not be decoded. judgeSurplus counts their stored positions as
// unknown.
func (w *window) judgeBad(p timeseries.Position) {
	switch {
	case w.lettered(p):
		w.found.DeadLettered++
	case w.stored.has(p):
	case w.Letters.deleted:
		w.found.LetterDeleted.add(p, w.Examples)
	default:
		w.found.LetterMissing.add(p, w.Examples)
	}
}

// lookAgain looks once more for the measurements that seem to be missing, before they are reported. A query that runs while
// others write may miss a bucket that moves in the index meanwhile, or a segment that is compacted. A new primary may for a
// moment show less than was acknowledged.
func (w *window) lookAgain(ctx context.Context, missing *set) error {
	if missing.count() == 0 {
		return nil
	}
	w.progress("looking again for missing measurements", w.end)
	return w.recount(ctx, missing)
}
