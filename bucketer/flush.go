package bucketer

import (
	"math"
	"slices"
	"unsafe"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// Kind tells a bucket's first write from its later ones.
type Kind uint8

// The kinds of writes.
const (
	Insert Kind = iota // the whole document
	Update             // a delta, or a close-only write (Added == 0)
)

// Write is one write of one bucket. It is immutable after Prepare has returned it, until its flush is released. Sending it
// again sends the same bytes.
type Write struct {
	Kind Kind
	// ID is the bucket's _id.
	ID bson.ObjectID
	// Meta and MinTime (control.min.<time>, in milliseconds) identify the bucket's series and shard. A Meta.Type of 0 means no
	// meta. The Meta of a segment is timeseries.SegmentMetaOf.
	Meta    bson.RawValue
	MinTime int64
	// Filter is the condition of an update (E5): _id, meta, control.min.<time>, control.count, control.closed. It is nil for an
	// insert.
	Filter bson.Raw
	// Document is the document of an insert, or the operators of an update.
	Document bson.Raw
	// Added is the number of measurements that this write adds. Count is the bucket's control.count after it.
	Added, Count int32
	// Offsets is the element that this write adds to control.source.offsets (timeseries.AppendPositions). It is nil for a
	// close-only write.
	Offsets []byte
	// First is the smallest offset among the positions that the write adds.
	First int64
	// Closes means that the write sets control.closed.
	Closes bool
	// Segment means that the write inserts a segment. It has series from Low to High in the order of Options.SegmentOrder.
	Segment   bool
	Low, High string
}

// Flush is the set of writes cut by one Prepare, at most one for each bucket. They do not depend on each other.
type Flush struct {
	Writes []*Write
	// Bytes is the size of all filters and documents, Measurements the sum of Added.
	Bytes, Measurements int

	memory arena
}

// Result is the known state of a write.
type Result uint8

// The results. Each step of a write says which of them it may give.
const (
	// Applied means that the write is in the bucket and durable.
	Applied Result = iota
	// AppliedForget means the same, but the bucket's meta or closed differs from ours, so the catalog forgets the bucket.
	AppliedForget
	// NotApplied means that the bucket is as it was before the write. The write may still be executed until its write grace period
	// has passed.
	NotApplied
	// NotExecuted means that the write was not executed and never will be.
	NotExecuted
	// Conflicted means that the bucket has neither its state before the write nor its state after it. Once its write grace period
	// has passed, the write will never be executed.
	Conflicted
	// Refused means that MongoDB refuses the write for its content. The write was not executed and never will be.
	Refused
	// Unknown means that anything may have happened, or may still happen.
	Unknown
)

// String is the result's name.
func (r Result) String() string {
	return [...]string{"applied", "applied_forget", "not_applied", "not_executed", "conflicted", "refused", "unknown"}[r]
}

// Sent is the result of one attempt to send a write: Applied, NotExecuted, Refused or Unknown.
type Sent struct {
	Result Result
	// Code and Message are MongoDB's, if its answer makes the write Refused or Unknown. TooLarge means that the write is Refused
	// because its bucket would become too large a document.
	Code     int32
	Message  string
	TooLarge bool
	// Err is why the write is NotExecuted or Unknown. A Refused write has it if the whole command was refused.
	Err error
}

// Outcome is the final result of one write of a flush, by its index in Flush.Writes: Applied, AppliedForget, Conflicted or
// Refused. Finish takes no other result, so an unknown write is resolved first (E4).
type Outcome struct {
	Result Result
	// Stored lists the positions of a conflicted write that the database holds. The others are put back, and their series does not
	// reopen this bucket.
	Stored []timeseries.Position
	// Code, Message and TooLarge are those of the attempt, for a refused write.
	Code     int32
	Message  string
	TooLarge bool
}

// Rejected is a single measurement that MongoDB refuses. It becomes a letter.
type Rejected struct {
	Position timeseries.Position
	Code     int32
	Message  string
}

const (
	extremesBytes = int(unsafe.Sizeof(extremes{}))
	sentBytes     = int64(unsafe.Sizeof(sent{}))
)

// flight is a flush whose outcomes are not known yet.
type flight struct {
	*Flush
	sent   []sent   // by the flush's writes
	sparse []sparse // measurements on their way into segments, while the flush is cut
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
func (f *flight) taken() int { return len(f.Writes) + len(f.sparse) }

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
		c.moveToSegments(f, b)
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
