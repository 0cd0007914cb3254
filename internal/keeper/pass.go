package keeper

import (
	"cmp"
	"context"
	"hash/fnv"
	"maps"
	"math"
	"slices"
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
		return true, w.compute(ctx, t.runs(), nil, t) // before the watermark moves, so that it is repeated after a crash
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
			return newDamagedError(d, err)
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

// compute computes the rows of runs of hours, then the rows of their days and of other days, and then the nested documents.
func (w *work) compute(ctx context.Context, hours, days []run, t *touched) error {
	for _, r := range hours {
		if err := w.hours(ctx, r, t); err != nil {
			return err
		}
	}
	days = slices.Concat(hours, days)
	if err := w.days(ctx, days); err != nil {
		return err
	}
	return w.nest(ctx, monthsOf(days))
}

// touched is a set of hours of series, with the number of measurements that were stored in each since the last pass.
type touched struct {
	series map[string]map[int64]int64 // by timeseries.Key of the meta and start of the hour
	hours  int
	most   int // hours that may be held. Zero means no limit.
	// The series are divided into parts by hash. Only the series of one part are held.
	part, parts uint64
}

func newTouched(most int, part, parts uint64) *touched {
	return &touched{series: map[string]map[int64]int64{}, most: most, part: part, parts: parts}
}

// add adds one measurement. False means that there are more hours than may be held. A single series is always held.
func (t *touched) add(meta bson.RawValue, hour int64) bool {
	key := timeseries.Key(meta)
	if t.parts > 1 && hashOf(key)%t.parts != t.part {
		return true
	}
	hours := t.series[key]
	if hours == nil {
		hours = map[int64]int64{}
		t.series[key] = hours
	}
	if hours[hour] == 0 {
		t.hours++
	}
	hours[hour]++
	return t.most == 0 || t.hours <= t.most || len(t.series) == 1
}

func hashOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// metaOf returns the meta of a timeseries.Key.
func metaOf(key string) bson.RawValue {
	if key == "" {
		return bson.RawValue{}
	}
	return bson.RawValue{Type: bson.Type(key[0]), Value: []byte(key[1:])}
}

// run is a span of time [from, to) of whole hours, and the series to compute there.
type run struct {
	from, to int64
	keys     []string
}

// runs returns the touched hours as runs of consecutive hours of one day. Series that were touched in the same hours share a run,
// in the order of their keys.
func (t *touched) runs() []run {
	type span struct{ from, to int64 }
	bySpan := map[span][]string{}
	for _, key := range slices.Sorted(maps.Keys(t.series)) {
		hours := slices.Sorted(maps.Keys(t.series[key]))
		for i := 0; i < len(hours); {
			from, to := hours[i], hours[i]+hourMs
			day := rollup.FloorTo(from, dayMs)
			for i++; i < len(hours) && hours[i] == to && hours[i] < day+dayMs; i++ {
				to += hourMs
			}
			bySpan[span{from, to}] = append(bySpan[span{from, to}], key)
		}
	}
	var all []run
	for s, keys := range bySpan {
		all = append(all, run{s.from, s.to, keys})
	}
	slices.SortFunc(all, func(a, b run) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return all
}

// late returns how many measurements were stored for an hour of a series since the last pass.
func (t *touched) late(key string, hour int64) int64 {
	if t == nil {
		return 0
	}
	return t.series[key][hour]
}

const (
	hourMs = int64(60 * 60 * 1000)
	dayMs  = 24 * hourMs
)

// scan adds the measurements of a stored document that have positions in [from, to). False means that there are more hours than
// may be held.
func (t *touched) scan(u *timeseries.Unpacker, document bson.Raw, from, to int64) (bool, error) {
	if err := u.Reset(document); err != nil {
		return true, err
	}
	var m timeseries.Unpacked
	for u.Next(&m) {
		if m.Position.Offset < from || m.Position.Offset >= to {
			continue
		}
		if !t.add(m.Meta, rollup.FloorTo(m.Time, hourMs)) {
			return false, nil
		}
	}
	return true, u.Err()
}

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
	err = free.compute(ctx, hours.runs(), days.runs(), nil)
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
		for hour := rollup.FloorTo(first, hourMs); hour <= last; hour += hourMs {
			into.add(meta, hour)
		}
	})
}
