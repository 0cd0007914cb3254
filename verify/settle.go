package verify

import (
	"context"

	"waterwheel/timeseries"
)

// settle compares what the log says with what buckets list.
func (w *window) settle(ctx context.Context) error {
	if err := w.recount(ctx, w.again); err != nil {
		return err
	}
	missing := w.absent()
	if err := w.lookAgain(ctx, missing); err != nil {
		return err
	}
	missing.without(w.stored).each(func(p timeseries.Position) { w.found.Missing.add(p, w.Examples) })
	w.bad.each(w.judgeBad)
	w.stored.without(w.valid).each(func(p timeseries.Position) { w.found.Unknown.add(p, w.Examples) })
	if err := w.settleDoubles(ctx, w.twice.and(w.valid)); err != nil {
		return err
	}
	once := w.stored.and(w.valid)
	w.found.Valid, w.found.Bad = w.valid.count(), w.bad.count()
	w.found.StoredOnce = once.count() - w.found.Doubled.Count
	if once.count() > 0 {
		w.firstStored, _ = once.span()
	}
	return nil
}

// absent returns what is not stored and should be; what need not be is counted.
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

// judgeBad looks for the letter of what could not be decoded. What is stored all the same counts as unknown.
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

// lookAgain asks once more for what seems to be missing, before anybody is told: a query beside writers may pass a
// bucket over that moves in the index meanwhile, or its segment that is settled, and a new primary may for a moment show less than
// was acknowledged.
func (w *window) lookAgain(ctx context.Context, missing *set) error {
	if missing.count() == 0 {
		return nil
	}
	w.progress("looking again for what is missing", w.end)
	return w.recount(ctx, missing)
}
