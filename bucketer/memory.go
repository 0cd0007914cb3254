package bucketer

import (
	"maps"
	"math/bits"
	"unsafe"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
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

// Bytes returns the memory of the catalog: pending, parked and sent measurements, open and archived buckets, and the indexes
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

// newBucket makes a bucket for its first measurement, which the caller then adds.
func (c *Catalog) newBucket(s *series, r row, attempt int32, minTime int64) *bucket {
	id := timeseries.BucketID(c.options.Source, r.position, attempt, minTime)
	for c.buckets[id] != nil { // Another bucket begins with this position, and its write is not answered yet.
		attempt++
		id = timeseries.BucketID(c.options.Source, r.position, attempt, minTime)
	}
	b := &bucket{id: id, minTime: minTime, maxTime: r.time, series: s, shape: c.shapes.empty}
	c.keep(b)
	c.stats.BucketsOpened++
	return b
}

// keep adds a new bucket to the catalog.
func (c *Catalog) keep(b *bucket) {
	c.buckets[b.id] = b
	c.memory.buckets += bucketBytes
	c.memory.peakBuckets = max(c.memory.peakBuckets, len(c.buckets))
}

// growShape extends a bucket's shape by a measurement that was surveyed and does not clash.
func (c *Catalog) growShape(b *bucket, elements []byte, v survey) {
	c.memory.buckets -= c.ownShapeBytes(b)
	grown := c.shapes.grow(b.shape, elements, v)
	c.shapes.hold(grown)
	c.shapes.release(b.shape)
	b.shape = grown
	c.memory.buckets += c.ownShapeBytes(b)
}

// ownShapeBytes is the memory of a bucket's shape if only this bucket has it.
func (c *Catalog) ownShapeBytes(b *bucket) int64 {
	if b.shape.shared {
		return 0
	}
	return b.shape.bytes
}

// setBounds keeps a copy of the bounds, which are two documents or one.
func (c *Catalog) setBounds(b *bucket, bounds []byte) {
	size := len(bounds)
	if cap(b.bounds) >= size && cap(b.bounds) <= 2*size+64 {
		b.bounds = append(b.bounds[:0], bounds...)
		return
	}
	c.memory.buckets -= int64(cap(b.bounds))
	c.bounds.release(b.bounds)
	b.bounds = append(c.bounds.take(size), bounds...)
	c.memory.buckets += int64(cap(b.bounds))
}

// drop forgets a bucket that has nothing pending, without telling the database. Its series may then be retired.
func (c *Catalog) drop(b *bucket) {
	c.idle.remove(b)
	c.memory.buckets -= bucketBytes + int64(cap(b.bounds)) + c.ownShapeBytes(b)
	c.bounds.release(b.bounds)
	b.bounds = nil
	c.shapes.release(b.shape)
	delete(c.buckets, b.id)
	if !b.is(isClosed) && !c.archive.holds(b.id) {
		c.unseen.add(b.minTime)
	}
	b.series.withdraw(b)
	b.set(isGone)
	if b.series.more != nil {
		b.series.more.unroll(b)
	}
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
