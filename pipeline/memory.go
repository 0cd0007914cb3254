package pipeline

import (
	"unsafe"

	"waterwheel/bucketer"
)

// What a write takes when it is encoded, beside the measurements themselves: so much for itself, and for the names of its
// fields so many times an average measurement, because an update names each of them up to three times by its path. All of it
// is there twice while it is sent: as it was encoded, and in the driver's messages.
// parkedBytes is what a measurement that waits for a look-up will take when it opens its bucket, and then for its write.
const (
	encodedBytes = 512
	encodedNames = 4
	sentCopies   = 2
	parkedBytes  = 2048
)

// Bytes is the memory that the partition answers for: its catalog and what that has yet to take, D, letters, and what
// keeps track of them. What a fetch has brought is not among it: the runner tells the budget.
func (w *Worker) Bytes() int64 {
	bytes := w.letters.size() + w.ledgerBytes()
	if w.catalog != nil {
		bytes += w.catalog.Bytes() + w.yetToTake()
	}
	if c := w.term.segments.compaction; c != nil {
		bytes += sentCopies * c.bytes
		if c.read != nil {
			bytes += c.size
		}
	}
	if w.stored != nil {
		bytes += w.stored.Bytes()
	}
	return bytes
}

// yetToTake is about how much more memory will be taken without another fetch: by the buckets of what is parked, and by
// the encoded writes of the next flush. It counts from the beginning, so that a flush, which is to free memory, does not
// first exceed the budget.
func (w *Worker) yetToTake() int64 {
	stats := w.catalog.Stats()
	total := max(stats.ParkedSeries, int64(len(w.lookups))) * parkedBytes // each look-up may open a bucket
	if pending, bytes := w.catalog.Pending(); pending > 0 {
		waiting := min(int64(pending), stats.OpenBuckets)
		writes := int64(w.o.Bucketing.FlushOf(int(waiting)))
		share := bytes * writes / max(waiting, 1)
		total += sentCopies * (share + writes*(encodedBytes+encodedNames*bytes/int64(pending)))
	}
	return total
}

// ledgerBytes is the memory of what keeps track: of letters, of refused measurements, of look-ups, of writes in flight.
func (w *Worker) ledgerBytes() int64 {
	bytes := int64(cap(w.ledger.letters))*8 +
		int64(cap(w.rejected))*int64(unsafe.Sizeof(bucketer.Rejected{})) +
		int64(cap(w.lookups))*int64(unsafe.Sizeof(bucketer.Lookup{}))
	if w.flush != nil {
		bytes += w.flush.bytes() + (sentCopies-1)*int64(w.flush.cut.Bytes)
	}
	return bytes
}

// shrink gives memory back while the process is over its budget: idle buckets are archived, then archived ones dropped.
// What still exceeds the target is flushed early (trigger), and nothing is fetched meanwhile (crowded).
func (w *Worker) shrink(m Moment) {
	if m.Target > 0 && w.Bytes() > m.Target {
		w.catalog.Expire(m.Target - (w.Bytes() - w.catalog.Bytes()))
	}
}

// over reports whether the partition must flush early: its memory is above its target, or that of the process above the limit,
// when a partition that holds little does it for its own sake, because it may not fetch before.
func (w *Worker) over(m Moment) bool { return m.Full || m.Target > 0 && w.Bytes() > m.Target }

// crowded reports whether memory forbids a fetch. A partition of which nothing waits may fetch all the same: its memory is not
// what a flush would free, so it would wait for ever.
func (w *Worker) crowded(m Moment) bool {
	if !w.over(m) {
		return false
	}
	_, waits := w.catalog.Oldest()
	return waits || w.flush != nil || !w.letters.empty() || len(w.rejected) > 0
}
