package pipeline

import (
	"errors"
	"fmt"
	"slices"

	"waterwheel/bucketer"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

// advanceRefused reads the record of a refused measurement again, for its letter. The read takes the place of a fetch. It also
// happens during a hand-over, which waits for the letter.
func (w *Worker) advanceRefused(m Moment, actions []Action) []Action {
	if len(w.rejected) == 0 || w.halt != nil || w.term.restart != nil || w.busy.fetch || w.letterBufferFull() || !w.retry.fetch.ready(m.Now) {
		return actions
	}
	if w.o.StopOnBad {
		first := slices.MinFunc(w.rejected, func(a, b bucketer.Rejected) int { return a.Position.Compare(b.Position) })
		w.stopAt(first.Position.Offset, refusal(&first))
		return actions
	}
	w.busy.fetch = true
	return append(actions, ReadRecord{Offset: w.rejected[0].Position.Offset})
}

// refusal says why MongoDB refused a measurement.
func refusal(r *bucketer.Rejected) error {
	return fmt.Errorf("MongoDB refused the measurement with code %d: %s", r.Code, r.Message)
}

// recordRead makes the letters of refused measurements from their record, which was read again.
func (w *Worker) recordRead(m Moment, e RecordRead) {
	w.busy.fetch = false
	if e.Batch.Release != nil {
		defer e.Batch.Release()
	}
	if e.Err != nil && !errors.Is(e.Err, record.ErrOutOfRange) {
		w.fetchFailed(m, e.Err) // this read takes the place of a fetch, and leads to the same questions
		return
	}
	offset := w.rejected[0].Position.Offset
	if e.Err == nil && len(e.Batch.Records) == 0 && e.Batch.Next <= offset {
		w.retry.fetch.fail(m.Now, w.o.Random) // no record came, which does not prove that it is gone
		return
	}
	var found *record.Record
	if i := slices.IndexFunc(e.Batch.Records, func(r record.Record) bool { return r.Offset == offset }); i >= 0 {
		found = &e.Batch.Records[i]
	}
	for work := 0; len(w.rejected) > 0 && w.rejected[0].Position.Offset == offset && work < w.o.Portion && !w.letterBufferFull(); {
		work += w.addRefused(found, &w.rejected[0])
		w.rejected = w.rejected[1:]
	}
}

// addRefused makes the letter of a refused measurement. Its record is nil if the log no longer has it. addRefused returns the
// work done, in bytes.
func (w *Worker) addRefused(r *record.Record, rejected *bucketer.Rejected) (work int) {
	letter := record.Letter{
		Place: w.place(rejected.Position.Offset), TopicID: w.source.TopicID, Part: record.WholeRecord,
		Reason: string(measurement.RefusedByDatabase), RefusedByDatabase: true,
		Message: refusal(rejected).Error(),
	}
	if r == nil {
		letter.Cut = "the whole record, because retention deleted it before this letter was written"
	} else {
		letter.Timestamp, letter.Key, letter.Value, letter.Headers = r.Timestamp, r.Key, r.Value, r.Headers
		if element, ok := w.o.Decoder.Element(*r, rejected.Position.Part); ok {
			letter.Part, letter.Value = rejected.Position.Part, element
		}
		work = len(r.Value)
	}
	w.addLetter(letter)
	return work + recordWork
}
