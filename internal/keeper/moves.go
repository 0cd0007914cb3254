package keeper

import (
	"context"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// moves describes the edits of metas that are noted. They move measurements between the series of a group, and delete none. So if
// a group shows fewer measurements in a window than one of its rows counts, some have expired, or were deleted by hand. The rows
// of this window then stay as they are (R3).
//
// One row alone is compared, not the total of the group: a process may die between two rows of an edit, and both then count the
// same measurements.
type moves struct {
	// groups are the series of the note, and those with which other noted edits connect them.
	groups [][]bson.RawValue
	// guarded is the group of each series, by key. It lacks the groups from which a noted edit deletes measurements.
	guarded map[string]int
	// notes are the ids of the notes that edit these series.
	notes map[string]bool
	gone  map[window]bool
}

// window is a window of a group, or of the rows of a level if it has a level.
type window struct {
	level string
	group int
	at    int64
}

// movesOf returns the moves of a note.
func (w *work) movesOf(ctx context.Context, n *sink.RollupNote) (*moves, error) {
	m := &moves{guarded: map[string]int{}, notes: map[string]bool{n.ID: true}, gone: map[window]bool{}}
	if n.Deletes {
		for _, meta := range n.Metas {
			m.groups = append(m.groups, []bson.RawValue{meta})
		}
		return m, nil
	}
	notes, err := w.rollups.Notes(ctx)
	if err != nil {
		return nil, err
	}
	connected, deleted := newGroups(), map[string]bool{}
	connected.add(n)
	for i := range notes {
		if notes[i].Deletes {
			for _, meta := range notes[i].Metas {
				deleted[timeseries.Key(meta)] = true
			}
		} else {
			connected.add(&notes[i])
		}
	}
	index := map[string]int{} // of the group of each root
	for _, meta := range n.Metas {
		root := connected.root(timeseries.Key(meta))
		if _, known := index[root]; !known {
			index[root] = len(m.groups)
			m.groups = append(m.groups, nil)
		}
	}
	shrinks := map[int]bool{}
	for _, key := range slices.Sorted(maps.Keys(connected)) {
		if at, ok := index[connected.root(key)]; ok {
			m.groups[at] = append(m.groups[at], metaOf(key))
			m.guarded[key] = at
			shrinks[at] = shrinks[at] || deleted[key]
		}
	}
	for i := range notes {
		m.notes[notes[i].ID] = m.notes[notes[i].ID] || slices.ContainsFunc(notes[i].Metas, m.has)
	}
	maps.DeleteFunc(m.guarded, func(_ string, group int) bool { return shrinks[group] })
	return m, nil
}

// has reports whether a guarded group has a series.
func (m *moves) has(meta bson.RawValue) bool {
	_, ok := m.guarded[timeseries.Key(meta)]
	return ok
}

// isMissed reports whether an edit of these series was noted after the moves were read. Some rows may have stayed because of it.
func (w *work) isMissed(ctx context.Context, n *sink.RollupNote, m *moves) (bool, error) {
	now, err := w.movesOf(ctx, n)
	if err != nil {
		return false, err
	}
	for id, edits := range now.notes {
		if edits && !m.notes[id] {
			return true, nil
		}
	}
	return false, nil
}

// groups are series that edits connect. The value is another series of the group, which leads to the root of the group in the
// end. The root has itself.
type groups map[string]string

func newGroups() groups { return groups{} }

// add connects the former and the new series of each change of a note.
func (g groups) add(n *sink.RollupNote) {
	for change := range slices.Chunk(n.Metas, 2) {
		first := g.root(timeseries.Key(change[0]))
		g[g.root(timeseries.Key(change[len(change)-1]))] = first
	}
}

func (g groups) root(key string) string {
	next, ok := g[key]
	if !ok {
		g[key] = key
		return key
	}
	for next != key {
		g[key] = g[next] // shortens the way for the next call
		key, next = next, g[next]
	}
	return key
}

// share gives each series of a group the hours of the whole group, so that the same runs have all of them.
func (t *touched) share(of *touched, group []bson.RawValue) {
	all := map[int64]int64{}
	for _, hours := range of.series {
		maps.Copy(all, hours)
	}
	for _, meta := range group {
		t.series[timeseries.Key(meta)] = all
	}
}

// isGone reports whether the rows of a window stay as they are. The window begins at a time.
func (m *moves) isGone(level, key string, at int64) bool {
	if m == nil {
		return false
	}
	group, guarded := m.guarded[key]
	return guarded && m.gone[window{level, group, at}]
}

// tally counts what groups have. shown has the measurements of a group, and most has the largest count of a row of a series.
type tally struct{ shown, most map[window]int64 }

func newTally() tally { return tally{map[window]int64{}, map[window]int64{}} }

func (t *tally) row(level string, group int, at, n int64) {
	of := window{level, group, at}
	t.most[of] = max(t.most[of], n)
}

// compare finds the windows that show fewer measurements than one of their rows counts.
func (m *moves) compare(t *tally) {
	for of, n := range t.most {
		if t.shown[window{group: of.group, at: of.at}] < n {
			m.gone[of] = true
		}
	}
}

// guards reports whether the rows of some of these series may have to stay.
func (m *moves) guards(keys []string) bool {
	return m != nil && slices.ContainsFunc(keys, func(key string) bool { _, ok := m.guarded[key]; return ok })
}

// findGone finds the hours of a run from which measurements are gone. It reads the rows before the measurements.
func (w *work) findGone(ctx context.Context, r run) error {
	if !w.moves.guards(r.keys) {
		return nil
	}
	t := newTally()
	err := w.inChunks(ctx, r.keys, seriesPerMoment, func(some []string) (left []string, err error) {
		r := run{r.from, r.to, some}
		targets, err := w.targets(ctx, r)
		if err != nil {
			return nil, err
		}
		s, now, err := w.source(ctx, r)
		if err != nil {
			return nil, err
		}
		for keys := range slices.Chunk(some, max(1, min(w.size, mostSeries))) {
			if _, err := s.buckets(ctx, w.rollups, now, keys); err != nil {
				return nil, err
			}
			for _, key := range keys {
				w.tally(&t, key, s.series[key].rows, targets[key], r)
			}
			s.forget(keys)
		}
		return nil, nil
	})
	w.moves.compare(&t)
	return err
}

// tally counts the measurements and the rows of a series by the hour.
func (w *work) tally(t *tally, key string, shown []measured, targets []*target, r run) {
	group, guarded := w.moves.guarded[key]
	if !guarded {
		return
	}
	for i := range shown {
		t.shown[window{group: group, at: rollup.FloorTo(shown[i].time, hourMs)}]++
	}
	for _, d := range targets {
		defined, _ := w.state.Defined.Level(d.level.Name)
		count := defined.Rules().CountField()
		for hour := max(r.from, d.From); hour < min(r.to, d.to); hour += hourMs {
			t.row(d.level.Name, group, hour, countOf(rollup.Within(d.Rows, hour, hour+hourMs), count))
		}
	}
}

// findGoneDays finds the days that have fewer measurements in the rows of their hours than one of their own rows counts.
func (w *work) findGoneDays(ctx context.Context, level rollup.Level, r dayRun) error {
	if !w.moves.guards(r.keys) {
		return nil
	}
	t := newTally()
	dayRules, _ := w.state.Defined.Level(rollup.Day)
	hourRules, _ := w.state.Defined.Level(rollup.Hour)
	ofDay, ofHour := dayRules.Rules().CountField(), hourRules.Rules().CountField()
	err := w.inChunks(ctx, r.keys, seriesPerFold, func(some []string) (left []string, err error) {
		targets, err := w.documents(ctx, level, run{r.days[0], r.days[len(r.days)-1] + dayMs, some})
		if err != nil {
			return nil, err
		}
		now, err := w.rollups.Clock(ctx)
		if err != nil {
			return nil, err
		}
		hours, err := w.hoursOf(ctx, dayRun{r.days, some}, now)
		if err != nil {
			return nil, err
		}
		for _, d := range targets {
			group, guarded := w.moves.guarded[d.key]
			for _, at := range r.days {
				if guarded {
					t.shown[window{group: group, at: at}] += countOf(rollup.Within(hours[d.key], at, at+dayMs), ofHour)
					t.row(level.Name, group, at, countOf(rollup.Within(d.Rows, at, at+dayMs), ofDay))
				}
			}
		}
		return nil, nil
	})
	w.moves.compare(&t)
	return err
}
