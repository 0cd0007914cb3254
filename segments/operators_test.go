package segments

import (
	"maps"
	"slices"
)

// operation is what an operator does to a series.
type operation struct {
	meta     int
	to       int // the new meta
	removing bool
}

// operators change or delete the meta of whole series, document by document, segments first.
func (w *world) operators(sleep func(int)) {
	for times := 1; ; times++ {
		sleep(5 + w.random.IntN(w.edits))
		if !w.chaos {
			continue
		}
		o := operation{meta: w.random.IntN(metas), removing: w.chance(0.4)}
		o.to = 10*times + o.meta
		stored := w.begin(o)
		for phase := range 2 {
			segments := (phase == 0) == w.with(segmentsFirst)
			documents := w.db.majority().documents
			for _, id := range slices.Sorted(maps.Keys(documents)) {
				if doc := documents[id]; doc.segment == segments && (doc.until == 0 || doc.until > w.now || w.with(editEnded)) {
					w.edit(sleep, id, o)
				}
			}
		}
		w.done(o, stored)
	}
}

func (o operation) matches(r row) bool { return r.meta%10 == o.meta }

// begin lists what an operation must change.
func (w *world) begin(o operation) (stored []int) {
	w.log("operator: %+v", o)
	w.lowest = w.committed
	for _, doc := range w.db.majority().documents {
		for _, r := range doc.rows {
			if o.matches(r) && !slices.Contains(stored, r.position) {
				if w.sent[r.position] < w.now { // else it may be written again: as if the operation had come before
					stored = append(stored, r.position)
				}
				w.deleted[r.position] = w.deleted[r.position] || o.removing
			}
		}
	}
	return stored
}

func (w *world) done(o operation, stored []int) {
	w.log("operator: done")
	for _, p := range stored {
		switch {
		case !o.removing:
			w.renamed[p] = o.to
			w.saw(renaming)
		case p < w.lowest:
			w.gone[p] = true
			delete(w.renamed, p)
			w.saw(deletion)
		default:
			delete(w.renamed, p)
		}
	}
}

// apply makes the rows that an operation leaves; false: it changes none.
func (w *world) apply(o operation, rows []row) (left []row, changes bool) {
	for _, r := range rows {
		switch {
		case !o.matches(r):
			left = append(left, r)
			continue
		case o.removing:
			w.deleted[r.position] = true
		default:
			left = append(left, row{r.position, o.to})
			if r.meta == o.to {
				continue
			}
		}
		changes = true
	}
	return left, changes
}

// edit changes a document as it was read, until that is acknowledged.
func (w *world) edit(sleep func(int), id string, o operation) {
	for ; ; sleep(1) {
		read, has := w.db.majority().documents[id]
		rows, changes := w.apply(o, read.rows)
		if !has || !changes {
			return
		}
		if w.chaos && w.chance(w.slow) {
			sleep(w.random.IntN(60)) // an operator has no lease
		}
		k := w.start(func() (int, string) { return w.editOne(id, read, rows) })
		if w.await(sleep, []*call{k}) {
			return
		}
	}
}

func (w *world) editOne(id string, read document, rows []row) (seq int, err string) {
	return w.db.update(id, func(doc *document) bool {
		if doc.edits != read.edits || !samePositions(*doc, read) && w.with(editSame) {
			return false
		}
		if doc.until > w.now {
			w.saw(endedEdited)
		} else if doc.until > 0 {
			w.saw(hiddenEdited)
		}
		doc.rows = rows
		if w.with(countEdits) {
			doc.edits++
		}
		if !w.with(keepMarks) {
			doc.until, doc.by = read.until, read.by
		}
		w.log("operator: %s becomes %v", id, rows)
		return true
	})
}

// expire deletes a document of old measurements.
func (w *world) expire() {
	documents := w.db.majority().documents
	for _, id := range slices.Sorted(maps.Keys(documents)) {
		doc := documents[id]
		old := func(r row) bool { return w.born[r.position] < w.now-60 }
		if !slices.ContainsFunc(doc.rows, func(r row) bool { return !old(r) }) && w.chance(0.3) {
			for _, r := range doc.rows {
				w.deleted[r.position], w.expired[r.position] = true, true
			}
			w.log("%s expires", id)
			w.db.update(id, func(doc *document) bool { doc.rows = nil; return true })
			w.saw(expiry)
			return
		}
	}
}
