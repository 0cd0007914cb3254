package keeper

import (
	"fmt"
	"maps"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
)

func (w *world) fail(format string, about ...any) {
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, about...)
	}
}

// frozen reports whether an hour is not computed any more. The model has its own rule for this.
func (w *world) frozen(hour int64) bool {
	return time.UnixMilli(hour).Before(w.now.Add(time.Hour - keptFor))
}

// seriesOf returns the series of a note.
func seriesOf(note bson.Raw) (all []string) {
	array, ok := note.Lookup("metas").ArrayOK()
	if !ok {
		return nil
	}
	values, _ := array.Values()
	for _, v := range values {
		series, _ := v.Document().Lookup("meta").StringValueOK()
		all = append(all, series)
	}
	return all
}

// noted returns the series that have a note. If unsure is set, it leaves out those whose rows were computed after queries saw the
// whole edit. Their rows must be right from then on.
func (w *world) noted(unsure bool) map[string]bool {
	noted, all := map[string]bool{}, map[string]bool{}
	for _, raw := range w.mem.now()["options"] {
		for _, series := range seriesOf(raw) {
			all[series] = true
			noted[series] = noted[series] || !unsure || !w.whole[raw.Lookup("_id").StringValue()] || w.stale[series]
		}
	}
	maps.DeleteFunc(w.stale, func(series string, _ bool) bool { return !all[series] })
	maps.DeleteFunc(noted, func(_ string, is bool) bool { return !is })
	return noted
}

// mayShrink returns the series whose rows may shrink, because a note asks for it, or has asked a keeper that is not ready yet.
func (w *world) mayShrink() map[string]bool {
	series := w.noted(false)
	for _, a := range w.actors {
		for _, n := range a.notes {
			for _, meta := range n.Metas {
				name, _ := meta.StringValueOK()
				series[name] = true
			}
		}
	}
	return series
}

// lastEdit is the last edit of a series.
type lastEdit struct {
	version int       // of the database, with its last write
	shown   time.Time // until then queries may see the former measurements in segments
}

// edited records a write of a command.
func (w *world) edited(a *actor) {
	for _, series := range a.edits {
		w.edits[series] = lastEdit{len(w.mem.versions) - 1, w.now.Add(w.delay)}
	}
}

// inserted records that an actor inserts rollup documents that were computed from older sources than the present ones. That can
// happen if the rows were computed for a note when the documents did not exist. So notes are kept for a while.
func (w *world) inserted(a *actor, documents []bson.Raw) {
	for _, d := range documents {
		series, _ := d.Lookup("meta").StringValueOK()
		if last := w.edits[series]; a.read < last.version || a.looked.Before(last.shown) {
			w.stale[series] = true
		}
	}
}

// check checks R1 and R3, and that rows hold nothing that is not shown any more.
func (w *world) check() {
	if w.violation != "" || w.checked == len(w.mem.versions) && w.checkedAt.Equal(w.now) {
		return
	}
	w.checked, w.checkedAt = len(w.mem.versions), w.now
	sets, counts := w.rowsOf(rollup.Hour)
	shrinking, unsure := w.mayShrink(), w.noted(true)
	for at, before := range w.counts {
		if counts[at] < before && !shrinking[at.series] {
			w.fail("R3: the row of %s at %d had %d measurements and has %d", at.series, at.hour, before, counts[at])
		}
	}
	w.counts = counts
	w.noteLate()
	below, shown := w.below(), map[cell]uint64{}
	skip := func(at cell) bool { return unsure[at.series] || w.isExcused(at) }
	w.stored(false, func(_ string, m measurement) {
		at := cell{m.series, rollup.FloorTo(m.record.time, hourMs)}
		shown[at] |= 1 << m.record.bit
		if below(m) && !skip(at) && sets[at]&(1<<m.record.bit) == 0 {
			w.fail("R1: offset %d of partition %d is below the watermark, and not in the row of %s at %d", m.record.offset, m.part, at.series, at.hour)
		}
	})
	for at, set := range sets {
		if gone := set &^ shown[at]; gone != 0 && !skip(at) {
			w.fail("the row of %s at %d holds %b, which is not shown any more", at.series, at.hour, gone)
		}
	}
}

// isExcused reports whether the row of an hour may differ from what is shown.
func (w *world) isExcused(at cell) bool { return w.frozen(at.hour) || w.handed[at] || w.late[at] }

// noteLate records the hours of compactions that are unfinished when queries already see their buckets. Queries see their
// measurements twice then, and under two metas if a command has edited a bucket. What they see changes once more when an owner
// recovers the compaction. If the note of the edit is gone by then, nobody computes the rows again.
func (w *world) noteLate() {
	late := map[string]bool{} // unfinished compactions
	for _, p := range w.parts {
		frozen, _ := w.unfinished(p)
		for id := range frozen {
			if from := w.visible[id]; !from.IsZero() && !from.After(w.now) {
				late[id] = true
			}
		}
	}
	if len(late) == 0 {
		return
	}
	documents := w.mem.now()["buckets"]
	w.stored(true, func(id string, m measurement) {
		if late[compactionOf(documents[id], "segment", "compaction")] || late[compactionOf(documents[id], "compaction", "id")] {
			w.late[cell{m.series, rollup.FloorTo(m.record.time, hourMs)}] = true
		}
	})
}

// below returns a function that reports whether a measurement is below the present watermark of its partition. Then it is in
// rows.
func (w *world) below() func(m measurement) bool {
	marks := map[int32]map[[16]byte]int64{}
	for _, p := range w.parts {
		marks[p.number] = map[[16]byte]int64{}
		for _, raw := range w.mem.now()["partitions"] {
			if raw.Lookup("_id").StringValue() == p.id() {
				for _, mark := range rollup.Watermarks(raw) {
					marks[p.number][mark.Topic()] = mark.Below
				}
			}
		}
	}
	return func(m measurement) bool {
		mark, present := marks[m.part][m.topic]
		former := !present && w.parts[m.part].topic != m.topic // all measurements of a former topic are in rows
		return former || m.record.offset < mark
	}
}

// tear records the loss of a measurement that a pass may be reading. If the pass ends between two levels, no later pass finds its
// hour.
func (w *world) tear(m measurement) {
	w.torn[cell{m.series, rollup.FloorTo(m.record.time, dayMs)}] = true
}

// isTorn reports whether the rows of a day of a series may differ between levels.
func (w *world) isTorn(at cell) bool { return w.torn[cell{at.series, rollup.FloorTo(at.hour, dayMs)}] }
