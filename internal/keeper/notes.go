package keeper

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
	"waterwheel/sink"
)

// noteAge is the age at which a note counts as abandoned, although it was never marked as edited.
const noteAge = 7 * 24 * time.Hour

// noteLinger is how long after the end of an edit its rows are computed once more, before the note is removed. This corrects a
// document that a keeper computed before the edit and inserted after the rows were computed. No write is executed so long after
// its computation.
const noteLinger = 10 * time.Minute

// note computes all rows of the series of a note again. whole reports that queries saw the whole edit by then. over reports that
// it has removed the note.
func (w *work) note(ctx context.Context, n *sink.RollupNote) (whole, over bool, err error) {
	now, err := w.rollups.Clock(ctx)
	if err != nil {
		return false, false, err
	}
	whole = !n.Edited.IsZero() && !now.Before(n.Edited)
	over = !n.Edited.IsZero() && now.Sub(n.Edited) >= w.linger || now.Sub(n.At) > noteAge
	hours, days := newTouched(0, 0, 1), newTouched(0, 0, 1)
	for _, meta := range n.Metas {
		if err := w.extents(ctx, meta, hours, days); err != nil {
			return false, false, err
		}
	}
	free := *w
	free.free, free.purges = true, n.Deletes
	err = free.compute(ctx, hours.runs(), nil)
	if err == nil {
		err = free.days(ctx, append(hours.runs(), days.runs()...))
	}
	if err == nil {
		err = free.nest(ctx, monthsOf(append(hours.runs(), days.runs()...)))
	}
	w.size = free.size
	if err != nil || !over {
		return whole, false, err
	}
	return whole, true, w.rollups.NoteDone(ctx, n)
}

// extents adds the hours in which a series may have measurements or rows, and the days for which it has day rows.
func (w *work) extents(ctx context.Context, meta bson.RawValue, hours, days *touched) error {
	return w.rollups.Extents(ctx, w.state.Options, w.state.Levels, meta, func(level string, first, last int64) {
		if last < first || last-first > max(32*dayMs, w.state.Options.Span()) {
			return // edited by hand
		}
		into := hours
		if level == rollup.Day {
			into = days
		}
		for hour := floorTo(first, hourMs); hour <= last; hour += hourMs {
			into.add(meta, hour)
		}
	})
}
