package keeper

import (
	"context"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// Partition is a partition that this process owns at a certain moment.
type Partition struct {
	sink.Owned
	// Done is the offset below which everything is stored, or need not be.
	Done int64
	// Age is the age of the oldest record that is not done. Known reports whether Age is valid.
	Age   time.Duration
	Known bool
	// Seen is the moment of this state, by the clock of this process.
	Seen time.Time
}

// mostHours bounds the touched hours of series in memory. If there are more, the series are processed in parts, one after the
// other.
const mostHours = 1 << 20

// allOffsets does not limit a pass.
const allOffsets = math.MaxInt64

// pass brings the rollups of a partition up to what is done now, but not by more than most offsets. complete reports that nothing
// is left.
func (w *work) pass(ctx context.Context, p *Partition, most int64) (complete bool, err error) {
	now, err := w.rollups.Clock(ctx)
	if err != nil {
		return false, err
	}
	since := w.now().Sub(p.Seen)
	marks, err := w.rollups.Fence(ctx, &p.Owned)
	if err != nil {
		return false, err
	}
	complete = true
	next := make([]rollup.Watermark, 0, len(marks))
	for _, mark := range marks {
		former := mark.Topic() != p.Source.TopicID
		to := p.Done
		if former {
			to = math.MaxInt64 // nothing is stored any more under a former topic id
		} else {
			if to-mark.Below > most {
				to, complete = mark.Below+most, false
			}
			w.tried = to - mark.Below
		}
		if err := w.positions(ctx, timeseries.Source{TopicID: mark.Topic(), Partition: p.Source.Partition}, mark.Below, to); err != nil {
			return false, err
		}
		if former {
			continue
		}
		mark.Below = max(mark.Below, to)
		if p.Known && complete {
			at := now.Add(-p.Age - since).UTC()
			mark.At = &at
		}
		next = append(next, mark)
	}
	moved, err := w.rollups.Move(ctx, &p.Owned, marks, next)
	if err == nil && !moved { // The claim was lost, or a claim has lowered the watermark. Another pass repeats the work.
		err = claim.ErrOtherOwner
	}
	return complete, err
}

// positions computes the hours in which a source has measurements with offsets in [from, to).
func (w *work) positions(ctx context.Context, source timeseries.Source, from, to int64) error {
	if from >= to {
		return nil
	}
	return w.inParts(func(t *touched) (fits bool, err error) {
		if fits, err = w.scan(ctx, source, from, to, t); err != nil || !fits {
			return fits, err
		}
		runs := t.runs()
		if err := w.compute(ctx, runs, t); err != nil {
			return true, err
		}
		if err := w.days(ctx, runs); err != nil {
			return true, err
		}
		return true, w.nest(ctx, monthsOf(runs)) // before the watermark moves, so that it is repeated after a crash
	})
}

// inParts calls do for all series at once. If they touch more hours than may be held, it calls do for parts of the series, one
// after the other. It increases the number of parts until each fits, and repeats what was done with fewer parts.
func (w *work) inParts(do func(t *touched) (fits bool, err error)) error {
	for parts := uint64(1); ; parts *= 4 {
		fits, err := true, error(nil)
		for part := uint64(0); part < parts && fits && err == nil; part++ {
			fits, err = do(newTouched(w.most, part, parts))
		}
		if fits || err != nil {
			return err
		}
	}
}

// scan finds the touched hours. False means that there are more hours than may be held.
func (w *work) scan(ctx context.Context, source timeseries.Source, from, to int64, t *touched) (fits bool, err error) {
	began := w.now()
	u := timeseries.NewUnpacker(w.state.Options)
	full := false
	err = w.rollups.Listed(ctx, w.state.Options, source, from, to, func(d bson.Raw) error {
		fits, err := t.scan(u, d, from, to)
		if err != nil {
			return &DamagedError{ID: d.Lookup(timeseries.FieldID).String(), Err: err}
		}
		if full = !fits; full {
			return errFull
		}
		return nil
	})
	if full {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	return true, w.rest(ctx, w.now().Sub(began))
}

// compute computes the rows of runs of hours.
func (w *work) compute(ctx context.Context, runs []run, t *touched) error {
	for _, r := range runs {
		if err := w.hours(ctx, r, t); err != nil {
			return err
		}
	}
	return nil
}
