package bucketer

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// displaced is a measurement that has lost its bucket.
type displaced struct {
	row
	series *series
}

// Clear forgets the buckets of the matching series, because something else has written to them. A nil match means all series.
// Pending measurements are placed anew, in the order of their offsets. Answers to look-ups under way do not count. Writes in
// flight go on, and their buckets are forgotten when they are done. The whole archive is forgotten.
func (c *Catalog) Clear(match func(meta bson.RawValue) bool) {
	c.archive.dropAll(&c.unseen)
	var out []displaced
	var taken []rows
	all := slices.Collect(c.series.all())
	for _, s := range all {
		if match != nil && !match(s.meta()) {
			continue
		}
		for _, waiting := range c.clearSeries(s) {
			taken = append(taken, waiting)
			for r := range waiting.all {
				out = append(out, displaced{row: r, series: s})
			}
		}
	}
	slices.SortFunc(out, func(a, b displaced) int { return a.position.Compare(b.position) })
	for _, d := range out {
		c.put(d.series, d.row)
	}
	for _, waiting := range taken {
		c.buffers.release(waiting.buf)
	}
	for _, s := range all {
		c.retire(s)
	}
}

// clearSeries drops the buckets of a series, except those in flight, and returns the measurements that waited for them.
func (c *Catalog) clearSeries(s *series) []rows {
	known := slices.Collect(s.opened)
	if x := s.more; x != nil {
		for _, chunk := range x.rolled.chunks {
			for _, b := range chunk {
				if !b.is(isGone) {
					known = append(known, b)
				}
			}
		}
		if x.wanted != nil {
			x.wanted.stale = x.wanted.stale || x.wanted.handed
		}
	}
	var taken []rows
	for _, b := range known {
		c.stats.BucketsCleared++
		if waiting := c.clearBucket(b); waiting.n > 0 {
			taken = append(taken, waiting)
		}
	}
	return taken
}

func (c *Catalog) clearBucket(b *bucket) rows {
	if !b.is(inFlight) {
		return c.abandon(b)
	}
	s := b.series
	if s.withdraw(b) {
		c.extra(s).roll(b)
	}
	b.set(isCleared)
	b.action = leave
	return c.takePending(b)
}
