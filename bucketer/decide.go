package bucketer

import "waterwheel/internal/timeseries"

// reason is why a bucket is no longer an open one of its series.
type reason uint8

const (
	noReason reason = iota
	byTimeForward
	byTimeBackward
	byCount
	bySize
	byCachePressure
	bySchemaChange
	byReopening
	byMemory
	byDeltaCost
	byLarge // no end: the bucket stays although it is too large
)

// digits is the length of an index as MongoDB accounts for it. The index 0 counts as empty.
func digits(index int32) int64 {
	n := int64(0)
	for ; index > 0; index /= 10 {
		n++
	}
	return n
}

// added is the number of bytes that a measurement adds to a bucket of this count.
func (c *Catalog) added(count int32, v survey) int64 {
	size := v.values + v.columns + int64(v.fields+1)*digits(count) + 2 + 8
	if count == 0 {
		size += c.time
	}
	return size
}

// decide says what happens to a bucket when a measurement comes that does not clash with it. Stay means that the bucket takes
// it, even if it becomes too large (byLarge). Another action makes room for another bucket. The order of the checks is
// MongoDB's.
func (c *Catalog) decide(b *bucket, time int64, v survey) (action, reason) {
	switch {
	case time < b.minTime:
		return archive, byTimeBackward
	case spanExceeded(time, b.minTime, c.span):
		return softClose, byTimeForward
	case b.count() >= c.options.Limits.MaxCount:
		return hardClose, byCount
	}
	return c.decideSize(b, v)
}

// decideSize closes a bucket that would become too large. A bucket with few measurements may grow further. Otherwise each large
// measurement would be alone in its bucket.
func (c *Catalog) decideSize(b *bucket, v survey) (action, reason) {
	limits := &c.options.Limits
	effective, absolute := limits.Sizes(c.active())
	size := int64(b.size) + c.added(b.count(), v)
	switch {
	case size <= int64(effective):
		return stay, noReason
	case b.count() >= limits.MinCount:
		if effective == limits.MaxBytes {
			return hardClose, bySize
		}
		return hardClose, byCachePressure
	case size > int64(absolute):
		if absolute == timeseries.LargeBytes {
			return hardClose, bySize
		}
		return hardClose, byCachePressure
	}
	return stay, byLarge
}

// active is the number of open and archived buckets, which share the cache.
func (c *Catalog) active() int64 { return int64(len(c.buckets) + c.archive.live) }
