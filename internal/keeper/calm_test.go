package keeper

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
)

// quietSteps is the maximum number of steps of drain.
const quietSteps = 20_000

// drain runs all actors to their end.
func (w *world) drain() {
	for range quietSteps {
		if len(w.actors) == 0 {
			return
		}
		w.go1(w.actors[w.rnd.IntN(len(w.actors))], false)
	}
	w.fail("it does not come to an end")
	for len(w.actors) > 0 {
		w.go1(w.actors[0], true)
	}
}

// quiet runs all actors to their end, lets the owners store everything, and compares all rows.
func (w *world) quiet() {
	w.calm = true
	w.drain()
	for _, p := range w.parts {
		w.claim(p, 0)
		w.drain()
		for len(p.unsaved) > 0 && w.violation == "" {
			w.store(p)
		}
	}
	for _, p := range w.parts {
		w.compact(p)
		w.drain()
	}
	w.notesAndPasses()
	w.now = w.now.Add(w.delay) // queries see all buckets
	w.check()
	// Commands that were cut off are marked as finished, and their notes become old enough.
	w.mem.write("options", func(all map[string]bson.Raw) {
		for id, d := range all {
			if d.Lookup("metas").Type != 0 && d.Lookup("edited").Type == 0 {
				all[id] = updated(d, encoded(bson.D{{Key: "$set", Value: bson.D{{Key: "edited", Value: w.now}}}}))
			}
		}
	})
	w.now = w.now.Add(noteLinger + time.Second)
	for range 2 {
		w.notesAndPasses()
	}
	w.check()
	w.compare()
}

// notesAndPasses computes the rows of all notes, and then runs a pass of each partition.
func (w *world) notesAndPasses() {
	w.readNotes()
	w.drain()
	for _, p := range w.parts {
		w.pass(p)
		w.drain()
	}
}

// compare compares the rows with the shown measurements. It skips hours that are excused.
func (w *world) compare() {
	if w.violation != "" {
		return
	}
	if noted := w.noted(false); len(noted) > 0 {
		w.fail("notes are left for %v", noted)
	}
	for _, name := range []string{rollup.Minute, rollup.Hour} {
		level, _ := rollup.LevelOf(name)
		sets, _ := w.rowsOf(name)
		want := map[cell]uint64{}
		w.stored(false, func(_ string, m measurement) { want[cell{m.series, level.Window(m.record.time)}] |= 1 << m.record.bit })
		for at := range sets {
			want[at] |= 0
		}
		for at, set := range want {
			hour := cell{at.series, rollup.FloorTo(at.hour, hourMs)}
			if !w.isExcused(hour) && sets[at] != set {
				w.fail("level %s: the row of %s at %d holds %b, and %b is shown", name, at.series, at.hour, sets[at], set)
			}
		}
	}
	w.compareDays()
	w.compareNested()
}

// compareDays compares the counts of days with those of their hours.
func (w *world) compareDays() {
	_, hours := w.rowsOf(rollup.Hour)
	_, days := w.rowsOf(rollup.Day)
	want := map[cell]int64{}
	for at, n := range hours {
		want[cell{at.series, rollup.FloorTo(at.hour, dayMs)}] += n
	}
	for at, n := range want {
		if days[at] != n && !w.isTorn(at) {
			w.fail("the day of %s at %d has %d measurements, and its hours have %d", at.series, at.hour, days[at], n)
		}
	}
	for at, n := range days {
		if want[at] != n && !w.isTorn(at) {
			w.fail("the day of %s at %d has %d measurements, and its hours have %d", at.series, at.hour, n, want[at])
		}
	}
}
