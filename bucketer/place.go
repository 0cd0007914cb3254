package bucketer

import "waterwheel/internal/timeseries"

// Whether a measurement may wait for a look-up.
const (
	mayAsk   = true
	wasAsked = false
)

// place puts a measurement into the bucket that it belongs to. v is its survey against the open bucket, if there is one. It
// follows MongoDB's pass A, which finds a bucket without rolling one over because of its time, and then pass B.
func (c *Catalog) place(s *series, r row, v survey, ask bool) {
	if s.isAwaiting() {
		c.await(s, r)
		return
	}
	if s.open == nil {
		if ask && c.askFor(s, r, true) {
			return
		}
		c.openBucket(s, r, openedByMeta)
		return
	}
	if v.match == clashes {
		if v = s.turnTo(r.elements); v.match == clashes {
			c.placeBeside(s, r, ask)
			return
		}
	}
	act, why := c.decide(s.open, r.time, v)
	if act == stay {
		c.add(s.open, r, v, why)
		return
	}
	if act != hardClose {
		if c.placeAlternate(s, r) {
			return
		}
		// A measurement newer than the open bucket needs no query, because there can hardly be a bucket for it.
		if ask && c.askFor(s, r, act == archive) {
			return
		}
	}
	c.rollOver(s.open, act, why)
	c.openBucket(s, r, openedByRollover)
}

// placeBeside places a measurement that clashes with all open buckets of its series. They stay open.
func (c *Catalog) placeBeside(s *series, r row, ask bool) {
	if c.placeAlternate(s, r) || ask && c.askFor(s, r, true) {
		return
	}
	c.openBucket(s, r, openedBeside)
}

// placeAlternate inserts a measurement into a bucket that has rolled over but is still in memory.
func (c *Catalog) placeAlternate(s *series, r row) bool {
	b, v := s.alternate(r.time, c.span, r.elements)
	if b == nil || c.exceedsDelta(b) {
		return false
	}
	act, why := c.decide(b, r.time, v)
	if act != stay {
		return false
	}
	c.add(b, r, v, why)
	return true
}

// opening is why a bucket is opened.
type opening uint8

const (
	openedByMeta     opening = iota // the series had no open bucket
	openedByRollover                // it replaces another bucket
	openedBeside                    // the open buckets hold values of other types
)

// openBucket opens a bucket for a measurement and makes it the open bucket of its series.
func (c *Catalog) openBucket(s *series, r row, why opening) {
	c.rollPassed(s, r.time)
	attempt := c.attempts[r.position]
	if c.options.Compaction != nil {
		attempt = c.options.Compaction.attempt()
	}
	if why == openedByMeta && attempt == 0 {
		c.stats.BucketsOpenedDueToMetadata++
	}
	b := c.newBucket(s, r, attempt, c.options.Collection.Round(r.time))
	c.setOpen(s, b)
	c.add(b, r, c.shapes.empty.survey(r.elements), noReason)
}

// exceedsDelta reports whether the update of a stored bucket would have too many measurements with one more. With
// SetsInTextOrder it also reports whether the update would have indexes of different lengths.
func (c *Catalog) exceedsDelta(b *bucket) bool {
	if b.stored == 0 || b.pending.n == 0 {
		return false
	}
	return c.options.DeltaMax > 0 && b.pending.n >= c.options.DeltaMax ||
		c.options.SetsInTextOrder && digits(b.count()) > digits(b.stored)
}

// add puts a measurement into a bucket that takes it. why is the reason that decide gave.
func (c *Catalog) add(b *bucket, r row, v survey, why reason) {
	if c.exceedsDelta(b) {
		c.replace(b, r)
		return
	}
	if why == byLarge && !b.is(keptOpen) {
		b.set(keptOpen)
		c.stats.BucketsKeptOpenDueToLargeMeasurements++
	}
	b.size += int32(c.added(b.count(), v))
	if v.match == grows {
		c.growShape(b, r.elements, v)
	}
	b.pending.push(r, &c.buffers)
	c.idle.remove(b)
	c.touch(b)
	if c.pending.measurements == 0 || r.position.Offset < c.pending.oldest {
		c.pending.oldest = r.position.Offset
	}
	c.pending.measurements++
	c.pending.bytes += int64(r.size())
}

// replace takes back all measurements that wait for a stored bucket and puts them, with r, into a new bucket. An update with so
// many paths costs the database more than another document.
func (c *Catalog) replace(b *bucket, r row) {
	s := b.series
	taken := c.takePending(b)
	id := b.id
	c.rollOver(b, leave, byDeltaCost)
	c.extra(s).excluded = append(s.more.excluded, id)
	first, others := readRow(taken.buf)
	c.openBucket(s, first, openedByRollover)
	for waiting := range (rows{buf: others}).all {
		c.put(s, waiting)
	}
	c.put(s, r)
	c.buffers.release(taken.buf)
}

// takePending takes the pending measurements out of a bucket. The caller owns them.
func (c *Catalog) takePending(b *bucket) rows {
	taken := b.pending
	b.pending = rows{}
	c.pending.measurements -= int(taken.n)
	c.pending.bytes -= int64(len(taken.buf))
	return taken
}

// touch puts a bucket on the list of buckets with something to write.
func (c *Catalog) touch(b *bucket) {
	if !b.is(isDirty) {
		b.set(isDirty)
		c.dirty = append(c.dirty, b)
	}
}

// rollOver takes a bucket out of the open buckets of its series. The action is carried out once nothing of the bucket waits any
// more.
func (c *Catalog) rollOver(b *bucket, act action, why reason) {
	s := b.series
	if s.withdraw(b) && s.more != nil {
		s.more.excluded = nil
	}
	b.action = act
	c.stats.rolledOver(act, why)
	c.idle.remove(b)
	if !b.isBusy() {
		c.applyAction(b)
		return
	}
	c.extra(s).roll(b)
	if b.mustClose() {
		c.touch(b)
	}
}

// applyAction carries out the action of a bucket that has nothing to write.
func (c *Catalog) applyAction(b *bucket) {
	if b.action == archive {
		c.archiveBucket(b)
	}
	c.drop(b)
}

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
