package pipeline

import (
	"unsafe"

	"waterwheel/bucketer"
)

// Estimates of memory. An encoded write takes encodedBytes for itself. The names of its fields take encodedNames times an
// average measurement, because an update names each field up to three times by its path. While a write is sent, it is in memory
// sentCopies times: as encoded, and in the driver's messages. A measurement that waits for a look-up will take parkedBytes when
// it opens its bucket, and for its write.
const (
	encodedBytes = 512
	encodedNames = 4
	sentCopies   = 2
	parkedBytes  = 2048
)

// Bytes is the memory that the partition accounts for: its catalog, the memory that it has yet to take, D, letters, and the
// lists about them. It leaves out what a fetch has brought, because the runner tells the budget about that.
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

// yetToTake estimates how much more memory is taken without another fetch. The buckets of parked measurements and the encoded
// writes of the next flush need it. It counts from the beginning. Otherwise a flush, which is to free memory, would first
// exceed the budget.
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

// ledgerBytes is the memory of the lists that keep track of letters, refused measurements, look-ups and writes in flight.
func (w *Worker) ledgerBytes() int64 {
	bytes := int64(cap(w.ledger.letters))*8 +
		int64(cap(w.rejected))*int64(unsafe.Sizeof(bucketer.Rejected{})) +
		int64(cap(w.lookups))*int64(unsafe.Sizeof(bucketer.Lookup{}))
	if w.flush != nil {
		bytes += w.flush.bytes() + (sentCopies-1)*int64(w.flush.cut.Bytes)
	}
	return bytes
}

// shrink gives memory back while the process is near or over its budget. It archives idle buckets, then drops archived ones.
// What still exceeds the target is flushed early (trigger), and nothing is fetched meanwhile (crowded).
func (w *Worker) shrink(m Moment) {
	if m.Target > 0 && w.Bytes() > m.Target {
		w.catalog.Expire(m.Target - (w.Bytes() - w.catalog.Bytes()))
	}
}

// over reports whether the partition must flush early, because its memory is above its target or that of the process above the
// limit. A small partition then flushes for its own sake, because it may not fetch before.
func (w *Worker) over(m Moment) bool { return m.Full || m.Target > 0 && w.Bytes() > m.Target }

// crowded reports whether memory forbids a fetch. A partition with nothing left to write may fetch all the same. A flush would
// not free its memory, so it would wait for ever.
func (w *Worker) crowded(m Moment) bool {
	if !w.over(m) {
		return false
	}
	_, waits := w.catalog.Oldest()
	return waits || w.flush != nil || !w.letters.empty() || len(w.rejected) > 0
}
