package bucketer

import (
	"slices"
	"time"
)

// Finish takes the outcomes of a flush, outcomes[i] for f.Writes[i]. It returns the measurements that MongoDB refuses for their
// content. Measurements of conflicted writes that are not stored become pending or await look-ups again.
func (c *Catalog) Finish(f *Flush, outcomes []Outcome, now int64) []Rejected {
	if c.flight == nil || c.flight.Flush != f || len(outcomes) != len(f.Writes) {
		panic("bucketer: E4: Finish with other outcomes than those of the flush in flight")
	}
	done := c.flight
	c.flight = nil
	var rejected []Rejected
	// Stored measurements come first, so that the returned ones meet the buckets as they are then.
	for i := range outcomes {
		if r := outcomes[i].Result; r == Applied || r == AppliedForget {
			if f.Writes[i].Segment {
				c.segmentApplied(f.Writes[i], &done.sent[i])
				continue
			}
			c.applied(f.Writes[i], &done.sent[i], r == AppliedForget)
		}
	}
	for i := range outcomes {
		switch r := outcomes[i].Result; {
		case r == Applied || r == AppliedForget:
		case r != Conflicted && r != Refused:
			panic("bucketer: E4: a write is finished whose outcome is " + r.String())
		case f.Writes[i].Segment:
			c.unstage(&done.sent[i], &outcomes[i])
		case r == Conflicted:
			c.conflicted(&done.sent[i], &outcomes[i], now)
		default:
			rejected = c.refused(f.Writes[i], &done.sent[i], &outcomes[i], rejected)
		}
	}
	return rejected
}

// applied goes on with a bucket after its write was applied.
func (c *Catalog) applied(w *Write, done *sent, forget bool) {
	b, s := done.bucket, done.bucket.series
	c.stats.committed(w)
	c.forgetAttempts(done.rows)
	c.buffers.release(done.rows.buf)
	b.unset(inFlight)
	c.keptOut.accept(s.key)
	if s.more != nil {
		s.more.conflicts, s.more.notBefore = 0, 0
		if w.Kind == Update && s.more.wanted != nil {
			s.more.wanted.stale = true // the database's answer may be older than this write
		}
	}
	switch {
	case forget || b.is(isCleared):
		c.forget(b)
	case b.isBusy():
	case b.action != stay:
		c.applyAction(b)
	default:
		c.idle.push(b)
	}
	c.retire(s)
}

// forgetAttempts drops the attempts of stored positions.
func (c *Catalog) forgetAttempts(stored rows) {
	if len(c.attempts) == 0 {
		return
	}
	for r := range stored.all {
		delete(c.attempts, r.position)
	}
}

// forget drops a bucket that differs from what the catalog knows, and places its pending measurements anew.
func (c *Catalog) forget(b *bucket) {
	waiting := c.abandon(b)
	c.putBack(b.series, waiting)
	c.retire(b.series)
}

// abandon drops a bucket and returns its pending measurements, which the caller then owns.
func (c *Catalog) abandon(b *bucket) rows {
	waiting := c.takePending(b)
	b.action = leave
	b.unset(inFlight)
	c.drop(b)
	return waiting
}

// putBack places measurements that were in a bucket before, in their order, and releases their memory.
func (c *Catalog) putBack(s *series, waiting rows) {
	for r := range waiting.all {
		c.put(s, r)
	}
	c.buffers.release(waiting.buf)
}

// Bounds of the back-off of a series with repeated conflicts. The first conflict may be chance, and causes no back-off.
const (
	firstBackoff = time.Second
	maxBackoff   = time.Minute
)

// conflicted puts back the measurements that are not stored, after a write found a stored document that differs from the
// catalog's bucket.
func (c *Catalog) conflicted(done *sent, o *Outcome, now int64) {
	c.stats.Conflicts++
	b := done.bucket
	s := b.series
	opened := b.stored == done.rows.n // the write was the bucket's insert
	waiting := c.abandon(b)
	x := c.extra(s)
	x.conflicts++
	if x.conflicts > 1 {
		x.notBefore = now + int64(min(firstBackoff<<min(x.conflicts-2, 10), maxBackoff))
	}
	x.excluded = append(x.excluded, b.id)
	for r := range done.rows.all {
		if slices.Contains(o.Stored, r.position) {
			delete(c.attempts, r.position)
		} else {
			if opened {
				c.attempts[r.position]++
			}
			c.put(s, r)
		}
		opened = false // only the first measurement opened it
	}
	c.buffers.release(done.rows.buf)
	c.putBack(s, waiting)
	c.retire(s)
}

// refused searches for the measurement at fault. Each half of the measurements gets a bucket of its own, until single
// measurements are refused. If an update would only make the bucket too large, no measurement is at fault. The bucket is
// closed, and the measurements go into another one.
func (c *Catalog) refused(w *Write, done *sent, o *Outcome, rejected []Rejected) []Rejected {
	c.stats.Refusals++
	b, s := done.bucket, done.bucket.series
	switch {
	case o.TooLarge && w.Kind == Insert:
		c.stats.BucketDocumentsTooLargeInsert++
	case o.TooLarge:
		c.stats.BucketDocumentsTooLargeUpdate++
	}
	if o.TooLarge && w.Kind == Update && w.Added > 0 {
		c.closeTooLarge(w, b, done)
		return rejected
	}
	waiting := c.abandon(b)
	if w.Kind == Update {
		c.extra(s).excluded = append(s.more.excluded, b.id)
	}
	switch {
	case done.rows.n == 1 && w.Kind == Insert:
		r, _ := readRow(done.rows.buf)
		delete(c.attempts, r.position)
		rejected = append(rejected, Rejected{Position: r.position, Code: o.Code, Message: o.Message})
	case done.rows.n > 0:
		c.bisect(s, done.rows, b.minTime)
	}
	c.buffers.release(done.rows.buf)
	c.putBack(s, waiting)
	c.retire(s)
	return rejected
}

// closeTooLarge closes a stored bucket that is too large for its update, and puts the measurements into another bucket.
func (c *Catalog) closeTooLarge(w *Write, b *bucket, done *sent) {
	s := b.series
	b.unset(inFlight)
	b.stored -= w.Added
	if w.Closes {
		b.unset(isClosed)
	}
	waiting := c.takePending(b)
	switch {
	case b.is(isCleared):
		b.action = leave
		c.drop(b) // The bucket differs from what the catalog knows, so not even the close is written.
	case b.action == stay:
		c.rollOver(b, hardClose, bySize)
		c.touch(b)
	default:
		b.action = hardClose
		c.touch(b)
	}
	c.isolate(s, done.rows, b.minTime)
	c.buffers.release(done.rows.buf)
	c.putBack(s, waiting)
}

// bisect puts each half of the rows into a bucket of its own.
func (c *Catalog) bisect(s *series, rs rows, minTime int64) {
	half := (rs.n + 1) / 2
	rest := rs.buf
	for range half {
		_, rest = readRow(rest)
	}
	c.isolate(s, rows{buf: rs.buf[:len(rs.buf)-len(rest)]}, minTime)
	if rs.n > half {
		c.isolate(s, rows{buf: rest}, minTime)
	}
}

// isolate opens a bucket that takes only these rows. They shared a bucket of this minimum time before.
func (c *Catalog) isolate(s *series, rs rows, minTime int64) {
	first, _ := readRow(rs.buf)
	b := c.newBucket(s, first, c.attempts[first.position], minTime)
	b.action = leave
	b.set(isAlone)
	c.extra(s).roll(b)
	for r := range rs.all {
		c.add(b, r, b.shape.survey(r.elements), noReason)
	}
}
