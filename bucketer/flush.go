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
	staged []staged // measurements on their way into segments, while the flush is cut
	oldest int64    // the smallest offset in the flush
	bytes  int64    // of its writes and of these lists
}

// sent is the bucket and the rows of one write.
type sent struct {
	bucket *bucket // Nil means that the write is a segment's.
	rows   rows    // the measurements that the write adds, in case they are put back; those of a segment include their metas
}

// Prepare cuts a flush, with one write for each bucket that has something to write. The writes have the order in which the
// buckets were first touched. Prepare returns nil if there is nothing to write. The argument now is a monotonic clock of the
// caller, in nanoseconds. A series with repeated conflicts is left out until its back-off is over.
//
// If there are more writes than a flush may have, Prepare takes the first ones. The next calls take the rest (Rest), before any
// buckets that were touched later.
//
// At most one flush is in flight.
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

// Rest reports whether the last flush left writes behind, so that the next one is due at once.
func (c *Catalog) Rest() bool { return c.rest > 0 }

// FlushOf is the largest number of writes in the next flush when so many buckets wait. A fourth of them is always allowed,
// because each flush walks all buckets that it leaves behind.
func (o *Options) FlushOf(buckets int) int {
	if o.FlushWrites == 0 {
		return buckets
	}
	return min(buckets, max(o.FlushWrites, (buckets+3)/4))
}

// cutMost cuts the writes of a flush. It leaves first the rest, then the series touched since, then the series that back off.
func (c *Catalog) cutMost(f *flight, now int64) {
	most := math.MaxInt
	if c.options.FlushWrites > 0 {
		most = max(c.options.FlushWrites, cap(f.Writes))
	}
	list := c.dirty
	due, since := list[:c.rest], list[c.rest:]
	c.dirty = nil // cut may touch other buckets
	var left []*bucket
	for f.taken() < most {
		if len(due) == 0 {
			if due, c.dirty = c.dirty, nil; len(due) == 0 && f.taken() == 0 {
				due, since = since, nil // nothing of the rest was left
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

// taken is the number of buckets whose measurements the flush has taken.
func (f *flight) taken() int { return len(f.Writes) + len(f.staged) }

// isLeftOut reports whether a bucket has something to write while its series backs off.
func (c *Catalog) isLeftOut(b *bucket, now int64) bool {
	return (b.pending.n > 0 || b.mustClose()) && b.series.more != nil && now < b.series.more.notBefore
}

// Release takes back the memory of a finished flush for later ones. Afterwards no caller may read the flush's Writes, or
// anything that they point to. A caller that cannot ensure this leaves the flush to the garbage collector.
func (c *Catalog) Release(f *Flush) {
	if c.flight != nil && c.flight.Flush == f {
		panic("bucketer: E4: Release before the outcomes of the flush were told")
	}
	c.spare.add(&f.memory)
	*f = Flush{}
}

// cut adds the write of a bucket to the flush, if there is something to write. The argument left is how many writes may still
// follow.
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
		c.refused(w, &one, &Outcome{TooLarge: true}, nil) // as MongoDB would refuse it
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

// countPending finds the oldest measurement that is still pending after a flush was cut. Such measurements belong to the rest,
// or to series that back off.
func (c *Catalog) countPending() {
	c.pending.oldest = math.MaxInt64
	for _, b := range c.dirty {
		c.pending.oldest = min(c.pending.oldest, b.pending.oldest())
	}
}
