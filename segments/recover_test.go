package segments

import (
	"maps"
	"slices"
)

// recover finishes or undoes what the partition document says of a settling, until it says nothing. What it has begun with it
// goes on with: a command of the other way may still be executed.
func (c *consumer) recover(sleep func(int)) (found bool) {
	for ; ; c.retry(sleep) {
		for c.w.now < c.insertsUntil && c.w.with(waitForInserts) {
			c.retry(sleep)
		}
		s := c.look(sleep, recoverFence)
		of := s.settling
		if of == nil {
			return found
		}
		found = true
		c.w.settlings[of.by].doubted = true
		if c.forgetting == of.by && c.w.with(forgetSticks) || allEnded(s, *of) && (c.undoing != of.by || !c.w.with(undoSticks)) {
			c.w.saw(finishedLater)
			if c.forget(sleep, *of) {
				return true
			}
			continue
		}
		if c.undoing != of.by {
			c.seeUndo(s, *of)
		}
		c.undoing = of.by
		if c.undo(sleep, *of) {
			return true
		}
	}
}

// allEnded tells whether a settling did what it was to do.
func allEnded(s state, of settling) bool {
	return !slices.ContainsFunc(of.segments, func(id string) bool { return s.documents[id].by != of.by })
}

func (c *consumer) seeUndo(s state, of settling) {
	c.w.saw(undone)
	if slices.ContainsFunc(of.segments, func(id string) bool { return s.documents[id].by == of.by }) {
		c.w.saw(undonePartly)
	}
	if c.clock() >= of.from {
		c.w.saw(undoneAfterT)
	}
	c.w.log("%s undoes %s", c.name, of.by)
}

// undo shows the segments again, deletes the buckets, and forgets, each only when the one before is acknowledged.
func (c *consumer) undo(sleep func(int), of settling) bool {
	if !c.w.with(unmarkFirst) {
		return c.discard(sleep, of) && c.unmark(sleep, of) && c.clear(sleep, of)
	}
	if !c.unmark(sleep, of) {
		return false
	}
	c.w.settlings[of.by].undone = true
	if c.w.with(undoLinger) && c.clock()+margin >= of.from && !c.neverEnded(of) {
		c.w.saw(undoWaited)
		c.dawdle(sleep, c.w.ahead)
		for until := c.w.now + queryTime + replicaLag + 1; c.w.now < until; {
			c.retry(sleep)
		}
	}
	return c.discard(sleep, of) && c.clear(sleep, of)
}

// neverEnded tells whether no segment can ever have ended for a settling. Only the owner that announced it knows that.
func (c *consumer) neverEnded(of settling) bool {
	return c.w.settlings[of.by].owner == c && !c.ending[of.by]
}

// unmark shows the segments again, and counts their edits up, so that what ends them later finds nothing.
func (c *consumer) unmark(sleep func(int), of settling) bool {
	var calls []*call
	for _, id := range of.segments {
		calls = append(calls, c.start(func() (int, string) { return c.unmarkOne(of, id) }))
	}
	done := c.await(sleep, calls) || !c.w.with(unmarkAcked)
	return done || !slices.ContainsFunc(calls, func(k *call) bool { return !k.known || k.err == refused })
}

func (c *consumer) unmarkOne(of settling, id string) (seq int, err string) {
	return c.w.db.update(id, func(doc *document) bool {
		if doc.until == 0 && !c.w.with(unmarkAll) || doc.until > 0 && doc.by != of.by && c.w.with(unmarkOwn) {
			return false
		}
		c.w.log("%s shows %s again, not for %s", c.name, id, of.by)
		if c.w.finishedOf(of.by) {
			c.w.saw(lateUnmark)
		}
		doc.until, doc.by = 0, ""
		if c.w.with(countUndone) {
			doc.edits++
		}
		return true
	})
}

// discard deletes the buckets of a settling.
func (c *consumer) discard(sleep func(int), of settling) bool {
	s := c.look(sleep, recoverFence)
	var calls []*call
	for _, id := range slices.Sorted(maps.Keys(s.documents)) {
		if doc := s.documents[id]; !doc.segment && doc.by == of.by {
			calls = append(calls, c.start(func() (int, string) { return c.discardOne(of, id) }))
		}
	}
	done := c.await(sleep, calls) || !c.w.with(deleteAcked)
	return done || !slices.ContainsFunc(calls, func(k *call) bool { return !k.known || k.err == refused })
}

func (c *consumer) discardOne(of settling, id string) (seq int, err string) {
	return c.w.db.update(id, func(doc *document) bool {
		if doc.by != of.by {
			c.w.saw(lateDelete)
			if c.w.with(deleteOwn) {
				return false
			}
		}
		c.w.log("%s deletes %s of %s", c.name, id, of.by)
		doc.rows = nil
		return true
	})
}
