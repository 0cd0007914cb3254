package bucketer

import "waterwheel/internal/timeseries"

// reason is why a bucket stopped being the open one of its series.
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
	byLarge // not an end: it stays although it is too large
)

// digits is the length of an index as MongoDB accounts for it: the index 0 has none.
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

// decide says what becomes of a bucket when a measurement comes that does not clash with it: stay, and it is inserted there
// (byLarge: although it is too large); or the action that makes room for another bucket, with its reason. The order of the
// checks is MongoDB's.
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

// decideSize closes a bucket that would become too large. One of few measurements may grow beyond that, for otherwise
// large measurements would be alone in their buckets.
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

// active is the number of buckets that share the cache: open and archived ones.
func (c *Catalog) active() int64 { return int64(len(c.buckets) + c.archive.live) }
