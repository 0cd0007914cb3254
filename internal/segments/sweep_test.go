package segments

import (
	"maps"
	"slices"
)

// sweep deletes segments that ended long enough ago. It runs between compactions, when none is unfinished. As long as a segment
// of a compaction has not ended, an ended segment is the proof that the buckets must stay.
func (c *consumer) sweep(sleep func(int)) {
	before := c.clock() - linger
	if !c.w.with(sweepLinger) {
		before = c.clock()
	}
	var calls []*call
	s := c.w.db.majority()
	for _, id := range slices.Sorted(maps.Keys(s.documents)) {
		if doc := s.documents[id]; doc.segment && doc.until > 0 && doc.until <= before {
			calls = append(calls, c.start(func() (int, string) { return c.sweepOne(id, before) }))
		}
	}
	c.await(sleep, calls)
}

func (c *consumer) sweepOne(id string, before int) (seq int, err string) {
	return c.w.db.update(id, func(doc *document) bool {
		if doc.until == 0 || doc.until > before {
			return false
		}
		c.w.saw(swept)
		doc.rows = nil
		return true
	})
}

// ended reports whether a compaction has no frozen segment.
func ended(s state, compaction string) bool {
	for _, doc := range s.documents {
		if doc.frozen() && doc.compaction == compaction {
			return false
		}
	}
	return true
}
