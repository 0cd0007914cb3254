package pipeline

import (
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
)

// notAppliedLimit is how many times in a row an update may turn out not to be applied before its condition counts as broken.
const notAppliedLimit = 3

// advanceFlush cuts a flush when it is time, and takes the present one a step further. The second flush of a partition
// starts only when the first is resolved, which makes batches larger exactly when the database is slow.
func (w *Worker) advanceFlush(m Moment, actions []Action) []Action {
	if w.flush == nil && !w.cut(m) {
		return actions
	}
	f := w.flush
	if w.writing() || w.busy.claim || !f.retry.ready(m.Now) || !m.Held { // E7: nothing is sent while the lease does not hold
		return actions
	}
	if len(f.unknown) > 0 { // before anything else is done with these buckets (E4)
		f.acting = slices.Clone(f.unknown)
		return append(actions, ResolveWrites{Writes: f.writes(f.acting)})
	}
	if f.acting, f.handed = f.next(w.pace.bound), m.Now; f.acting != nil {
		for _, i := range f.acting {
			f.attempts[i].sent = true
		}
		return append(actions, SendWrites{Writes: f.writes(f.acting)})
	}
	for _, i := range f.asking {
		if m.Now > f.attempts[i].lastSent+w.o.Grace {
			f.acting = []int{i}
			return append(actions, AskPositions{Write: f.cut.Writes[i]})
		}
	}
	return actions
}

// cut starts a flush if there is a reason to.
func (w *Worker) cut(m Moment) bool {
	pending, bytes := w.catalog.Pending()
	if pending == 0 {
		w.pendingSince = 0
		if _, some := w.catalog.Oldest(); !some {
			w.lag.over = false // all of the lag was stored before: what comes next is no part of it
		}
	} else if w.pendingSince == 0 {
		w.pendingSince = m.Now
	}
	trigger := w.trigger(m, pending, bytes)
	// Once the hand-over has begun the release may be on its way (E7): a series that has backed off until now is read again.
	if trigger == "" || w.term.restart != nil || w.term.handing != notHanding {
		return false
	}
	cut := w.catalog.Prepare(int64(m.Now))
	if trigger != "rest" { // of what came since, nothing was cut
		w.pendingSince, w.lag.over = 0, false
	}
	if cut == nil || len(cut.Writes) == 0 {
		w.term.dry = w.term.revoked
		return false
	}
	w.flush = newFlush(cut, m.Now)
	w.metrics.flushCut(trigger, cut)
	return true
}

// trigger names the reason to flush now. Empty means none.
func (w *Worker) trigger(m Moment, pending int, bytes int64) string {
	switch {
	case pending == 0:
		return ""
	case w.term.revoked && w.term.shutdown:
		return "shutdown"
	case w.term.revoked:
		return "revoke"
	case w.catalog.Rest():
		return "rest"
	case bytes >= w.o.FlushBytes:
		return "bytes"
	case pending >= w.o.FlushCount:
		return "count"
	case w.over(m):
		return "memory"
	case w.lag.over && !w.busy.find: // what look-ups still bring goes with it
		return "caught_up"
	case w.lag.behind && w.isDense(bytes):
		return "dense"
	case m.Now-w.pendingSince >= w.o.FlushInterval:
		return "interval"
	}
	return ""
}

// While the reading is behind, the database is not left idle until the interval is over, but asked to write only what makes
// dense buckets: some eighty measurements of five numbers each, of so many series that a call is worth its while. Denser ones
// cost it a little less each, and come by themselves where it is what all wait for: the next flush then finds more.
const (
	denseBucket = 8 << 10 // bytes of memory that wait for a bucket, on the average
	densePart   = 16      // the part of FlushBytes that waits at least
)

// isDense reports whether what waits makes dense buckets.
func (w *Worker) isDense(bytes int64) bool {
	return bytes >= w.o.FlushBytes/densePart && bytes >= denseBucket*int64(w.catalog.Dirty())
}

// writesSent notes what one attempt told of each write.
func (w *Worker) writesSent(m Moment, e WritesSent) {
	f := w.flush
	var failed, noTurn error
	given, answered := int64(0), int64(0)
	for n, i := range f.acting {
		a, s := &f.attempts[i], &e.Sent[n]
		weight := weigh(f.cut.Writes[i])
		given += weight
		a.lastSent = m.Now
		switch s.Result {
		case bucketer.Applied, bucketer.Refused:
			answered += weight
			w.conclude(i, bucketer.Outcome{Result: s.Result, Code: s.Code, Message: s.Message, TooLarge: s.TooLarge})
		case bucketer.NotExecuted:
			a.sent = a.notApplied > 0 || a.resolved
			f.again = append(f.again, i)
			if errors.Is(s.Err, claim.ErrNoTurn) {
				noTurn = s.Err
				continue
			}
			w.metrics.retried(f.cut.Writes[i])
			failed = s.Err
		case bucketer.Unknown:
			a.step, f.unknown = toResolve, append(f.unknown, i)
			failed = s.Err
			// This attempt may be executed until its grace has passed, even after another one was acknowledged (E4): then
			// there is no release, and no claim of ours, before.
			w.past.unknownUntil = max(w.past.unknownUntil, m.Now+w.o.Grace)
		default:
			panic("pipeline: E4: no attempt to send a write ends as " + s.Result.String())
		}
	}
	f.acting = nil
	w.term.segments.turn = true
	w.pace.took(m.Now-f.handed, given, answered)
	if failed == nil && answered == 0 {
		failed = noTurn // in all that time nobody had a turn: that is no queue
	}
	if failed != nil {
		w.flushFailed(m, writingBuckets, failed)
		return
	}
	w.finishFlush(m)
}

// writesResolved notes what the read-back showed.
func (w *Worker) writesResolved(m Moment, e WritesResolved) {
	f := w.flush
	acting := f.acting
	f.acting = nil
	if e.Err != nil {
		w.flushFailed(m, readingBack, e.Err)
		return
	}
	f.unknown = f.unknown[:0]
	sendAgain := false
	for n, i := range acting {
		a := &f.attempts[i]
		a.resolved = true
		switch found := e.Found[n]; found {
		case bucketer.Applied, bucketer.AppliedForget:
			w.conclude(i, bucketer.Outcome{Result: found})
		case bucketer.NotApplied:
			sendAgain = true
			if a.notApplied++; a.notApplied >= notAppliedLimit && f.cut.Writes[i].Kind == bucketer.Update {
				a.step, f.asking = toAsk, append(f.asking, i)
				continue
			}
			a.step, f.again = toSend, append(f.again, i) // the same bytes again
		case bucketer.Conflicted:
			a.step, f.asking = toAsk, append(f.asking, i)
		default:
			panic("pipeline: E4: no read-back of a write ends as " + found.String())
		}
	}
	if sendAgain {
		return // reads that work do not end the outage: a full disk or a lost privilege stops only writes
	}
	w.finishFlush(m)
}

// positionsAsked ends a conflict: stored measurements are dropped, the rest goes back through the catalog.
func (w *Worker) positionsAsked(m Moment, e PositionsAsked) {
	f := w.flush
	i := f.acting[0]
	f.acting = nil
	if e.Err != nil {
		w.flushFailed(m, askingPositions, e.Err)
		return
	}
	f.asking = slices.DeleteFunc(f.asking, func(other int) bool { return other == i })
	f.changed = true
	w.conclude(i, bucketer.Outcome{Result: bucketer.Conflicted, Stored: e.Stored})
	why := "another writer changed a bucket"
	if f.attempts[i].notApplied >= notAppliedLimit { // a read does not show why, or MongoDB takes no updates
		why = "an update was not executed, again and again"
	}
	w.log.Warn(why+"; its measurements go into another bucket", "bucket", f.cut.Writes[i].ID.Hex())
	w.finishFlush(m)
}

// conclude notes what became of a write.
func (w *Worker) conclude(i int, outcome bucketer.Outcome) {
	f := w.flush
	f.attempts[i].step, f.outcomes[i] = done, outcome
	f.left--
	w.metrics.write(f.cut.Writes[i], outcome.Result, f.attempts[i].resolved)
}

// flushFailed postpones the next step of the flush, unless there is another owner.
func (w *Worker) flushFailed(m Moment, trying doing, err error) {
	if errors.Is(err, claim.ErrOtherOwner) {
		w.claimAgain()
		return
	}
	w.failed(m, &w.flush.retry, MongoDB, trying, err)
}

// finishFlush ends the flush when each of its writes is done.
func (w *Worker) finishFlush(m Moment) {
	f := w.flush
	w.succeeded(&f.retry, MongoDB)
	if f.left > 0 {
		return
	}
	w.flush = nil
	w.noteSegments(m, f)
	w.rejected = append(w.rejected, w.catalog.Finish(f.cut, f.outcomes, int64(m.Now))...)
	w.clearConflicted(f)
	w.catalog.Release(f.cut) // every call about its writes has returned: a Collection keeps nothing of them
	w.countBuckets()
	w.lastFlush = m.Now
	w.metrics.flushSeconds.Observe((m.Now - f.started).Seconds())
}

// clearConflicted forgets the other buckets of each series that had a conflict, and what look-ups said of it: whoever
// changed one bucket may have changed them all, and each would cost the grace to find out.
func (w *Worker) clearConflicted(f *flush) {
	if !f.changed {
		return
	}
	changed := map[string]bool{}
	for i := range f.outcomes {
		if f.outcomes[i].Result == bucketer.Conflicted {
			changed[seriesKey(f.cut.Writes[i].Meta)] = true
		}
	}
	w.catalog.Clear(func(meta bson.RawValue) bool { return changed[seriesKey(meta)] })
}

func seriesKey(meta bson.RawValue) string { return string(byte(meta.Type)) + string(meta.Value) }
