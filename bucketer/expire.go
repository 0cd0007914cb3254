package bucketer

import "maps"

// Expire frees memory until Bytes is at most target, or until nothing is left to free without a flush. It first frees unused
// buffers. Then it drops idle buckets, least recently used first, and keeps only their _ids. It drops shapes that no bucket
// uses, and at last archived buckets, in the order in which they were archived.
func (c *Catalog) Expire(target int64) {
	if c.Bytes() <= target {
		return
	}
	c.buffers.trim()
	c.spare = spare{}
	for c.idle.oldest != nil && c.Bytes()-c.shapes.garbage()-c.bounds.idle > target {
		c.expireBucket(c.idle.oldest)
	}
	c.bounds.trim()
	if c.Bytes() > target && c.shapes.garbage() > 0 {
		c.shapes.sweep()
	}
	c.shrink()
	for c.archive.live > 0 && c.Bytes() > target {
		c.dropArchived()
	}
}

func (c *Catalog) expireBucket(b *bucket) {
	s := b.series
	act := softClose
	if c.archiveBucket(b) {
		act = archive
	}
	c.stats.rolledOver(act, byMemory)
	c.drop(b)
	if s.more != nil {
		s.more.excluded = nil
	}
	c.retire(s)
}

// dropArchived forgets archived buckets. A query may still find them.
func (c *Catalog) dropArchived() {
	c.stats.BucketsClosedDueToMemoryThreshold += int64(c.archive.dropOldest(&c.unseen))
}

// shrink rebuilds maps that have become much emptier, because a map never gives memory back by itself.
func (c *Catalog) shrink() {
	c.series.shrink()
	if len(c.buckets) < c.memory.peakBuckets/2 {
		c.buckets, c.memory.peakBuckets = maps.Collect(maps.All(c.buckets)), len(c.buckets)
	}
}
