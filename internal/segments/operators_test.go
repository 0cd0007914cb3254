package segments

import (
	"maps"
	"slices"
)

// operation is a change that an operator makes to a series.
type operation struct {
	meta     int
	to       int // the new meta
	removing bool
}

// operators change or delete the meta of whole series. They request a compaction, wait until all earlier segments have ended and
// no query sees them, and edit buckets.
func (w *world) operators(sleep func(int)) {
	for times := 1; ; times++ {
		sleep(5 + w.random.IntN(w.edits))
		if !w.chaos {
			continue
		}
		o := operation{meta: w.random.IntN(metas), removing: w.chance(0.4)}
		o.to = 10*times + o.meta
		stored := w.begin(o)
		asked := w.db.majority()
		for !w.hidden(asked) && w.with(editLater) {
			sleep(1)
		}
		documents := w.db.majority().documents
		for _, id := range slices.Sorted(maps.Keys(documents)) {
			if !documents[id].segment {
				w.edit(sleep, id, o)
			}
		}
		w.done(o, stored)
	}
}

// hidden reports whether no query can see a segment of an earlier state from now on.
func (w *world) hidden(then state) bool {
	now := w.db.majority()
	for id := range then.documents {
		if doc := now.documents[id]; doc.segment && (doc.until == 0 || doc.until >= w.now-clockError) {
			return false
		}
	}
	return true
}

func (o operation) matches(r row) bool { return r.meta%10 == o.meta }

// begin lists the positions that an operation must change.
func (w *world) begin(o operation) (stored []int) {
	w.log("operator: %+v", o)
	w.lowest = w.committed
	for _, doc := range w.db.majority().documents {
		for _, r := range doc.rows {
			if o.matches(r) && !slices.Contains(stored, r.position) {
				if w.sent[r.position] < w.now { // otherwise it may be written again, as if the operation was earlier
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
		case w.doubled[p] != 0: // its copy may have been made after the begin
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

// apply returns the rows that remain after an operation, and reports whether it changes any.
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

// edit changes a bucket on the condition that it was not changed since it was read. It repeats this until the change is
// acknowledged.
func (w *world) edit(sleep func(int), id string, o operation) {
	for ; ; sleep(1) {
		read, has := w.db.majority().documents[id]
		rows, changes := w.apply(o, read.rows)
		if !has || !changes {
			return
		}
		if w.chaos && w.chance(w.lazy) {
			sleep(w.random.IntN(60)) // an operator has no lease
		}
		k := w.start(func() (int, string) {
			return w.db.update(id, func(doc *document) bool {
				if !slices.Equal(doc.rows, read.rows) {
					return false
				}
				if doc.from > w.now {
					w.saw(hiddenEdited)
				}
				doc.rows = rows
				w.log("operator: %s becomes %v", id, rows)
				return true
			})
		})
		if w.await(sleep, []*call{k}) {
			return
		}
	}
}

// repairs make doubles, like an earlier fault, and remove them.
func (w *world) repairs(sleep func(int)) {
	for times := 0; ; times++ {
		sleep(5 + w.random.IntN(2*w.edits))
		if !w.chaos {
			continue
		}
		if p, ok := w.double(times); ok {
			sleep(queryTime + replicaLag + clockError) // an earlier query may have looked for the copy too early
			for w.doubled[p] == never && !w.repair(sleep, p) {
				sleep(1)
			}
		}
	}
}

// double copies a measurement into a new segment or bucket.
func (w *world) double(times int) (position int, made bool) {
	s := w.db.now()
	for _, id := range slices.Sorted(maps.Keys(s.documents)) {
		doc := s.documents[id]
		if doc.until > 0 || len(doc.rows) == 0 || !w.chance(0.2) || w.db.last() != w.db.major {
			continue
		}
		r := doc.rows[w.random.IntN(len(doc.rows))]
		if r.position >= w.committed || w.doubled[r.position] != 0 || w.deleted[r.position] || w.renamed[r.position] != 0 {
			continue
		}
		copied := document{segment: w.chance(0.7), rows: []row{r}}
		w.log("position %d of %s is doubled", r.position, id)
		w.doubled[r.position] = never
		w.db.insert(idOf(copied, 1000+times), copied)
		w.db.major = w.db.last()
		return r.position, true
	}
	return 0, false
}

// holder is a document that contains a position, in the state in which it was read.
type holder struct {
	id string
	document
}

// holders lists the documents that contain a position. The segments of an unfinished compaction count, and its buckets do not,
// because a rollback would delete them. The buckets of a finished compaction count, and its segments do not.
func (w *world) holders(position int) (all []holder) {
	s := w.db.majority()
	for _, id := range slices.Sorted(maps.Keys(s.documents)) {
		doc := s.documents[id]
		counts := doc.segment == !ended(s, doc.compaction) || doc.compaction == ""
		if !doc.segment && !w.with(repairStable) {
			counts = true
		}
		if counts && slices.ContainsFunc(doc.rows, func(r row) bool { return r.position == position }) {
			all = append(all, holder{id, doc})
		}
	}
	return all
}

// repair removes a double from one document, after it has read another one that keeps it, later than the first. It reports
// whether only one document is left.
func (w *world) repair(sleep func(int), position int) bool {
	all := w.holders(position)
	if len(all) < 2 {
		w.doubled[position] = w.now
		for _, doc := range w.db.majority().documents { // an ended segment may still be shown
			if slices.ContainsFunc(doc.rows, func(r row) bool { return r.position == position }) {
				w.doubled[position] = max(w.doubled[position], doc.until)
			}
		}
		return true
	}
	from := all[w.random.IntN(len(all))]
	if w.chaos && w.chance(w.lazy) {
		sleep(w.random.IntN(60))
	}
	if !slices.ContainsFunc(w.holders(position), func(h holder) bool { return h.id != from.id }) {
		return false
	}
	if w.chaos && w.chance(w.lazy) {
		sleep(w.random.IntN(60))
	}
	k := w.start(func() (int, string) {
		return w.db.update(from.id, func(doc *document) bool {
			if doc.segment && doc.compaction != "" {
				w.saw(repairMetFrozen)
				if w.with(repairOpen) {
					return false
				}
			}
			if !slices.Equal(doc.rows, from.rows) && w.with(repairSame) {
				return false
			}
			w.log("repair: %d is taken out of %s", position, from.id)
			doc.rows = slices.DeleteFunc(slices.Clone(from.rows), func(r row) bool { return r.position == position })
			return true
		})
	})
	if !w.await(sleep, []*call{k}) && !k.known {
		sleep(writeGrace + replicaLag + 1) // otherwise the next repair could remove the other copy too
	}
	return false
}

// expire deletes a document with old measurements.
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
			if doc.frozen() {
				w.saw(frozenExpired)
			}
			w.db.update(id, func(doc *document) bool { doc.rows = nil; return true })
			w.saw(expiry)
			return
		}
	}
}
