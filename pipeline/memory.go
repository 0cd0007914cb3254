package pipeline

import (
	"unsafe"

	"waterwheel/bucketer"
)

// What a write takes when it is encoded, beside the measurements themselves: so much for itself, and for the names of its
// fields so many times an average measurement, because an update names each of them up to three times by its path.
const (
	encodedBytes = 512
	encodedNames = 4
)

// Bytes is the memory that the partition answers for: its catalog, what writing all that waits will take, D, letters, and
// what keeps track of them. What a fetch has brought is not among it: the runner tells the budget.
func (w *Worker) Bytes() int64 {
	bytes := w.letters.bytes + w.ledgerBytes()
	if w.catalog != nil {
		bytes += w.catalog.Bytes() + w.toEncode()
	}
	if w.stored != nil {
		bytes += w.stored.Bytes()
	}
	return bytes
}

// toEncode is about how much memory the next flush will take for its encoded writes. It counts from the beginning, so
// that a flush, which is to free memory, does not first exceed the budget.
func (w *Worker) toEncode() int64 {
	pending, bytes := w.catalog.Pending()
	if pending == 0 {
		return 0
	}
	writes := min(int64(pending), w.catalog.Stats().OpenBuckets)
	return bytes + writes*(encodedBytes+encodedNames*bytes/int64(pending))
}

// ledgerBytes is the memory of what keeps track: of letters, of refused measurements, of look-ups, of writes in flight.
func (w *Worker) ledgerBytes() int64 {
	bytes := int64(cap(w.ledger.letters))*8 +
		int64(cap(w.rejected))*int64(unsafe.Sizeof(bucketer.Rejected{})) +
		int64(cap(w.asked))*int64(unsafe.Sizeof(bucketer.Lookup{}))
	if w.flush != nil {
		bytes += int64(cap(w.flush.attempts)) * int64(unsafe.Sizeof(attempt{}))
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

// crowded tells that memory forbids a fetch. A partition of which nothing waits may fetch all the same: its memory is not
// what a flush would free, so it would wait for ever.
func (w *Worker) crowded(m Moment) bool {
	over := m.Full || m.Target > 0 && w.Bytes() > m.Target
	if !over {
		return false
	}
	_, waits := w.catalog.Oldest()
	return waits || w.flush != nil || !w.letters.empty() || len(w.rejected) > 0
}
