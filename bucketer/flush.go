package bucketer

import (
	"math"
	"slices"
	"unsafe"
)

const (
	extremesBytes = int(unsafe.Sizeof(extremes{}))
	sentBytes     = int64(unsafe.Sizeof(sent{}))
)

// flight is a flush whose outcomes are not known yet.
type flight struct {
	*Flush
	sent   []sent   // by the flush's writes
	staged []staged // what goes into segments, while the flush is cut
	oldest int64    // smallest offset in it
	bytes  int64    // of its writes, and of the lists here
}

// sent is what one write is about.
type sent struct {
	bucket *bucket // of a segment: nil
	rows   rows    // the measurements it adds, in case they have to be put back; of a segment with their metas
}

// Prepare cuts a flush: one write for each bucket of which something waits, in the order the buckets were first touched.
// It is nil when there is nothing to write. now is a monotonic clock of the caller's, in nanoseconds: a series whose
// writes met conflicts again and again is left out until its time has come.
//
// Of more writes than a flush may have it takes the first, and the next calls take the rest (Rest), before anything of
// buckets that were touched since.
//
// There is at most one flush in flight.
func (c *Catalog) Prepare(now int64) *Flush {
	if c.flight != nil {
		panic("bucketer: E4: Prepare before the outcomes of the last flush were told")
	}
	if c.rest == 0 {
		c.rest = len(c.dirty)
	}
	most := c.options.FlushOf(c.rest)
	f := &flight{Flush: &Flush{}, oldest: math.MaxInt64}
	f.sent = make([]sent, 0, most)
	f.Writes = make([]*Write, 0, most)
	c.flight = f
	c.cutMost(f, now)
	c.cutSegments(f)
	c.countPending()
	f.memory = c.encoder.rest()
	f.bytes = f.memory.total + int64(cap(f.sent))*sentBytes + int64(cap(f.Writes))*8
	if len(f.Writes) == 0 {
		c.flight = nil
		c.spare.add(&f.memory)
		return nil
	}
	return f.Flush
}

// Rest reports whether the last flush could not have all writes that were waited for, so that the next one is due at once.
func (c *Catalog) Rest() bool { return c.rest > 0 }

// FlushOf is how many writes the next flush has at most when something waits for so many buckets. A fourth of them it
// always may have: each flush walks what it leaves.
func (o *Options) FlushOf(buckets int) int {
	if o.FlushWrites == 0 {
		return buckets
	}
	return min(buckets, max(o.FlushWrites, (buckets+3)/4))
}

// cutMost cuts the writes of a flush, and leaves in this order the rest, the series touched since, and the series that back off.
func (c *Catalog) cutMost(f *flight, now int64) {
	most := math.MaxInt
	if c.options.FlushWrites > 0 {
		most = max(c.options.FlushWrites, cap(f.Writes))
	}
	list := c.dirty
	due, since := list[:c.rest], list[c.rest:]
	c.dirty = nil // cut may touch others
	var left []*bucket
	for f.taken() < most {
		if len(due) == 0 {
			if due, c.dirty = c.dirty, nil; len(due) == 0 && f.taken() == 0 {
				due, since = since, nil // there was nothing left of the rest
			}
			if len(due) == 0 {
				break
			}
		}
		b := due[0]
		due = due[1:]
		if c.isLeftOut(b, now) {
			left = append(left, b)
		} else {
			c.cut(f, b, min(len(due)+1, most-f.taken()))
		}
	}
	c.rest = len(due) + len(c.dirty)
	rest := slices.Concat(due, c.dirty, since) // mostly nil
	clear(list)
	c.dirty = append(append(list[:0], rest...), left...)
}

// taken is of how many buckets it has what waits.
func (f *flight) taken() int { return len(f.Writes) + len(f.staged) }

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
	if c.isSparse(b) {
		c.stage(f, b)
		return
	}
	closes := !b.is(isClosed) && (b.mustClose() || b.count() >= c.options.Limits.MaxCount || c.options.Compaction != nil)
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
	f.add(w, one)
}

func (f *flight) add(w *Write, one sent) {
	f.Writes = append(f.Writes, w)
	f.sent = append(f.sent, one)
	f.Bytes += len(w.Filter) + len(w.Document)
	f.Measurements += int(w.Added)
	if w.Added > 0 {
		f.oldest = min(f.oldest, w.First)
	}
}

// countPending works out what is still pending after a flush was cut: the measurements of series that back off.
func (c *Catalog) countPending() {
	c.pending.oldest = math.MaxInt64
	for _, b := range c.dirty {
		c.pending.oldest = min(c.pending.oldest, b.pending.oldest())
	}
}
