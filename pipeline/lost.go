package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
func (w *Worker) advanceQuestions(m Moment) {
	if w.question == askNothing || !w.mayRead() || w.busy.fetch || !w.retry.fetch.ready(m.Now) {
		return
	}
	if w.question == askBounds {
		w.start(&w.busy.fetch, AskBounds{})
	} else {
		w.start(&w.busy.fetch, AskTopic{})
	}
}

// handle goes on after the fetch position turned out to be outside the log.
func (e BoundsAsked) handle(w *Worker, m Moment) {
	w.busy.fetch = false
	if e.Err != nil {
		w.failed(m, &w.retry.fetch, Kafka, askingBounds, e.Err)
		return
	}
	w.question = askNothing
	w.logStatus.sawEnd(m.Now, e.Bounds.End, e.Bounds.High)
	next := w.offsetTracker.next
	switch {
	case next < e.Bounds.First:
		w.lost(m, next, e.Bounds.First)
		w.offsetTracker.next = e.Bounds.First
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

// handle goes on after the topic id became unknown, which alone proves nothing.
func (e TopicAsked) handle(w *Worker, m Moment) {
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

// lossShown is how long a loss is shown after it was noticed.
const lossShown = time.Hour

// mostLost bounds the ranges that one term notes. Beyond that the last range grows, even over offsets that are stored.
const mostLost = 100

// Loss is a range in which the log did not have the offset at which a partition was to go on.
type Loss struct {
	record.Partition
	// At is when it was noticed.
	At Instant
	// From is the offset that was to be read next, To the offset at which the reading went on.
	From, To int64
	// Policy is the KAFKA_OUT_OF_RANGE that chose To. It is empty if retention deleted the records from From to To.
	Policy string
}

// Losses remembers where logs lacked an offset, including those of partitions that went elsewhere. It is safe for concurrent
// use. A nil *Losses remembers nothing.
type Losses struct {
	mu   sync.Mutex
	list []Loss
}

// add remembers a loss. Recent losses of the same partition become one.
func (l *Losses) add(loss Loss) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	same := func(other Loss) bool {
		return other.Partition == loss.Partition && other.Policy == loss.Policy && loss.At-other.At < lossShown
	}
	if i := slices.IndexFunc(l.list, same); i >= 0 && loss.Policy == "" {
		loss.From, loss.To = min(loss.From, l.list[i].From), max(loss.To, l.list[i].To)
	}
	l.list = append(slices.DeleteFunc(l.list, same), loss)
}

// Recent returns the losses of the last hour, in the order of their partitions.
func (l *Losses) Recent(now Instant) []Loss {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(loss Loss) bool { return now-loss.At >= lossShown })
	return slices.SortedStableFunc(slices.Values(l.list), func(a, b Loss) int { return a.Partition.Compare(b.Partition) })
}

// lost reports that retention has deleted the records from the next offset up to another one. The loss is noted in the
// partition document. No offset behind it is committed before that, because an owner that goes on from the commit would not
// know of the loss.
func (w *Worker) lost(m Moment, from, to int64) {
	w.log.Warn("retention deleted records before this consumer read them: records that no earlier owner of the partition had stored are lost",
		"from", from, "log_start", to, "records", to-from)
	w.metrics.expired(to - from)
	w.o.Losses.add(Loss{Partition: w.o.Partition, At: m.Now, From: from, To: to})
	if w.losing == nil {
		w.losing = &claim.Lost{From: from}
	}
	w.losing.To = to
}

// elsewhere reports that KAFKA_OUT_OF_RANGE continues at another offset than the next one to be read.
func (w *Worker) elsewhere(m Moment, wanted, end, chosen int64) {
	w.log.Warn("the next offset is beyond the end of the log: reading continues at another offset because of KAFKA_OUT_OF_RANGE="+string(w.o.OutOfRange),
		"offset", wanted, "log_end", end, "from", chosen)
	w.o.Losses.add(Loss{Partition: w.o.Partition, At: m.Now, From: wanted, To: chosen, Policy: string(w.o.OutOfRange)})
}

// advanceLoss starts to note what was lost.
func (w *Worker) advanceLoss(m Moment) {
	if w.losing == nil || w.busy.claim || w.writing() || !w.retry.claim.ready(m.Now) || !m.Held || w.term.restart != nil || w.term.handing != notHanding {
		return
	}
	w.start(&w.busy.claim, NoteLost{Lost: w.noteOf(*w.losing)})
}

// noteOf returns the range to note for a loss.
func (w *Worker) noteOf(lost claim.Lost) claim.Lost {
	if noted := w.term.lost; len(noted) >= mostLost {
		lost.From = min(lost.From, noted[len(noted)-1].From)
	}
	return lost
}

// handle lets commits pass a loss that was noted.
func (e LostNoted) handle(w *Worker, m Moment) {
	w.busy.claim = false
	switch {
	case errors.Is(e.Err, claim.ErrOtherOwner):
		w.claimAgain()
		return
	case e.Err != nil:
		w.failed(m, &w.retry.claim, MongoDB, notingLosses, e.Err)
		return
	}
	w.succeeded(&w.retry.claim, MongoDB)
	if w.losing == nil {
		return
	}
	if len(w.term.lost) < mostLost {
		w.term.lost = append(w.term.lost, e.Lost)
	}
	if e.Lost.To >= w.losing.To {
		w.losing = nil
	}
}
