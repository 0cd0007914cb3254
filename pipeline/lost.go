package pipeline

import (
	"errors"
	"slices"
	"sync"
	"time"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

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
func (w *Worker) advanceLoss(m Moment, actions []Action) []Action {
	if w.losing == nil || w.busy.claim || w.writing() || !w.retry.claim.ready(m.Now) || !m.Held || w.term.restart != nil || w.term.handing != notHanding {
		return actions
	}
	w.busy.claim = true
	return append(actions, NoteLost{Lost: w.noteOf(*w.losing)})
}

// noteOf returns the range to note for a loss.
func (w *Worker) noteOf(lost claim.Lost) claim.Lost {
	if noted := w.term.lost; len(noted) >= mostLost {
		lost.From = min(lost.From, noted[len(noted)-1].From)
	}
	return lost
}

// lostNoted lets commits pass a loss that was noted.
func (w *Worker) lostNoted(m Moment, e LostNoted) {
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
