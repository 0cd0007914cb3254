package pipeline

import (
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/claim"
)

// settling is one on its way: announced, its buckets sent, its segments ended; or recovered.
type settling struct {
	claim.Settling
	announced bool
	writes    []*bucketer.Write // not sent yet, or not executed
	acting    []*bucketer.Write
	rest      []claim.Segment // that have not ended yet, or whose end is not taken back yet
	part      int             // how many of them are on their way
	stale     []bson.ObjectID // its inserts met other documents there
	committed bool            // its commit was sent, or may have been
	course    course
	quiet     Instant // until then no step that undoes it may be taken
	shown     Instant // when its buckets are
	count     int     // of measurements
	bytes     int64   // of its buckets
	begun     Instant
}

// course is where a settling goes.
type course uint8

const (
	forward    course = iota
	recovering        // it is not known how far it came
	takingBack        // it is undone: its segments do not end
	deleting          // and then its buckets are deleted
	finished          // its segments have ended, and it is to be forgotten
	undone            // its buckets are deleted, and it is to be forgotten
)

// settleRetry is how long what could not be settled waits to be tried again.
const settleRetry = 16 // parts of SettleInterval

// sweepRetry is how long nothing is deleted after MongoDB has refused that to the user.
const sweepRetry = 10 * time.Minute

// settleInterval is how long segments wait; nothing, where no new ones are written.
func (w *Worker) settleInterval() time.Duration {
	if w.o.Bucketing.DenseFrom == 0 {
		return 0
	}
	return w.o.SettleInterval
}

// settles tells that what is settled takes memory.
func (w *Worker) settles() bool {
	t := w.tenure.staging.settling
	return t != nil && t.course == forward && len(t.writes) > 0
}

// advanceSettling takes what is to be done about segments a step further.
func (w *Worker) advanceSettling(m Moment, actions []Action) []Action {
	s := &w.tenure.staging
	if !w.o.Segments || !m.Held || w.tenure.revoked || w.tenure.restart != nil || w.writing() || w.busy.claim || !s.retry.ready(m.Now) {
		return actions
	}
	if a := w.nextOfSettling(m); a != nil {
		w.busy.settle, s.since = true, m.Now
		return append(actions, a)
	}
	return actions
}

func (w *Worker) nextOfSettling(m Moment) Action {
	s := &w.tenure.staging
	t := s.settling
	switch {
	case t == nil && !s.read:
		return ReadStaging{}
	case t == nil && len(s.ended) > 0 && m.Now >= max(s.ended[0].due, s.sweepFrom):
		return SweepSegments{IDs: s.ended[0].ids, Before: s.ended[0].until.Add(time.Millisecond)}
	case t == nil && m.Settling:
		return nil
	case t == nil:
		if s.asked = s.toSettle(m.Now, w.settleInterval(), w.o.SettleBytes); s.asked != nil {
			return ReadSegments{IDs: s.asked}
		}
		return nil
	case t.course != forward && m.Now <= t.quiet:
		return nil
	case t.course == recovering:
		return RecoverSettling{Settling: &t.Settling}
	case t.course == takingBack:
		return TakeBackSettling{Settling: &t.Settling, Segments: t.nextPart(w.pace.bound)}
	case t.course == deleting:
		return DeleteSettled{Settling: &t.Settling, Stale: t.stale}
	case t.course != forward:
		return ForgetSettling{Settling: &t.Settling}
	case !t.announced:
		return AnnounceSettling{Settling: &t.Settling}
	case len(t.writes) > 0:
		t.acting = t.next(w.pace.bound)
		return SendSettled{Writes: t.acting}
	case !t.committed && m.Now >= t.shown-w.o.SettleMargin: // a query might see neither its segments nor its buckets
		t.course = recovering
		return RecoverSettling{Settling: &t.Settling}
	case !t.committed:
		t.committed, t.rest = true, t.Segments
	}
	return CommitSettling{Settling: &t.Settling, Segments: t.nextPart(w.pace.bound)}
}

// next takes the writes to be sent now: together no heavier than the bound, and at least one.
func (t *settling) next(bound int64) []*bucketer.Write {
	n := 0
	for weight := int64(0); n < len(t.writes); n++ {
		if weight += weigh(t.writes[n]); n > 0 && weight > bound {
			break
		}
	}
	sent := t.writes[:n:n]
	t.writes = t.writes[n:]
	return sent
}

// nextPart takes the segments to be changed now: as many as writes of a flush, and at least one.
func (t *settling) nextPart(bound int64) []claim.Segment {
	t.part = int(min(max(1, bound/writeWeight), int64(len(t.rest))))
	return t.rest[:t.part]
}

// partDone notes that a part was changed, or that it is not known; true: it was the last.
func (w *Worker) partDone(m Moment, err error) bool {
	t := w.tenure.staging.settling
	given, answered := int64(t.part)*writeWeight, int64(t.part)*writeWeight
	if err != nil {
		answered = 0
	} else {
		t.rest = t.rest[t.part:]
	}
	w.pace.took(m.Now-w.tenure.staging.since, given, answered)
	return len(t.rest) == 0
}

// segmentsRead makes buckets of the segments. Those that are gone, deleted by somebody else, are forgotten.
func (w *Worker) segmentsRead(m Moment, e SegmentsRead) {
	s := w.settlingAnswered()
	if e.Err != nil {
		w.settlingFailed(m, readingSegments, e.Err)
		return
	}
	w.succeeded(&s.retry, MongoDB)
	gone := make(map[bson.ObjectID]bool, len(s.asked))
	for _, id := range s.asked {
		gone[id] = true
	}
	for i := range e.Segments {
		delete(gone, e.Segments[i].ID)
	}
	s.drop(gone)
	if len(e.Segments) == 0 {
		return
	}
	t := &settling{begun: s.since, shown: s.since + w.o.SettleAhead, Settling: claim.Settling{
		By: w.o.NewToken(), TopicID: e.Segments[0].TopicID, From: e.Now.Add(w.o.SettleAhead).UnixMilli(), Segments: e.Segments, First: e.Segments[0].First, Last: e.Segments[0].Last,
	}}
	documents := make([]bson.Raw, len(e.Segments))
	for i := range e.Segments {
		one := &e.Segments[i]
		t.First, t.Last = min(t.First, one.First), max(t.Last, one.Last)
		documents[i], one.Document = one.Document, nil
	}
	o := w.o.Bucketing
	o.Source = w.source
	o.Source.TopicID = t.TopicID
	buckets, err := bucketer.Settle(o, bucketer.Settled{By: t.By, From: t.From, Attempt: s.attempt}, documents)
	if damaged := (*bucketer.SegmentError)(nil); errors.As(err, &damaged) {
		w.log.Error("a segment cannot be settled: something else has edited it; it stays as it is, and is shown", "segment", damaged.ID.Hex(), "err", damaged.Err)
		s.drop(map[bson.ObjectID]bool{damaged.ID: true})
		return
	}
	t.writes, t.count, t.bytes = buckets.Writes, buckets.Measurements, int64(buckets.Bytes)
	s.settling = t
}

// settlingAnswered notes that an action about segments is done; it is the flush's turn then.
func (w *Worker) settlingAnswered() *staging {
	w.busy.settle, w.tenure.staging.turn = false, false
	return &w.tenure.staging
}

func (w *Worker) settlingAnnounced(m Moment, e SettlingAnnounced) {
	s := w.settlingAnswered()
	if e.Err != nil { // it may stand there, or another one does
		s.settling, s.read = nil, false
		if !errors.Is(e.Err, claim.ErrAnnounced) {
			w.settlingUnknown(m, e.Err)
		}
		return
	}
	w.succeeded(&s.retry, MongoDB)
	s.settling.announced = true
}

// settledSent notes what became of buckets. Whatever is not certain makes all of the settling be recovered.
func (w *Worker) settledSent(m Moment, e SettledSent) {
	s := w.settlingAnswered()
	t := s.settling
	var failed error
	for i := range e.Sent {
		switch one := &e.Sent[i]; one.Result {
		case bucketer.Applied:
		case bucketer.NotExecuted:
			t.writes = append(t.writes, t.acting[i])
			if !errors.Is(one.Err, bucketer.ErrNoTurn) {
				failed = one.Err
			}
		case bucketer.Unknown:
			t.course, t.stale = recovering, append(t.stale, t.acting[i].ID)
			t.quiet = m.Now + w.o.Grace
			w.past.unknownUntil = max(w.past.unknownUntil, t.quiet)
			failed = one.Err
		default:
			t.course = recovering
			failed = errors.New(one.Message)
		}
	}
	t.acting = nil
	if failed != nil {
		w.settlingFailed(m, settlingSegments, failed)
		return
	}
	w.succeeded(&s.retry, MongoDB)
}

func (w *Worker) settlingCommitted(m Moment, e SettlingCommitted) {
	s := w.settlingAnswered()
	edited := errors.Is(e.Err, claim.ErrEdited)
	if edited {
		e.Err = nil
	}
	last := w.partDone(m, e.Err)
	if e.Err != nil || edited {
		s.settling.course = recovering
	}
	if e.Err != nil {
		w.settlingUnknown(m, e.Err)
		return
	}
	w.succeeded(&s.retry, MongoDB)
	if last && !edited {
		s.settling.course = finished
	}
}

// settlingRecovered decides whether a settling is finished or undone. There is no way back: what goes on with it from here may be
// executed whenever it was sent.
func (w *Worker) settlingRecovered(m Moment, e SettlingRecovered) {
	s := w.settlingAnswered()
	if e.Err != nil {
		w.settlingUnknown(m, e.Err)
		return
	}
	w.succeeded(&s.retry, MongoDB)
	s.settling.course, s.settling.rest = takingBack, s.settling.Segments
	if e.Finished {
		s.settling.course = finished
	}
}

// settlingTakenBack deletes the buckets next: at once, if no query has seen segments end. One that has must find the buckets.
func (w *Worker) settlingTakenBack(m Moment, e SettlingTakenBack) {
	s := w.settlingAnswered()
	last := w.partDone(m, e.Err)
	if e.Err != nil {
		w.settlingUnknown(m, e.Err)
		return
	}
	w.succeeded(&s.retry, MongoDB)
	if !last {
		return
	}
	t := s.settling
	if t.course = deleting; t.committed && m.Now >= t.shown-w.o.SettleMargin {
		t.quiet = m.Now + w.o.SettleLinger
	}
}

func (w *Worker) settledDeleted(m Moment, e SettledDeleted) {
	s := w.settlingAnswered()
	if e.Err != nil {
		w.settlingUnknown(m, e.Err)
		return
	}
	w.succeeded(&s.retry, MongoDB)
	s.settling.course = undone
}

func (w *Worker) settlingForgotten(m Moment, e SettlingForgotten) {
	s := w.settlingAnswered()
	if e.Err != nil {
		w.settlingUnknown(m, e.Err)
		return
	}
	w.succeeded(&s.retry, MongoDB)
	if s.settling.course == finished {
		w.finishSettling(m)
		return
	}
	w.metrics.settlingUndone()
	if len(s.settling.stale) > 0 {
		s.attempt++
	}
	s.settling, s.read = nil, false
	s.retry.until = m.Now + w.o.SettleInterval/settleRetry
}

// finishSettling goes on after all segments of a settling have ended.
func (w *Worker) finishSettling(m Moment) {
	s := &w.tenure.staging
	t := s.settling
	s.settling = nil
	ids := make([]bson.ObjectID, len(t.Segments))
	gone := make(map[bson.ObjectID]bool, len(ids))
	for i := range ids {
		ids[i] = t.Segments[i].ID
		gone[ids[i]] = true
	}
	s.drop(gone)
	if !t.announced { // by an owner before: when that was, is not known
		s.read = false
	} else {
		s.end(ids, time.UnixMilli(t.From), m.Now+w.o.SettleAhead+w.o.SettleLinger)
	}
	w.metrics.settled(t.count, m.Now-t.begun)
}

// segmentsSwept goes on without deleting anything for a while where the user may not delete: what has ended is not shown, and nothing
// waits for its end.
func (w *Worker) segmentsSwept(m Moment, e SegmentsSwept) {
	s := w.settlingAnswered()
	if errors.Is(e.Err, claim.ErrUnauthorized) {
		s.sweepFrom = m.Now + sweepRetry
		w.metrics.failed(settlingSegments)
		w.log.Warn("segments whose measurements are in buckets cannot be deleted, and take room; compaction goes on", "err", e.Err)
		return
	}
	if e.Err != nil {
		w.settlingUnknown(m, e.Err)
		return
	}
	w.succeeded(&s.retry, MongoDB)
	s.ended = s.ended[1:]
}

// settlingUnknown is settlingFailed after writes that may still be executed: there is no release before (E4). One that the user has no
// right to was not executed.
func (w *Worker) settlingUnknown(m Moment, err error) {
	if !errors.Is(err, claim.ErrUnauthorized) {
		w.past.unknownUntil = max(w.past.unknownUntil, m.Now+w.o.Grace)
	}
	w.settlingFailed(m, settlingSegments, err)
}

// settlingFailed postpones the next step, unless there is another owner.
func (w *Worker) settlingFailed(m Moment, trying doing, err error) {
	if errors.Is(err, claim.ErrOtherOwner) {
		w.claimAgain()
		return
	}
	w.failed(m, &w.tenure.staging.retry, MongoDB, trying, err)
}
