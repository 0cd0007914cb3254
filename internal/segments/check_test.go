package segments

import (
	"maps"
	"slices"
)

// event is an event that must occur in the runs.
type event string

const (
	compactedWell        event = "compactions that went well"
	finishedLater        event = "compactions whose rest is ended later"
	rolledBackCompaction event = "compactions rolled back"
	rolledBackAfterT     event = "of them after T"
	takenOver            event = "compactions found by a new owner"
	frozenExpired        event = "frozen segments that expire"
	insertedLate         event = "inserts acknowledged too late for T"
	lateInsert           event = "inserts that arrive when their compaction is in doubt"
	hiddenEdited         event = "buckets edited that are not shown yet"
	repairMetFrozen      event = "repairs that find their segment frozen"
	swept                event = "segments deleted"
	passedT              event = "compactions unfinished at their T"
	shownTwice           event = "queries to which they showed a measurement twice"
	unknownFlush         event = "flushes of unknown outcome"
	rolledBack           event = "elections that roll back"
	resetBack            event = "resets back"
	handedOver           event = "releases"
	renaming             event = "measurements renamed"
	deletion             event = "measurements deleted"
	expiry               event = "documents that expire"
	wrongClock           event = "runs with wrong clocks"
)

var dangers = []event{
	compactedWell, finishedLater, rolledBackCompaction, rolledBackAfterT, takenOver, frozenExpired, insertedLate, lateInsert,
	hiddenEdited, repairMetFrozen, swept, passedT, shownTwice, unknownFlush,
	rolledBack, resetBack, handedOver, renaming, deletion, expiry, wrongClock,
}

// told is the knowledge of the checks about a compaction.
type told struct {
	from      int
	positions map[int]bool
	open      bool // a majority has its frozen segments
	finished  int  // the time since which a majority has none of them
	doubted   bool // a recovery has begun
}

func (c *consumer) tell(p *plan) { c.w.compactions[p.id] = &told{positions: map[int]bool{}} }

func (c *consumer) tellBuckets(p *plan) {
	t := c.w.compactions[p.id]
	t.from = p.from
	for _, doc := range p.buckets {
		for _, r := range doc.rows {
			t.positions[r.position] = true
		}
	}
}

// follow notes the compactions that are in progress.
func (w *world) follow() {
	if !w.clocks && w.now == 1 {
		w.saw(wrongClock)
	}
	open := map[string]bool{}
	for _, doc := range w.db.majority().documents {
		if doc.frozen() {
			open[doc.compaction] = true
		}
	}
	for id, t := range w.compactions {
		if t.open && !open[id] {
			t.finished = w.now
		}
		t.open = open[id]
		if t.open && t.from == w.now {
			w.saw(passedT)
		}
	}
}

// unfinished reports whether a query that began at a time may see a position twice. This is the only exception: a compaction has
// passed its T, and some state that the query may read does not have its end yet.
func (w *world) unfinished(position, now, began int) bool {
	for _, t := range w.compactions {
		if t.positions[position] && now >= t.from && (t.open || t.finished > 0 && began-replicaLag <= t.finished) {
			return true
		}
	}
	return false
}

// finished reports whether no work is left.
func (w *world) finished() bool {
	s := w.db.majority()
	if w.committed < w.end || w.db.major < w.db.last() {
		return false
	}
	for _, doc := range s.documents {
		if doc.segment && doc.until == 0 || doc.until > w.now || doc.from > w.now {
			return false
		}
	}
	for _, until := range w.doubled {
		if until == never {
			return false
		}
	}
	return true
}

// check checks what queries see at the end.
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
		case len(found) > 1 && !w.expired[p]: // of an expired position, one document may be deleted before the other
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
