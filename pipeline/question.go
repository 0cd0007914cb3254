package pipeline

import (
	"errors"
	"fmt"
	"slices"

	"waterwheel/bucketer"
	"waterwheel/claim"
	"waterwheel/measurement"
	"waterwheel/record"
)

// question is what must be found out before fetching can go on.
type question uint8

const (
	askNothing question = iota
	askBounds           // the position is outside the log
	askTopic            // the topic id is unknown
)

// advanceQuestions asks what a failed fetch or a refused measurement needs to know. It takes the place of a fetch.
func (w *Worker) advanceQuestions(m Moment, actions []Action) []Action {
	if w.busy.fetch || w.halt != nil || w.tenure.restart != nil || !w.retry.fetch.ready(m.Now) {
		return actions
	}
	var ask Action
	switch {
	case w.question == askBounds && !w.revoked:
		ask = AskBounds{}
	case w.question == askTopic && !w.revoked:
		ask = AskTopic{}
	case len(w.rejected) == 0 || w.phase != running || w.letterboxFull(): // a claim may still drop what they belong to
		return actions
	case w.o.StopOnBad:
		first := slices.MinFunc(w.rejected, func(a, b bucketer.Rejected) int { return a.Position.Compare(b.Position) })
		w.stopAt(first.Position.Offset, refusal(&first))
		return actions
	default:
		ask = ReadRecord{Offset: w.rejected[0].Position.Offset}
	}
	w.busy.fetch = true
	return append(actions, ask)
}

// refusal is why MongoDB will not have a measurement.
func refusal(r *bucketer.Rejected) error {
	return fmt.Errorf("MongoDB refused the measurement with code %d: %s", r.Code, r.Message)
}

// boundsAsked goes on after the fetch position was found outside the log.
func (w *Worker) boundsAsked(m Moment, e BoundsAsked) {
	w.busy.fetch = false
	if e.Err != nil {
		w.retry.fetch.fail(m.Now, w.o.Random)
		w.outage(m, Kafka, askingBounds, e.Err)
		return
	}
	w.question = askNothing
	w.signs.sawEnd(m.Now, e.Bounds.End)
	next := w.ledger.next
	switch {
	case next < e.Bounds.First:
		w.o.Metrics.expired(e.Bounds.First - next)
		w.log.Warn("records were deleted by retention before they were read", "records", e.Bounds.First-next)
		w.ledger.next = e.Bounds.First
	case !e.Bounds.ExceededBy(next): // it was a replica that lagged
	case w.o.OutOfRange == claim.EarliestOutOfRange:
		w.restart(w.from(e.Bounds.First))
	case w.o.OutOfRange == claim.LatestOutOfRange:
		// What was read and is not stored comes again: a restart drops it.
		w.restart(w.from(min(w.committable(), e.Bounds.End)))
	default:
		w.stop(&record.StopError{Reason: "offset_out_of_range", Detail: fmt.Sprintf(
			"the position %d is beyond the log's end %d: the log was truncated (unclean leader election?); reset the group's "+
				"offset, or set KAFKA_OUT_OF_RANGE", next, e.Bounds.End)})
	}
}

// from is an assignment of this partition as if offset had been committed by us.
func (w *Worker) from(offset int64) Assigned {
	return Assigned{TopicID: w.source.TopicID, Committed: offset, Metadata: w.provenance().String()}
}

// restart begins the tenure anew from another offset or topic id, as soon as the present flush is resolved: whenever the
// position moves to a smaller offset, everything in memory is about other records.
func (w *Worker) restart(a Assigned) {
	a.Consecutive = true // nothing is known of another owner
	w.tenure.restart = &a
}

// topicAsked goes on after a topic id became unknown: that alone proves nothing.
func (w *Worker) topicAsked(m Moment, e TopicAsked) {
	w.busy.fetch = false
	w.retry.fetch.fail(m.Now, w.o.Random)
	switch {
	case e.Err != nil:
		w.outage(m, Kafka, askingTopic, e.Err)
	case e.TopicID == [16]byte{}:
		w.outage(m, Kafka, fetchingRecords, errors.New("the topic does not exist (any more); waiting for it"))
	case e.TopicID == w.source.TopicID:
		w.question = askNothing
	case w.phase == finding:
		a := w.assigned
		a.TopicID = e.TopicID
		w.restart(a)
	default:
		w.question = askNothing
		w.log.Warn("the topic was deleted and created again: starting at its beginning")
		w.restart(Assigned{TopicID: e.TopicID, Committed: -1})
	}
}

// recordRead makes the letters of refused measurements from their record, read again.
func (w *Worker) recordRead(m Moment, e RecordRead) {
	w.busy.fetch = false
	if e.Batch.Release != nil {
		defer e.Batch.Release()
	}
	if e.Err != nil && !errors.Is(e.Err, record.ErrOutOfRange) {
		w.fetchFailed(m, e.Err) // it takes the place of a fetch, and finds out the same
		return
	}
	offset := w.rejected[0].Position.Offset
	if e.Err == nil && len(e.Batch.Records) == 0 && e.Batch.Next <= offset {
		w.retry.fetch.fail(m.Now, w.o.Random) // nothing came, which does not tell that it is gone
		return
	}
	var found *record.Record
	if i := slices.IndexFunc(e.Batch.Records, func(r record.Record) bool { return r.Offset == offset }); i >= 0 {
		found = &e.Batch.Records[i]
	}
	for work := 0; len(w.rejected) > 0 && w.rejected[0].Position.Offset == offset && work < w.o.Portion && !w.letterboxFull(); {
		work += w.addRefused(found, &w.rejected[0])
		w.rejected = w.rejected[1:]
	}
}

// addRefused makes the letter of a refused measurement; its record is nil when the log does not have it any more. It returns
// the bytes looked at.
func (w *Worker) addRefused(r *record.Record, rejected *bucketer.Rejected) (work int) {
	letter := record.Letter{
		Place: w.place(rejected.Position.Offset), TopicID: w.source.TopicID, Part: record.WholeRecord,
		Reason: string(measurement.RefusedByDatabase), RefusedByDatabase: true,
		Message: refusal(rejected).Error(),
	}
	if r == nil {
		letter.Cut = "the whole record, which retention removed first"
	} else {
		letter.Timestamp, letter.Key, letter.Value, letter.Headers = r.Timestamp, r.Key, r.Value, r.Headers
		if element, ok := w.element(r, rejected.Position.Part); ok {
			letter.Part, letter.Value = rejected.Position.Part, element
		}
		work = len(r.Value)
	}
	w.addLetter(letter)
	return work + recordWork
}

// element is the bytes of one element of an array record; false when the record holds a single event.
func (w *Worker) element(r *record.Record, part int32) ([]byte, bool) {
	return w.o.Decoder.Element(record.Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}, part)
}
