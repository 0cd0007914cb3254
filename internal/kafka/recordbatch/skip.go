package recordbatch

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"waterwheel/internal/record"
)

// unreadable is an error about a record batch, or the rest of one, that cannot be read.
type unreadable struct {
	offset int64  // the first offset of the batch, or the next wanted one if that is later
	next   int64  // the first offset after the batch
	raw    []byte // the record batch as it came
	err    error
}

// Error says why the batch cannot be read.
func (u *unreadable) Error() string { return u.err.Error() }

// Unwrap returns the cause.
func (u *unreadable) Unwrap() error { return u.err }

// unreadable adds to an error which part of the log it is about. raw is the record batch, or the rest of the set if its end is
// unknown.
func (d *decoder) unreadable(raw []byte, err error) error {
	u := &unreadable{offset: d.next, next: d.next + 1, raw: raw, err: err}
	if len(raw) >= batchRecords {
		h := parseBatchHeader(raw)
		if last := h.base + int64(h.lastDelta); h.base >= 0 && h.base < math.MaxInt64-math.MaxInt32 && last >= d.next {
			u.offset, u.next = max(h.base, d.next), last+1
		}
	}
	return u
}

// skip replaces a record batch that cannot be read by one record that says so, if SkipCorrupt allows it. Otherwise the error says
// how to allow it.
func (r *Reader) skip(from int64, u *unreadable) (record.Batch, error) {
	if r.set.End < u.next { // the end that the batch announces is wrong as well
		u.offset, u.next = from, from+1
	}
	place := record.Place{Partition: r.set.Partition, Offset: u.offset}
	if !slices.Contains(r.memory.options.SkipCorrupt, place) {
		return record.Batch{}, fmt.Errorf("%w; to skip this batch (offsets %d to %d) and write its bytes to one dead letter, set KAFKA_SKIP_CORRUPT=%s",
			u.err, u.offset, u.next-1, place)
	}
	value := bytes.Clone(u.raw) // the set is given back
	why := fmt.Sprintf("offsets %d to %d: %v", u.offset, u.next-1, u.err)
	return record.Batch{Records: []record.Record{{Offset: u.offset, Value: value, Unreadable: why}}, Next: u.next, Bytes: int64(cap(value))}, nil
}
