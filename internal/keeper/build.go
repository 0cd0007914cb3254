package keeper

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// Command is work on rollups that an operator requests, beside the work of keepers.
type Command struct{ w *work }

// NewCommand prepares work on the rollups of a time series. The error is collection.ErrNotSetUp if there is no such time series.
func NewCommand(ctx context.Context, r *sink.Rollups) (*Command, error) {
	state, err := r.State(ctx)
	if err != nil {
		return nil, err
	}
	return &Command{newWork(r, state, NewMetrics(nil))}, nil
}

// Levels returns the levels of the time series.
func (c *Command) Levels() rollup.Levels { return c.w.state.Levels }

// Defined returns how rows are made, and since when each level is complete.
func (c *Command) Defined() rollup.Definition { return c.w.state.Defined }

// Range is the span of time [From, To) of a command, and its selection of series.
type Range struct {
	From, To time.Time
	// Filter is a query on buckets. Nil selects all series.
	Filter bson.Raw
}

// eachDay calls each for the days of a range, with the series that have measurements or rows there. The first and the last day may
// be cut to whole hours. After a day without any series eachDay continues at the next day with a bucket or a row.
func (c *Command) eachDay(ctx context.Context, r *Range, each func(of run) error) error {
	unordered := map[int64]bool{} // days whose buckets no index finds by time
	err := c.w.rollups.Unordered(ctx, c.w.state.Options, c.w.state.Levels, func(first, _ int64) { unordered[rollup.FloorTo(first, dayMs)] = true })
	if err != nil {
		return err
	}
	later := slices.Sorted(maps.Keys(unordered))
	for from := rollup.FloorTo(r.From.UnixMilli(), hourMs); from < r.To.UnixMilli(); {
		to := min(rollup.FloorTo(from, dayMs)+dayMs, rollup.FloorTo(r.To.UnixMilli()+hourMs-1, hourMs))
		keys, err := c.keys(ctx, r.Filter, from, to)
		if err != nil {
			return err
		}
		if err := each(run{from, to, keys}); err != nil {
			return err
		}
		from = to
		if len(keys) > 0 {
			continue
		}
		next, found, err := c.w.rollups.After(ctx, c.w.state.Options, c.w.state.Levels, to)
		if err != nil {
			return err
		}
		at, _ := slices.BinarySearch(later, rollup.FloorTo(to, dayMs))
		if at < len(later) && (!found || later[at] < next) {
			next, found = later[at], true
		}
		if !found {
			return nil
		}
		from = max(from, rollup.FloorTo(next, dayMs))
	}
	return nil
}

// Extent returns the range of the measurements that are stored now. False means that there are none.
func (c *Command) Extent(ctx context.Context) (from, to time.Time, found bool, err error) {
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	err = c.w.rollups.Bounds(ctx, c.w.state.Options, func(begin, end int64) {
		first, last = min(first, begin), max(last, end)
	})
	return time.UnixMilli(first).UTC(), time.UnixMilli(last + 1).UTC(), first <= last, err
}

// Built is the progress of a build: the day that comes next, and its number of series.
type Built struct {
	Day    time.Time
	Series int
}

// Build computes the rows of a range from what is shown, day by day, the oldest first. A row that would shrink stays as it is,
// unless replace is set. Frozen hours are left alone.
func (c *Command) Build(ctx context.Context, r Range, replace bool, progress func(Built)) error {
	w := *c.w
	w.free = replace
	return c.eachDay(ctx, &r, func(of run) error {
		day := time.UnixMilli(of.from).UTC()
		progress(Built{day, len(of.keys)})
		if len(of.keys) == 0 {
			return nil
		}
		if err := w.compute(ctx, []run{of}, nil, nil); err != nil {
			return fmt.Errorf("computing the rows of %s: %w", day.Format(time.DateOnly), err)
		}
		return nil
	})
}

// keys returns the series that have measurements or rows in a span of time.
func (c *Command) keys(ctx context.Context, filter bson.Raw, from, to int64) ([]string, error) {
	found := map[string]bool{}
	u := timeseries.NewUnpacker(c.w.state.Options)
	err := c.w.rollups.SeriesIn(ctx, c.w.state.Options, c.w.state.Levels, filter, from, to, func(d bson.Raw) error {
		if _, ok := d.Lookup(timeseries.FieldControl, timeseries.FieldSegment).DocumentOK(); !ok {
			found[timeseries.Key(d.Lookup(timeseries.FieldMeta))] = true
			return nil
		}
		if err := u.Reset(d); err != nil {
			return newDamagedError(d, err)
		}
		var m timeseries.Unpacked
		for u.Next(&m) {
			found[timeseries.Key(m.Meta)] = true
		}
		return u.Err()
	})
	return slices.Sorted(maps.Keys(found)), err
}

// Difference is a row that differs from what is shown.
type Difference struct {
	Level string        `json:"level"`
	Meta  bson.RawValue `json:"-"`
	Time  time.Time     `json:"time"`
	// Stored and Wanted are counts of measurements. If they are equal, the totals differ.
	Stored int64 `json:"stored"`
	Wanted int64 `json:"wanted"`
}

// Verified is the result of a verification.
type Verified struct {
	// Rows is the number of rows compared. Frozen rows were not compared because their measurements may have expired. Behind rows
	// were not compared because a future pass computes them.
	Rows   int64 `json:"rows"`
	Frozen int64 `json:"frozen"`
	Behind int64 `json:"behind"`
	// Unbuilt rows are missing. Their windows are from before their level was complete.
	Unbuilt int64 `json:"unbuilt"`
	// Differences is the number of wrong rows. The first of them are Listed.
	Differences int64        `json:"differences"`
	Listed      []Difference `json:"listed"`
}

// verifyTries is how often the rows of some series are compared if keepers change them meanwhile.
const verifyTries = 5

// Verify computes the rows of a range again, without storing them, and compares. It lists at most list differences.
func (c *Command) Verify(ctx context.Context, r Range, list int, progress func(Built)) (v Verified, err error) {
	err = c.eachDay(ctx, &r, func(of run) error {
		progress(Built{time.UnixMilli(of.from).UTC(), len(of.keys)})
		for some := range slices.Chunk(of.keys, firstSeries) {
			one, err := c.verify(ctx, run{of.from, of.to, some})
			if err != nil {
				return err
			}
			v.addCounts(&one)
			v.Listed = append(v.Listed, one.Listed[:min(len(one.Listed), max(0, list-len(v.Listed)))]...)
		}
		return nil
	})
	return v, err
}

func (v *Verified) addCounts(o *Verified) {
	v.Rows += o.Rows
	v.Frozen += o.Frozen
	v.Behind += o.Behind
	v.Unbuilt += o.Unbuilt
	v.Differences += o.Differences
}

// verify compares the rows of some series. If it finds differences it compares again, because a keeper may have been at work.
func (c *Command) verify(ctx context.Context, r run) (v Verified, err error) {
	for range verifyTries {
		if v, err = c.compare(ctx, r); err != nil || v.Differences == 0 {
			return v, err
		}
	}
	return v, nil
}

// compare compares the rows of some series with what is shown. It leaves out measurements stored since the last pass. It reads
// these last, so that they include whatever was stored meanwhile.
func (c *Command) compare(ctx context.Context, r run) (v Verified, err error) {
	w := c.w
	targets, err := w.targets(ctx, r)
	if err != nil {
		return v, err
	}
	s, now, err := w.source(ctx, r)
	if err != nil {
		return v, err
	}
	if _, err := s.buckets(ctx, w.rollups, now, r.keys); err != nil {
		return v, err
	}
	behind, err := c.behind(ctx)
	if err != nil {
		return v, err
	}
	for _, key := range r.keys {
		computed := rows(s.series[key].rows, w.state.Defined)
		for _, d := range targets[key] {
			defined, _ := w.state.Defined.Level(d.level.Name)
			from, to := max(r.from, d.From), min(r.to, d.to)
			for hour := from; hour < to; hour += hourMs {
				fresh, stored := rollup.Within(computed[d.level.Name], hour, hour+hourMs), rollup.Within(d.Rows, hour, hour+hourMs)
				n := int64(max(len(fresh), len(stored)))
				switch {
				case w.isFrozen(d.level, hour, now):
					v.Frozen += n
				case behind.late(key, hour) > 0:
					v.Behind += n
				default:
					v.add(defined, metaOf(key), fresh, stored)
				}
			}
		}
	}
	return v, c.compareDays(ctx, r, behind, now, &v)
}

// compareDays compares the rows of days with the totals of their hours.
func (c *Command) compareDays(ctx context.Context, r run, behind *touched, now time.Time, v *Verified) error {
	level, ok := c.w.state.Levels.Level(rollup.Day)
	if !ok || r.to-r.from < dayMs {
		return nil
	}
	targets, err := c.w.documents(ctx, level, r)
	if err != nil {
		return err
	}
	hours, err := c.w.hoursOf(ctx, dayRun{[]int64{r.from}, r.keys}, now)
	if err != nil {
		return err
	}
	defined, _ := c.w.state.Defined.Level(rollup.Day)
	for _, d := range targets {
		fresh, stored := foldDay(defined.Rules(), r.from, hours[d.key]), rollup.Within(d.Rows, r.from, r.to)
		switch {
		case c.w.isFrozenDay(level, r.from, now):
			v.Frozen += int64(len(stored))
		case len(behind.series[d.key]) > 0:
			v.Behind += int64(len(stored))
		default:
			v.add(defined, d.Meta, fresh, stored)
		}
	}
	return nil
}

// add compares rows, window by window in their order.
func (v *Verified) add(defined rollup.DefinedLevel, meta bson.RawValue, fresh, stored []rollup.Stored) {
	level, _ := defined.Level()
	step, rules := level.Step.Milliseconds(), defined.Rules()
	times := map[int64]bool{}
	for _, row := range slices.Concat(fresh, stored) {
		times[row.Time] = true
	}
	for _, at := range slices.Sorted(maps.Keys(times)) {
		want, have := rollup.Within(fresh, at, at+step), rollup.Within(stored, at, at+step)
		if len(have) == 0 && defined.Since != nil && at < defined.Since.UnixMilli() {
			v.Unbuilt++
			continue
		}
		if v.Rows++; rules.Same(want, have) {
			continue
		}
		v.Differences++
		v.Listed = append(v.Listed, Difference{
			Level: level.Name, Meta: meta, Time: time.UnixMilli(at).UTC(), Stored: countOf(have, rules.CountField()), Wanted: countOf(want, rules.CountField()),
		})
	}
}

// behind returns the hours of series that have measurements at or above the watermarks, and all hours of series that are being
// edited.
func (c *Command) behind(ctx context.Context) (*touched, error) {
	all := newTouched(0, 0, 1)
	partitions, err := c.w.rollups.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range partitions {
		for _, mark := range p.Watermarks {
			source := timeseries.Source{TopicID: mark.Topic(), Partition: p.Partition}
			if _, err := c.w.scan(ctx, source, mark.Below, math.MaxInt64, all); err != nil {
				return nil, err
			}
		}
	}
	notes, err := c.w.rollups.Notes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range notes {
		for _, meta := range n.Metas {
			if err := c.w.extents(ctx, meta, all, all); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}
