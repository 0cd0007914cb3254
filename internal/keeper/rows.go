package keeper

import (
	"slices"

	"waterwheel/internal/rollup"
)

// levelRows are the rows of a series by the name of their level, in the order of time.
type levelRows map[string][]rollup.Stored

// rows returns the rows of minutes and hours of a series, whose measurements must be in order. The row of an hour is made of the
// rows of its minutes, even if the time series has no level of minutes. So the sum of an hour does not depend on the levels.
func rows(of []measured, defined rollup.Definition) levelRows {
	all := levelRows{}
	var minutes, hours *windows
	for _, level := range defined.Levels {
		switch level.Name {
		case rollup.Minute:
			minutes = newWindows(rollup.Minute, level, true)
		case rollup.Hour:
			hours = newWindows(rollup.Hour, level, true)
		}
	}
	switch {
	case hours == nil:
	case minutes != nil && minutes.sameRules(hours):
		minutes.coarser = hours
	default:
		own := newWindows(rollup.Minute, hours.level, false)
		own.coarser = hours
		own.make(of)
	}
	if minutes != nil {
		minutes.make(of)
		all[rollup.Minute] = minutes.rows
	}
	if hours != nil {
		all[rollup.Hour] = hours.rows
	}
	return all
}

// windows makes the rows of the windows of one level, one after the other.
type windows struct {
	step    rollup.Level
	level   rollup.DefinedLevel // has the rules
	stored  bool                // the rows are kept
	coarser *windows            // gets each row as well, unless nil

	row       *rollup.Row
	rows      []rollup.Stored
	documents []byte // the documents of the rows, one after the other
}

func newWindows(step string, rules rollup.DefinedLevel, stored bool) *windows {
	w := &windows{level: rules, stored: stored, row: rules.Rules().NewRow(0)}
	w.step, _ = rollup.LevelOf(step)
	return w
}

func (w *windows) sameRules(o *windows) bool {
	return w.level.Count == o.level.Count && slices.Equal(w.level.Fields, o.level.Fields)
}

// make makes the rows of measurements.
func (w *windows) make(of []measured) {
	for i := range of {
		w.at(of[i].time).Add(of[i].fields)
	}
	w.end()
}

// at returns the row of the window with a time. It ends the row of the window before.
func (w *windows) at(time int64) *rollup.Row {
	if begin := w.step.Window(time); w.row.Count == 0 || begin != w.row.Time {
		w.endRow()
		w.row.Reset(begin)
	}
	return w.row
}

func (w *windows) endRow() {
	if w.row.Count == 0 {
		return
	}
	if w.coarser != nil {
		w.coarser.at(w.row.Time).Merge(w.row)
	}
	if w.stored {
		start := len(w.documents)
		w.documents = w.row.AppendDocument(w.documents)
		w.rows = append(w.rows, rollup.Stored{Time: w.row.Time, Fields: w.documents[start:len(w.documents):len(w.documents)]})
	}
}

// end ends the last row of this level and of the coarser one.
func (w *windows) end() {
	w.endRow()
	if w.coarser != nil {
		w.coarser.end()
	}
}
