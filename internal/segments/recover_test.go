package segments

import (
	"maps"
	"slices"
)

// recover completes or rolls back every compaction with frozen segments until there are none. It waits before each decision, so
// that no command of the former owner can still be executed.
func (c *consumer) recover(sleep func(int)) (found bool) {
	for ; ; c.retry(sleep) {
		for c.w.now < c.commandsUntil && c.w.with(waitForCommands) {
			c.retry(sleep)
		}
		c.dawdle(sleep, c.w.slow, 2*c.w.ahead)
		s := c.look(sleep, recoverFence)
		compaction, frozen, from := unfinished(s)
		if compaction == "" {
			return found
		}
		found = true
		c.w.compactions[compaction].doubted = true
		if from > 0 && c.w.with(endRest) {
			c.w.saw(finishedLater)
			c.end(sleep, compaction, from, frozen)
			continue
		}
		c.seeRollBack(s, compaction)
		c.rollBack(sleep, s, compaction, frozen)
	}
}

// unfinished returns a compaction with frozen segments, and the time at which those end if one of its segments has ended.
func unfinished(s state) (compaction string, frozen []string, from int) {
	for _, id := range slices.Sorted(maps.Keys(s.documents)) {
		if doc := s.documents[id]; doc.frozen() && (compaction == "" || doc.compaction == compaction) {
			compaction, frozen = doc.compaction, append(frozen, id)
		}
	}
	for _, doc := range s.documents {
		if doc.segment && doc.compaction == compaction {
			from = max(from, doc.until)
		}
	}
	return compaction, frozen, from
}

func (c *consumer) seeRollBack(s state, compaction string) {
	c.w.saw(rolledBackCompaction)
	for _, doc := range s.documents {
		if !doc.segment && doc.compaction == compaction && c.clock() >= doc.from {
			c.w.saw(rolledBackAfterT)
			break
		}
	}
	c.w.log("%s rolls back %s", c.name, compaction)
}

// rollBack deletes the buckets, and then unfreezes the segments. No segment has ended, so no query has missed one, and rollBack
// need not wait for queries.
func (c *consumer) rollBack(sleep func(int), s state, compaction string, frozen []string) {
	if !c.w.with(deleteFirst) {
		c.unfreeze(sleep, compaction, frozen)
		c.discard(sleep, s, compaction)
		return
	}
	if !c.discard(sleep, s, compaction) && c.w.with(deleteAcked) {
		return
	}
	c.unfreeze(sleep, compaction, frozen)
}

// discard deletes the buckets of a compaction.
func (c *consumer) discard(sleep func(int), s state, compaction string) bool {
	var calls []*call
	for _, id := range slices.Sorted(maps.Keys(s.documents)) {
		if doc := s.documents[id]; !doc.segment && doc.compaction == compaction {
			calls = append(calls, c.start(func() (int, string) { return c.discardOne(compaction, id) }))
		}
	}
	return c.send(sleep, calls)
}

func (c *consumer) discardOne(compaction, id string) (seq int, err string) {
	return c.w.db.update(id, func(doc *document) bool {
		if doc.compaction != compaction {
			return false
		}
		c.w.log("%s deletes %s of %s", c.name, id, compaction)
		doc.rows = nil
		return true
	})
}

// unfreeze removes a compaction from its segments.
func (c *consumer) unfreeze(sleep func(int), compaction string, frozen []string) bool {
	var calls []*call
	for _, id := range frozen {
		calls = append(calls, c.start(func() (int, string) {
			return c.w.db.update(id, func(doc *document) bool {
				if doc.compaction != compaction {
					return false
				}
				c.w.log("%s gives %s free, not for %s", c.name, id, compaction)
				doc.compaction = ""
				return true
			})
		}))
	}
	return c.send(sleep, calls)
}
