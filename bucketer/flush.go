package bucketer

import (
	"math"
	"unsafe"
)

const (
	extremesBytes = int(unsafe.Sizeof(extremes{}))
	sentBytes     = int64(unsafe.Sizeof(sent{}))
)

// flight is a flush whose outcomes are not known yet.
type flight struct {
	*Flush
	sent   []sent // by the flush's writes
	oldest int64  // smallest offset in it
	bytes  int64  // of its writes, and of the lists here
}

// sent is what one write is about.
type sent struct {
	bucket *bucket
	rows   rows // the measurements it adds, in case they have to be put back
}

// Prepare cuts a flush: one write for each bucket of which something waits, in the order the buckets were first touched.
// It is nil when there is nothing to write. now is a monotonic clock of the caller's, in nanoseconds: a series whose
// writes met conflicts again and again is left out until its time has come.
//
// There is at most one flush in flight.
func (c *Catalog) Prepare(now int64) *Flush {
	if c.flight != nil {
		panic("bucketer: E4: Prepare before the outcomes of the last flush were told")
	}
	f := &flight{Flush: &Flush{}, oldest: math.MaxInt64}
	f.sent = make([]sent, 0, len(c.dirty))
	f.Writes = make([]*Write, 0, len(c.dirty))
	c.flight = f
	var left []*bucket
	list := c.dirty
	for len(c.dirty) > 0 {
		touched := c.dirty
		c.dirty = nil // cut may touch others
		for i, b := range touched {
			if c.isLeftOut(b, now) {
				left = append(left, b)
			} else {
				c.cut(f, b, len(touched)-i)
			}
		}
	}
	clear(list)
	c.dirty = append(list[:0], left...)
	c.settlePending()
	f.memory = c.encoder.rest()
	f.bytes = f.memory.total + int64(cap(f.sent))*sentBytes + int64(cap(f.Writes))*8
	if len(f.Writes) == 0 {
		c.flight = nil
		c.spare.add(&f.memory)
		return nil
	}
	return f.Flush
}

// isLeftOut reports whether something waits for a bucket whose series backs off.
func (c *Catalog) isLeftOut(b *bucket, now int64) bool {
	return (b.pending.n > 0 || b.mustClose()) && b.series.more != nil && now < b.series.more.notBefore
}

// Release takes back the memory of a finished flush, for the next ones. Nothing of its Writes may be read afterwards, nor
// by anybody else: not the writes, not what they point at. Who cannot say that leaves it to the garbage collector.
func (c *Catalog) Release(f *Flush) {
	if c.flight != nil && c.flight.Flush == f {
		panic("bucketer: E4: Release before the outcomes of the flush were told")
	}
	c.spare.add(&f.memory)
	*f = Flush{}
}

// cut adds the write of a bucket to the flush, if something waits for it. left is how many there may still be.
func (c *Catalog) cut(f *flight, b *bucket, left int) {
	b.unset(isDirty)
	if b.pending.n == 0 && !b.mustClose() || b.is(isGone) {
		return
	}
	closes := !b.is(isClosed) && (b.mustClose() || b.count() >= c.options.Limits.MaxCount)
	w := c.encoder.encode(c, b, closes, left)
	one := sent{bucket: b, rows: c.takePending(b)}
	b.stored = w.Count
	b.set(inFlight)
	if closes {
		b.set(isClosed)
	}
	if len(w.Document) > maxDocument && w.Added > 1 {
		c.refused(w, &one, &Outcome{TooLarge: true}, nil) // as MongoDB would
		return
	}
	f.Writes = append(f.Writes, w)
	f.sent = append(f.sent, one)
	f.Bytes += len(w.Filter) + len(w.Document)
	f.Measurements += int(w.Added)
	if w.Added > 0 {
		f.oldest = min(f.oldest, w.First)
	}
}

// settlePending works out what is still pending after a flush was cut: the measurements of series that back off.
func (c *Catalog) settlePending() {
	c.pending.oldest = math.MaxInt64
	for _, b := range c.dirty {
		c.pending.oldest = min(c.pending.oldest, b.pending.oldest())
	}
}
