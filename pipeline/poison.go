package pipeline

import (
	"fmt"
	"runtime/debug"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

// A record that makes our own code panic, by a bug, must not block its partition. It becomes a letter like any other record
// that cannot be stored. Broken invariants of the protocol are not caught, so they end the process.

// decode decodes a record. A panic becomes the record's error. The result unfolded is the size of its value without
// compression, in bytes.
func (w *Worker) decode(r *record.Record) (results []measurement.Result, unfolded int, err error) {
	defer measurement.Guard(&err, func(cause any) { w.notePoison(r, cause) })
	results, err = w.o.Decoder.Decode(*r)
	return results, w.o.Decoder.ValueBytes(), err
}

// tryInsert inserts a measurement. After a panic the catalog cannot be trusted. It is dropped, what it held is read again, and
// this measurement is not inserted a second time.
func (w *Worker) tryInsert(r *record.Record, m *measurement.Measurement) (err error) {
	if _, bad := w.poison[m.Position]; bad {
		return internalError("the program has already failed while it stored this record: please report the stack trace in the log")
	}
	defer measurement.Guard(&err, func(cause any) {
		w.notePoison(r, cause)
		w.poison[m.Position] = struct{}{}
		w.restart(w.again())
	})
	return w.catalog.Insert(m)
}

// notePoison counts and logs a record that made the program fail.
func (w *Worker) notePoison(r *record.Record, cause any) {
	w.poisoned++
	w.log.Error("a bug in this program: processing a record failed; please report this log line", "offset", r.Offset, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
}

func internalError(detail string) *measurement.DecodeError {
	return &measurement.DecodeError{Reason: measurement.InternalError, Detail: detail, Part: record.WholeRecord}
}
