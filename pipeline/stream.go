package pipeline

import (
	"errors"

	"waterwheel/measurement"
)

// maxLookups is how many series one look-up asks for.
const maxLookups = 1000

// advanceStream starts the next fetch, look-up, letters and flush.
func (w *Worker) advanceStream(m Moment, actions []Action) []Action {
	w.shrink(m)
	acting := w.flush != nil && w.flush.acting != nil // the calls of one partition do not overlap, but for look-ups
	if !w.busy.claim && !acting && !w.revoked && w.ledger.next >= w.window && w.halt == nil && w.retry.claim.ready(m.Now) {
		actions = w.loadStored(actions)
	}
	actions = w.advanceQuestions(m, actions)
	if w.mayFetch(m) {
		w.busy.fetch = true
		actions = append(actions, Fetch{Offset: w.ledger.next})
	}
	if !w.busy.find && !w.revoked && w.retry.find.ready(m.Now) {
		if w.asked == nil {
			w.asked = w.catalog.Lookups(maxLookups)
		}
		if len(w.asked) > 0 {
			w.busy.find = true
			actions = append(actions, FindBuckets{Lookups: w.asked})
		}
	}
	actions = w.advanceLetters(m, actions)
	return w.advanceFlush(m, actions)
}

// mayFetch tells whether the next fetch may start. It may not while too much waits already: the stream just pauses.
func (w *Worker) mayFetch(m Moment) bool {
	pending, bytes := w.catalog.Pending()
	full := w.flush != nil && (bytes >= w.o.FlushBytes || pending >= w.o.FlushCount)
	w.paused = full || w.letters.full() || w.crowded(m)
	return !w.paused && !w.busy.fetch && !w.revoked && w.halt == nil && w.tenure.restart == nil &&
		w.ledger.next < w.window && w.retry.fetch.ready(m.Now)
}

// fetched takes a batch in: each measurement is skipped as stored, inserted, or becomes a letter.
func (w *Worker) fetched(m Moment, e Fetched) {
	w.busy.fetch = false
	if e.Batch.Release != nil {
		defer e.Batch.Release()
	}
	if w.revoked || w.tenure.restart != nil || w.halt != nil || w.phase != running {
		return // it is read again
	}
	if e.Err != nil {
		w.fetchFailed(m, e.Err)
		return
	}
	w.retry.fetch.succeed()
	w.answered(Kafka)
	w.end = e.Batch.End
	w.o.Metrics.read(w.o.Topic, w.o.Partition, len(e.Batch.Records))
	for i := range e.Batch.Records {
		r := &e.Batch.Records[i]
		if r.Offset < w.ledger.next {
			continue // a batch may begin before the offset asked for
		}
		if r.Offset >= w.window {
			w.ledger.next = r.Offset // the next window of D comes first
			return
		}
		w.take(r)
		if w.halt != nil || w.tenure.restart != nil {
			return
		}
		w.ledger.next = r.Offset + 1
	}
	w.ledger.next = max(w.ledger.next, e.Batch.Next)
	if w.stored != nil {
		if last, ok := w.stored.Max(); !ok || w.ledger.next > last {
			w.stored = nil
		}
	}
}

// take decodes one record and inserts its measurements.
func (w *Worker) take(r *Record) {
	w.newest = max(w.newest, r.Timestamp)
	if r.Value == nil {
		w.o.Metrics.skipped("tombstone")
		return
	}
	results, err := w.decode(r)
	if err != nil {
		w.bad(r, asDecodeError(err))
		return
	}
	for i := range results {
		if results[i].Err != nil {
			w.bad(r, results[i].Err)
			continue
		}
		if w.insert(r, &results[i].Measurement); w.tenure.restart != nil {
			return
		}
	}
}

func (w *Worker) insert(r *Record, measured *measurement.Measurement) {
	if w.stored != nil && w.stored.Contains(measured.Position) {
		w.o.Metrics.skipped("replayed")
		return
	}
	err := w.tryInsert(r, measured)
	if err == nil || w.tenure.restart != nil {
		return
	}
	bad := measurement.DecodeError{Reason: measurement.TooLarge, Detail: err.Error()}
	if reason := (*measurement.DecodeError)(nil); errors.As(err, &reason) {
		bad = *reason
	}
	bad.Part = measurement.WholeRecord
	if element, ok := w.element(r, measured.Position.Part); ok {
		bad.Part, bad.Value = measured.Position.Part, element
	}
	w.bad(r, &bad)
}

// bad makes a letter of a record, or of one of its elements.
func (w *Worker) bad(r *Record, e *measurement.DecodeError) {
	if w.o.StopOnBad {
		w.stopAt(r.Offset, e)
		return
	}
	value := r.Value
	if e.Part != measurement.WholeRecord {
		value = e.Value
	}
	w.addLetter(Letter{
		Source: w.source, Offset: r.Offset, Part: e.Part, Timestamp: r.Timestamp, Key: r.Key, Value: value,
		Headers: r.Headers, Reason: string(e.Reason), Message: e.Error(),
	})
}

func (w *Worker) fetchFailed(m Moment, err error) {
	w.retry.fetch.fail(m.Now, w.o.Random)
	if stop, ok := isStop(err); ok {
		w.stop(stop)
		return
	}
	switch {
	case errors.Is(err, ErrOutOfRange):
		w.question = askBounds
	case errors.Is(err, ErrTopicGone):
		w.question = askTopic
	default:
		w.outage(m, Kafka, fetchingRecords, err)
	}
}

// bucketsFound gives the catalog the answers it asked for.
func (w *Worker) bucketsFound(m Moment, e BucketsFound) {
	w.busy.find = false
	if e.Err != nil {
		w.retry.find.fail(m.Now, w.o.Random)
		w.outage(m, MongoDB, lookingUp, e.Err)
		return
	}
	w.retry.find.succeed()
	w.answered(MongoDB)
	w.asked = nil
	if w.catalog != nil {
		w.catalog.Load(e.Answers)
	}
}

func asDecodeError(err error) *measurement.DecodeError {
	var e *measurement.DecodeError
	if errors.As(err, &e) {
		return e
	}
	return &measurement.DecodeError{Reason: measurement.InternalError, Detail: err.Error(), Part: measurement.WholeRecord}
}

func isStop(err error) (*StopError, bool) {
	var stop *StopError
	ok := errors.As(err, &stop)
	return stop, ok
}

func asStop(err error, reason string) *StopError {
	if stop, ok := isStop(err); ok {
		return stop
	}
	return &StopError{reason, err.Error()}
}
