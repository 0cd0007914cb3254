package bucketer

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// action is what happens to a bucket that is no longer an open one of its series, once nothing of it waits any more.
type action uint8

const (
	stay      action = iota // it is an open bucket
	softClose               // forget it; it may be reopened from the database
	archive                 // keep its _id, to reopen it without a search
	hardClose               // set control.closed, then forget it
	leave                   // forget it, and give it no more measurements before that
)

// bucket is one bucket in memory. It does not keep written measurements, but only counts, bounds and shape.
type bucket struct {
	// Each insertion reads and changes the fields up to flags. They come first, in one cache line of the processor.
	pending      rows   // not yet in flight
	shape        *shape // of all measurements, including pending ones
	minTime      int64  // control.min.<time>
	stored       int32  // measurements stored or in flight, on which the next write builds
	size         int32  // accounted bytes, including pending measurements
	action       action
	flags        flags
	id           bson.ObjectID
	maxTime      int64 // control.max.<time> of the measurements stored or in flight
	series       *series
	newer, older *bucket // in the list of idle buckets
	// bounds are control.min and control.max of the measurements stored or in flight, as two documents without the time. Equal
	// bounds are kept as one document.
	bounds []byte
}

type flags uint16

const (
	inFlight  flags = 1 << iota // a write of it is under way
	isDirty                     // it is in the catalog's list of buckets to write
	isIdle                      // it is in the list of idle buckets
	isClosed                    // a write has set control.closed
	keptOpen                    // it was already counted as kept open due to large measurements
	isCleared                   // it must be forgotten when the write under way is done
	isRolled                    // it is in its series' list of buckets that have rolled over
	isGone                      // the catalog has dropped it
	isAlone                     // it gets writes of its own, even for few measurements
)

func (b *bucket) is(f flags) bool { return b.flags&f != 0 }
func (b *bucket) set(f flags)     { b.flags |= f }
func (b *bucket) unset(f flags)   { b.flags &^= f }

// count is the number of measurements, including pending ones.
func (b *bucket) count() int32 { return b.stored + b.pending.n }

// hasOneBound reports whether control.min and control.max are equal except for the time, as in a bucket of one measurement.
func (b *bucket) hasOneBound() bool { return rawbson.DocumentSize(b.bounds) == len(b.bounds) }

// splitBounds returns the elements of control.min and of control.max without the time, in place.
func (b *bucket) splitBounds() (lower, upper []byte) {
	size := rawbson.DocumentSize(b.bounds)
	lower = rawbson.Content(b.bounds[:size])
	if size == len(b.bounds) {
		return lower, lower
	}
	return lower, rawbson.Content(b.bounds[size:])
}

// mustClose reports whether the bucket needs a hard close that no write has made yet.
func (b *bucket) mustClose() bool { return b.action == hardClose && !b.is(isClosed) }

// isBusy reports whether something of the bucket is not written yet, or is under way.
func (b *bucket) isBusy() bool { return b.pending.n > 0 || b.is(inFlight) || b.mustClose() }

// spans reports whether a time is within the bucket's window.
func (b *bucket) spans(time, span int64) bool {
	return time >= b.minTime && !spanExceeded(time, b.minTime, span)
}

// spanExceeded reports whether time is span or more after minTime. The caller makes sure that time is not before minTime.
func spanExceeded(time, minTime, span int64) bool {
	return uint64(time)-uint64(minTime) >= uint64(span)
}

// idleList is the list of idle buckets, from the most to the least recently used.
type idleList struct{ newest, oldest *bucket }

func (l *idleList) push(b *bucket) {
	b.set(isIdle)
	b.older = l.newest
	if l.newest != nil {
		l.newest.newer = b
	} else {
		l.oldest = b
	}
	l.newest = b
}

func (l *idleList) remove(b *bucket) {
	if !b.is(isIdle) {
		return
	}
	b.unset(isIdle)
	if b.newer != nil {
		b.newer.older = b.older
	} else {
		l.newest = b.older
	}
	if b.older != nil {
		b.older.newer = b.newer
	} else {
		l.oldest = b.newer
	}
	b.newer, b.older = nil, nil
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
	c.shapes.extend(b, elements, v)
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
