package reader

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// piece is a span of time whose totals are read from one series.
type piece struct {
	series   *Series
	stored   bool  // The series holds rows of a rollup instead of measurements.
	from, to int64 // in milliseconds since 1970; to is exclusive
}

// level is a level of rollups that a query can use.
type level struct {
	series *Series
	// from and to bound the times for which all rows are complete, in milliseconds since 1970. They are multiples of the level's
	// step.
	from, to int64
}

// piecesOf divides a span of time into pieces. The first level gets all that it has of the span, and the finer levels get the
// rest. What no level has comes from the measurements.
func piecesOf(from, to int64, levels []level, measurements piece) []piece {
	if from >= to {
		return nil
	}
	if len(levels) == 0 {
		measurements.from, measurements.to = from, to
		return []piece{measurements}
	}
	l, finer := levels[0], levels[1:]
	begin, end := max(from, l.from), min(to, l.to)
	if begin >= end {
		return piecesOf(from, to, finer, measurements)
	}
	rows := piece{series: l.series, stored: true, from: begin, to: end}
	return slices.Concat(piecesOf(from, begin, finer, measurements), []piece{rows}, piecesOf(end, to, finer, measurements))
}

// rolled returns the levels of the time series, from the coarsest to the finest.
func (s *Series) rolled(ctx context.Context) ([]rollup.DefinedLevel, error) {
	var stored bson.Raw
	err := persist(ctx, func() (err error) {
		stored, err = s.port.rollups(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	definition, err := rollup.ReadDefinition(stored)
	slices.SortFunc(definition.Levels, func(a, b rollup.DefinedLevel) int { return int(stepOf(b) - stepOf(a)) })
	return definition.Levels, err
}

// levels returns those of the rolled levels whose rows can make up the windows of a query. The query then uses their rules. Levels
// with other rules than the coarsest one are left out because their rows have other fields.
func (s *Series) levels(ctx context.Context, t *totaling, rolled []rollup.DefinedLevel) (list []level, err error) {
	candidates := slices.DeleteFunc(slices.Clone(rolled), func(d rollup.DefinedLevel) bool {
		return !t.windows.step.consistsOf(stepOf(d)) || !wanted(t.query.Fields, d.Rules())
	})
	if len(candidates) == 0 {
		return nil, nil
	}
	// The requests run at once, because the wait for answers is most of a short query.
	opened, failed := make([]*Series, len(candidates)), make([]error, len(candidates))
	var asked sync.WaitGroup
	for i, d := range candidates {
		asked.Go(func() { opened[i], failed[i] = s.openLevel(ctx, d) })
	}
	now, horizon, err := s.horizon(ctx, rolled)
	asked.Wait()
	if err != nil || horizon == math.MinInt64 {
		return nil, err
	}
	for i, d := range candidates {
		rules := d.Rules()
		if len(list) > 0 && !rules.Equal(t.rules) {
			continue
		}
		if failed[i] != nil {
			return nil, failed[i]
		}
		if opened[i] == nil {
			continue
		}
		l := levelOf(opened[i], d, now, horizon)
		if l.from, l.to = t.windows.aligned(stepOf(d), l.from, l.to); l.from < l.to {
			list, t.rules = append(list, l), rules
		}
	}
	return list, nil
}

// openLevel opens the time series of a level for one query. Nil means that it no longer exists.
func (s *Series) openLevel(ctx context.Context, d rollup.DefinedLevel) (of *Series, err error) {
	known, _ := d.Level()
	err = persist(ctx, func() (err error) {
		of, err = s.sibling(ctx, known.SeriesName(s.name))
		if errors.Is(err, ErrNotSetUp) {
			return nil
		}
		return err
	})
	if of != nil {
		of.current = true
	}
	return of, err
}

// levelOf bounds the times whose rows are whole and complete.
func levelOf(of *Series, d rollup.DefinedLevel, now time.Time, horizon int64) level {
	known, _ := d.Level()
	l := level{series: of, from: math.MinInt64, to: known.Window(horizon)}
	if d.Since != nil {
		l.from = known.WindowEnd(d.Since.UnixMilli() - 1)
	}
	if expiry := l.series.options.ExpireAfterSeconds; expiry > 0 {
		l.from = max(l.from, known.WindowEnd(now.UnixMilli()-expiry*1000-1))
	}
	return l
}

// stepOf returns the step of a level in milliseconds.
func stepOf(d rollup.DefinedLevel) int64 {
	l, _ := d.Level()
	return l.Step.Milliseconds()
}

// consistsOf reports whether each window consists of whole units of so many milliseconds. It assumes that days do.
func (s Step) consistsOf(unit int64) bool {
	return s.Duration.Milliseconds()%unit == 0 // The Duration is 0 for days, weeks and months.
}

// horizon returns the server's time and the horizon. All measurements before the horizon are in rows, except late ones. It is the
// oldest watermark of the partitions that still have measurements outside rows. If there are none, it is the server's time. It is
// the smallest time if no partition has a watermark.
func (s *Series) horizon(ctx context.Context, levels []rollup.DefinedLevel) (now time.Time, horizon int64, err error) {
	err = persist(ctx, func() error {
		var asked sync.WaitGroup
		var unknown error
		asked.Go(func() { now, unknown = s.port.now(ctx) })
		marks, unmarked, err := s.watermarks(ctx)
		asked.Wait()
		if err != nil {
			return err
		}
		if unknown != nil {
			return unknown
		}
		horizon, err = s.horizonOf(ctx, now, marks, unmarked, levels)
		return err
	})
	return now, horizon, err
}

// horizonOf compares the watermarks with the stored measurements. It reads the measurements after the watermarks.
func (s *Series) horizonOf(ctx context.Context, now time.Time, marks []watermark, unmarked []timeseries.Source, levels []rollup.DefinedLevel) (int64, error) {
	if len(marks) == 0 {
		return math.MinInt64, nil
	}
	for _, source := range unmarked {
		missed, err := s.storesSince(ctx, source, levels)
		if err != nil || missed {
			return math.MinInt64, err
		}
	}
	slices.SortFunc(marks, func(a, b watermark) int { return cmp.Compare(a.at(), b.at()) })
	for _, mark := range marks { // The oldest come first because they are most likely behind.
		if mark.at() >= now.UnixMilli() {
			break
		}
		behind, err := s.isThere(ctx, mark.beyond())
		if err != nil || behind {
			return mark.at(), err
		}
	}
	return now.UnixMilli(), nil
}

// watermark is how far the rollups of a source have come.
type watermark struct {
	source timeseries.Source
	rollup.Watermark
}

// at is the time up to which everything was in rows, in milliseconds. It is the smallest time before the first pass.
func (w watermark) at() int64 {
	if w.At == nil {
		return math.MinInt64
	}
	return w.At.UnixMilli()
}

// beyond requests one document that may hold a measurement outside rows.
func (w watermark) beyond() request {
	r := latestOf(w.source, timeseries.FieldID)
	r.filter = append(r.filter, bson.E{Key: timeseries.PathLast, Value: bson.D{{Key: "$gte", Value: w.Below}}})
	return r
}

// watermarks returns the watermarks of all partitions, and the partitions without any. No consumer has claimed these since the
// rollups exist.
func (s *Series) watermarks(ctx context.Context) (marks []watermark, unmarked []timeseries.Source, err error) {
	answer, err := s.port.sources(ctx)
	err = each(ctx, answer, err, func(d bson.Raw) error {
		source, ok := sourceOf(d)
		if !ok {
			return nil
		}
		list := rollup.Watermarks(d)
		if len(list) == 0 {
			unmarked = append(unmarked, source)
		}
		for _, w := range list {
			source.TopicID = w.Topic()
			marks = append(marks, watermark{source, w})
		}
		return nil
	})
	return marks, unmarked, err
}

// storesSince reports whether a source has stored measurements for windows that a level should have. A level without Since should
// have all windows. A consumer that started before the level existed wrote the measurements, so they may be in no rows.
func (s *Series) storesSince(ctx context.Context, source timeseries.Source, levels []rollup.DefinedLevel) (missed bool, err error) {
	answer, err := s.port.find(ctx, latestOf(source, s.maxPath()))
	err = each(ctx, answer, err, func(d bson.Raw) error {
		latest, _ := d.Lookup(timeseries.FieldControl, timeseries.FieldMax, s.options.TimeField).DateTimeOK()
		for _, l := range levels {
			missed = missed || l.Since == nil || latest >= l.Since.UnixMilli()
		}
		return nil
	})
	return missed, err
}
