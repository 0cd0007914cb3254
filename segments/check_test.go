package segments

import (
	"maps"
	"slices"
)

// event is something that must come up.
type event string

const (
	settledWell     event = "settlings that went well"
	finishedLater   event = "settlings found to be done"
	undone          event = "settlings undone"
	undonePartly    event = "of them with some segments ended"
	undoneAfterT    event = "of them after T"
	undoWaited      event = "waits for queries between the steps of an undo"
	takenOver       event = "settlings found by a new owner"
	announcedBeside event = "announcements that find another settling"
	ghost           event = "announcements that arrive when their settling is in doubt"
	insertedLate    event = "inserts acknowledged too late for T"
	lateInsert      event = "inserts that arrive when their settling is in doubt"
	lateEnd         event = "ends of segments that arrive after the undo"
	lateUnmark      event = "steps of an undo that arrive after it"
	lateDelete      event = "deletions that find a bucket of another settling under their _id"
	editedMeanwhile event = "segments edited between reading and end"
	endedEdited     event = "ended segments edited while they are shown"
	hiddenEdited    event = "segments edited that are not shown any more"
	swept           event = "segments deleted"
	passedT         event = "settlings unfinished at their T"
	shownTwice      event = "queries to which they showed a measurement twice"
	unknownFlush    event = "flushes of unknown outcome"
	rolledBack      event = "elections that roll back"
	resetBack       event = "resets back"
	handedOver      event = "hand-overs"
	renaming        event = "measurements renamed"
	deletion        event = "measurements deleted"
	expiry          event = "documents that expire"
	wrongClock      event = "runs with wrong clocks"
)

var dangers = []event{
	settledWell, finishedLater, undone, undonePartly, undoneAfterT, undoWaited, takenOver, announcedBeside, ghost, insertedLate, lateInsert,
	lateEnd, lateUnmark, lateDelete, editedMeanwhile, endedEdited, hiddenEdited, swept, passedT, shownTwice, unknownFlush,
	rolledBack, resetBack, handedOver, renaming, deletion, expiry, wrongClock,
}

// told is what the checks know of a settling.
type told struct {
	owner     *consumer
	from      int
	positions map[int]bool
	open      bool // a majority has its announcement
	finished  int  // when a majority had no more of it
	doubted   bool // a recovery has begun
	undone    bool // its segments are shown again for good
}

func (c *consumer) tell(p *plan) {
	t := &told{owner: c, from: p.from, positions: map[int]bool{}}
	for _, doc := range p.buckets {
		for _, r := range doc.rows {
			t.positions[r.position] = true
		}
	}
	c.w.settlings[p.by] = t
}

// follow notes which settling is announced.
func (w *world) follow() {
	if !w.clocks && w.now == 1 {
		w.saw(wrongClock)
	}
	announced := w.db.majority().settling
	for by, t := range w.settlings {
		is := announced != nil && announced.by == by
		if t.open && !is {
			t.finished = w.now
		}
		t.open = is
		if is && t.from == w.now {
			w.saw(passedT)
		}
	}
}

func (w *world) finishedOf(by string) bool {
	return w.settlings[by].finished > 0 && !w.settlings[by].open
}

// unfinished tells whether a query that began at a time may see a position twice: a settling has passed its T, and it was not
// finished in all that the query may read. This is the only exception.
func (w *world) unfinished(position, now, began int) bool {
	for _, t := range w.settlings {
		if t.positions[position] && now >= t.from && (t.open || t.finished > 0 && began-replicaLag <= t.finished) {
			return true
		}
	}
	return false
}

// finished tells that nothing more is to be done.
func (w *world) finished() bool {
	s := w.db.majority()
	if w.committed < w.end || w.db.major < w.db.last() || len(segmentsOf(s)) > 0 {
		return false
	}
	for _, doc := range s.documents {
		// An announcement that came late, of which nothing was made, may stay until the next settling.
		if doc.until > w.now || doc.from > w.now || s.settling != nil && doc.by == s.settling.by {
			return false
		}
	}
	return true
}

// check looks at what is shown at the end.
func (w *world) check() {
	if !w.finished() {
		w.fault("no progress: committed %d of %d", w.committed, w.end)
	}
	metasOf := map[int][]int{}
	documents := w.db.now().documents
	for _, id := range slices.Sorted(maps.Keys(documents)) {
		if doc := documents[id]; doc.shown(w.now) {
			for _, r := range doc.rows {
				metasOf[r.position] = append(metasOf[r.position], r.meta)
			}
		}
	}
	for p := range w.committed {
		switch found := metasOf[p]; {
		case len(found) > 1 && !w.expired[p]: // of what expires one document may go before the other
			w.fault("position %d is stored %d times", p, len(found))
		case len(found) == 0 && !w.deleted[p]:
			w.fault("position %d is committed and not stored", p)
		case w.expired[p], len(found) == 0:
		case w.gone[p]:
			w.fault("position %d was deleted, and is back", p)
		case found[0] < w.renamed[p] && !w.deleted[p]:
			w.fault("position %d has the meta %d, and was given %d", p, found[0], w.renamed[p])
		}
	}
}
