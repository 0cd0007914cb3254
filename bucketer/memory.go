package bucketer

import (
	"maps"
	"math/bits"
	"slices"
	"unsafe"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Heap memory of the catalog's parts, in bytes.
const (
	bucketBytes = int64(unsafe.Sizeof(bucket{}))
	seriesBytes = int64(unsafe.Sizeof(series{}))
	moreBytes   = int64(unsafe.Sizeof(more{})+15) &^ 15
	shapeBytes  = int64(unsafe.Sizeof(shape{}))
	schemaBytes = int64(unsafe.Sizeof(schema{}))
	memberBytes = int64(unsafe.Sizeof(member{}))
	writeBytes  = int64(unsafe.Sizeof(Write{}))

	pointerBytes = int64(unsafe.Sizeof(&bucket{}))

	slotBytes  = int64(unsafe.Sizeof(slot{}))
	bucketSlot = int64(unsafe.Sizeof(bson.ObjectID{})+4) + 8
	indexSlot  = int64(unsafe.Sizeof("")) + 8
	knownSlot  = int64(unsafe.Sizeof("")) + 8
)

// memory is the accounted bytes of parts without accounting of their own.
type memory struct {
	series  int64 // including their keys
	buckets int64 // including their bounds and unshared shapes
	// peakBuckets is the most entries that the map has held, because a map never shrinks.
	peakBuckets int
}

// Bytes returns the memory of the catalog: pending, waiting and sent measurements, open and archived buckets, and the indexes
// that find them.
func (c *Catalog) Bytes() int64 {
	total := c.buffers.total + c.memory.series + c.memory.buckets + c.shapes.total +
		c.series.bytes() +
		mapBytes(max(c.memory.peakBuckets, len(c.buckets)), bucketSlot) +
		c.bounds.idle + c.archive.bytes() + c.lookups.bytes() + c.encoder.bytes() + c.keptOut.bytes() + c.spare.total + int64(cap(c.dirty))*8
	if c.flight != nil {
		total += c.flight.bytes
	}
	return total
}

// classBytes is about the heap memory of an object of n bytes. The heap's sizes are in steps of an eighth.
func classBytes(n int) int64 {
	if n <= 128 {
		return int64(n+15) &^ 15
	}
	step := 1 << (bits.Len(uint(n-1)) - 4)
	return int64(n+step-1) &^ int64(step-1)
}

// A Go map has tables of at most 1024 slots in groups of 8, each group with 8 bytes of control. A table splits when it is seven
// eighths full. Hashes are even, so all tables split at about the same number of entries.
const (
	mapGroup = 8
	mapTable = 1024
)

// mapBytes is the memory of a map that has held n entries.
func mapBytes(n int, slot int64) int64 {
	if n == 0 {
		return 48
	}
	slots := mapGroup
	for slots*7/8 < n {
		slots *= 2
	}
	return 48 + int64(slots)*(slot+1) + int64(slots/mapTable)*64
}

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
	if s.isAwaiting() {
		s.more.wanted.stale = s.more.wanted.stale || s.more.wanted.handed
	}
	var taken []rows
	for _, b := range slices.Collect(s.buckets) {
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
