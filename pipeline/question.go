package pipeline

import (
	"errors"
	"fmt"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

// question is what a worker must find out before it can go on fetching.
type question uint8

const (
	askNothing question = iota
	askBounds           // the position is outside the log
	askTopic            // the topic id is unknown
)

// advanceQuestions asks what a failed fetch needs to know. The question takes the place of a fetch.
func (w *Worker) advanceQuestions(m Moment, actions []Action) []Action {
	if w.question == askNothing || !w.mayRead() || w.busy.fetch || !w.retry.fetch.ready(m.Now) {
		return actions
	}
	w.busy.fetch = true
	if w.question == askBounds {
		return append(actions, AskBounds{})
	}
	return append(actions, AskTopic{})
}

// boundsAsked goes on after the fetch position turned out to be outside the log.
func (w *Worker) boundsAsked(m Moment, e BoundsAsked) {
	w.busy.fetch = false
	if e.Err != nil {
		w.failed(m, &w.retry.fetch, Kafka, askingBounds, e.Err)
		return
	}
	w.question = askNothing
	w.signs.sawEnd(m.Now, e.Bounds.End, e.Bounds.High)
	next := w.ledger.next
	switch {
	case next < e.Bounds.First:
		w.lost(m, next, e.Bounds.First)
		w.ledger.next = e.Bounds.First
	case !e.Bounds.ExceededBy(next): // a replica lagged
	case w.o.OutOfRange == claim.EarliestOutOfRange:
		w.elsewhere(m, next, e.Bounds.End, e.Bounds.First)
		w.restart(w.from(e.Bounds.First))
	case w.o.OutOfRange == claim.LatestOutOfRange:
		// Records that were read and not stored are read again, because a restart drops them.
		from := min(w.committable(), e.Bounds.End)
		w.elsewhere(m, next, e.Bounds.End, from)
		w.restart(w.from(from))
	default:
		w.stop(&record.StopError{Reason: "offset_out_of_range", Detail: fmt.Sprintf(
			"the position %d is beyond the log's end %d: the log was truncated (unclean leader election?); reset the group's "+
				"offset, or set KAFKA_OUT_OF_RANGE", next, e.Bounds.End)})
	}
}

// topicAsked goes on after the topic id became unknown, which alone proves nothing.
func (w *Worker) topicAsked(m Moment, e TopicAsked) {
	w.busy.fetch = false
	w.retry.fetch.fail(m.Now, w.o.Random)
	switch {
	case e.Err != nil:
		w.outage(m, Kafka, askingTopic, e.Err)
	case e.TopicID == [16]byte{}:
		w.outage(m, Kafka, fetchingRecords, errors.New("the topic does not exist, or was deleted: the partition waits until the topic exists"))
	case e.TopicID == w.source.TopicID:
		w.question = askNothing
	case w.phase == finding:
		a := w.assigned
		a.TopicID = e.TopicID
		w.restart(a)
	default:
		w.question = askNothing
		w.log.Warn("the topic was deleted and created again: reading starts at the beginning of the new topic")
		w.restart(w.createdAgain(e.TopicID))
	}
}
