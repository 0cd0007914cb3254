package keeper

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"waterwheel/internal/rollup"
)

// dayRun is a set of days of one month, and the series for which all of them are folded.
type dayRun struct {
	days []int64
	keys []string
}

// dayRuns returns the days in which hours of series were computed, by month. Series with the same days share a run.
func dayRuns(hours []run) []dayRun {
	day, _ := rollup.LevelOf(rollup.Day)
	type month struct {
		from int64
		key  string
	}
	days := map[month]map[int64]bool{}
	for _, r := range hours {
		for at := rollup.FloorTo(r.from, dayMs); at < r.to; at += dayMs {
			from, _ := day.Period(at)
			for _, key := range r.keys {
				of := days[month{from, key}]
				if of == nil {
					of = map[int64]bool{}
					days[month{from, key}] = of
				}
				of[at] = true
			}
		}
	}
	var all []dayRun
	index := map[string]int{}
	months := slices.SortedFunc(maps.Keys(days), func(a, b month) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.key, b.key)) })
	for _, m := range months {
		list := slices.Sorted(maps.Keys(days[m]))
		same := ""
		for _, at := range list {
			same += time.UnixMilli(at).UTC().Format(time.DateOnly) + " "
		}
		at, ok := index[same]
		if !ok {
			at = len(all)
			index[same] = at
			all = append(all, dayRun{days: list})
		}
		all[at].keys = append(all[at].keys, m.key)
	}
	return all
}

// seriesPerFold is how many series are folded at a time.
const seriesPerFold = 100

// days computes the rows of days from the documents of hours.
func (w *work) days(ctx context.Context, hours []run) error {
	level, ok := w.state.Levels.Level(rollup.Day)
	if !ok {
		return nil
	}
	for _, r := range dayRuns(hours) {
		err := w.inChunks(ctx, r.keys, seriesPerFold, func(some []string) (left []string, err error) {
			return w.fold(ctx, level, dayRun{r.days, some})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fold folds some days of some series once. It returns the series that are left, because another writer replaced one of their
// documents first. It reads the documents of days before those of hours. So an earlier fold never replaces a later one of another
// keeper.
func (w *work) fold(ctx context.Context, level rollup.Level, r dayRun) (left []string, err error) {
	first, last := r.days[0], r.days[len(r.days)-1]+dayMs
	targets, err := w.documents(ctx, level, run{first, last, r.keys})
	if err != nil {
		return nil, err
	}
	now, err := w.rollups.Clock(ctx)
	if err != nil {
		return nil, err
	}
	hours, err := w.hoursOf(ctx, r, now)
	if err != nil {
		return nil, err
	}
	defined, _ := w.state.Defined.Level(rollup.Day)
	rules := defined.Rules()
	for _, d := range targets {
		of := hours[d.key]
		for _, at := range r.days {
			if w.isFrozenDay(level, at, now) {
				if w.purges {
					d.Replace(at, at+dayMs, nil)
					d.dirty = true
				}
				continue
			}
			d.dirty = true
			fresh := foldDay(rules, at, rollup.Within(of, at, at+dayMs))
			if !w.free && countOf(fresh, rules.CountField()) < countOf(rollup.Within(d.Rows, at, at+dayMs), rules.CountField()) {
				continue // R3: hours have expired, or were deleted by hand
			}
			d.Replace(at, at+dayMs, fresh)
		}
	}
	return w.put(ctx, targets)
}

// foldDay returns the row of a day, folded from the rows of its hours. It returns nil if there are none.
func foldDay(rules *rollup.Rules, at int64, hours []rollup.Stored) []rollup.Stored {
	if len(hours) == 0 {
		return nil
	}
	return []rollup.Stored{{Time: at, Fields: rules.Fold(at, hours).Document()}}
}

// hoursOf returns the rows of hours from which days are folded, by series and in the order of time. If MongoDB may have deleted the
// rows of the hours of a day, hoursOf computes them from the measurements.
func (w *work) hoursOf(ctx context.Context, r dayRun, now time.Time) (map[string][]rollup.Stored, error) {
	hours, err := w.rowsOf(ctx, rollup.Hour, run{r.days[0], r.days[len(r.days)-1] + dayMs, r.keys})
	if err != nil {
		return nil, err
	}
	for _, day := range r.days {
		if !w.lacksHours(day, now) || w.lacksMeasurements(day, now) {
			continue
		}
		of := run{day, day + dayMs, r.keys}
		s, shown, err := w.source(ctx, of)
		if err != nil {
			return nil, err
		}
		for some := range slices.Chunk(of.keys, max(1, min(w.size, mostSeries))) {
			if _, err := s.buckets(ctx, w.rollups, shown, some); err != nil {
				return nil, err
			}
			for _, key := range some {
				d := rollup.Document{Rows: hours[key]}
				d.Replace(of.from, of.to, rows(s.series[key].rows, w.state.Defined)[rollup.Hour])
				hours[key] = d.Rows
			}
			s.forget(some)
		}
	}
	return hours, nil
}

// rowsOf reads the rows of a level, by series and in the order of time.
func (w *work) rowsOf(ctx context.Context, name string, r run) (map[string][]rollup.Stored, error) {
	level, ok := w.state.Levels.Level(name)
	if !ok {
		return nil, fmt.Errorf("the options collection has no rollup level %s, from which the rows of days are made: add %s to ROLLUP_LEVELS and restart a consumer", name, name)
	}
	documents, err := w.documents(ctx, level, r)
	if err != nil {
		return nil, err
	}
	rows := map[string][]rollup.Stored{}
	for _, d := range documents {
		rows[d.key] = append(rows[d.key], d.Rows...)
	}
	for _, of := range rows {
		slices.SortStableFunc(of, func(a, b rollup.Stored) int { return cmp.Compare(a.Time, b.Time) })
	}
	return rows, nil
}

// isFrozenDay reports whether a day is no longer folded, because MongoDB may soon delete the measurements and the rows of its hours,
// or has deleted its own row.
func (w *work) isFrozenDay(level rollup.Level, day int64, now time.Time) bool {
	return w.lacksHours(day, now) && w.lacksMeasurements(day, now) || hasExpired(level, day, now.Add(-expiredMargin))
}

// lacksHours reports whether MongoDB may soon delete the rows of the hours of a day.
func (w *work) lacksHours(day int64, now time.Time) bool {
	hour, _ := w.state.Levels.Level(rollup.Hour)
	return hasExpired(hour, day, now.Add(frozenMargin))
}

// isInDay reports whether a late measurement of an hour is in the row of its day, although the rows of the hour have expired.
func (w *work) isInDay(hour int64, now time.Time) bool {
	level, ok := w.state.Levels.Level(rollup.Day)
	return ok && !w.lacksMeasurements(hour, now) && !w.isFrozenDay(level, level.Window(hour), now)
}
