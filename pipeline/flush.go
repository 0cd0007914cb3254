package pipeline

import (
	"errors"
	"slices"
	"time"
	"unsafe"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
)

// notAppliedLimit is how many times in a row an update may be found not applied before its condition counts as broken.
const notAppliedLimit = 3

// advanceFlush cuts a flush when one is due, and starts the next action of the present one. A partition's second flush starts
// only when the first is resolved, so batches grow exactly when the database is slow.
func (w *Worker) advanceFlush(m Moment) {
	if w.flush == nil && !w.cut(m) {
		return
	}
	f := w.flush
	if w.writing() || w.busy.claim || !f.retry.ready(m.Now) || !m.Held { // E7: nothing is sent while the lease does not hold
		return
	}
	if w.o.Sharded {
		f.doubt(m.Now, (w.o.Wait-w.o.WriteGrace)/2)
	}
	if len(f.unknown) > 0 { // these buckets get nothing else before that (E4)
		f.acting = slices.Clone(f.unknown)
		w.do(ResolveWrites{Writes: f.writes(f.acting)})
		return
	}
	if f.acting, f.handed = f.next(w.pace.bound), m.Now; f.acting != nil {
		for _, i := range f.acting {
			f.attempts[i].sent = true
		}
		w.do(SendWrites{Writes: f.writes(f.acting)})
		return
	}
	for _, i := range f.asking {
		if m.Now > f.attempts[i].lastSent+w.o.WriteGrace {
			f.acting = []int{i}
			w.do(AskPositions{Write: f.cut.Writes[i]})
			return
		}
	}
}

// cut starts a flush if there is a reason to.
func (w *Worker) cut(m Moment) bool {
	pending, bytes := w.catalog.Pending()
	if pending == 0 {
		w.pendingSince = 0
		if _, some := w.catalog.Oldest(); !some {
			w.lag.over = false // All of the lag was stored before, so what comes next is not part of it.
		}
	} else if w.pendingSince == 0 {
		w.pendingSince = m.Now
	}
	trigger := w.trigger(m, pending, bytes)
	// After the hand-over has begun, the release may be under way (E7). A series that backs off until now is read again.
	if trigger == "" || w.term.restart != nil || w.term.handing != notHanding {
		return false
	}
	cut := w.catalog.Prepare(int64(m.Now))
	if trigger != "rest" { // a rest has nothing of what came since
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
	case w.lag.over && !w.busy.find: // the results of look-ups go into the same flush
		return "caught_up"
	case w.lag.behind && w.isDense(bytes):
		return "dense"
	case m.Now-w.pendingSince >= w.o.FlushInterval:
		return "interval"
	}
	return ""
}

// While the reading is behind, the database should not be idle until the interval is over. It gets only writes of dense
// buckets, with on average some eighty measurements of five numbers each. There must be enough of them to make a call worth its
// while. Denser buckets would cost the database a little less per measurement. They come by themselves where the database is
// the bottleneck, because the next flush then finds more.
const (
	denseBucket = 8 << 10 // average bytes of memory that wait for a bucket
	densePart   = 16      // at least this fraction of FlushBytes waits
)

// isDense reports whether the pending measurements make dense buckets.
func (w *Worker) isDense(bytes int64) bool {
	return bytes >= w.o.FlushBytes/densePart && bytes >= denseBucket*int64(w.catalog.Dirty())
}

// handle notes the outcomes of one attempt, for each write.
func (e WritesSent) handle(w *Worker, m Moment) {
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
			// This attempt may be executed until its write grace period has passed, even after another attempt was acknowledged (E4).
			// Until then there is no release and no claim of ours.
			w.past.unknownUntil = max(w.past.unknownUntil, m.Now+w.o.WriteGrace)
		default:
			panic("pipeline: E4: no attempt to send a write ends as " + s.Result.String())
		}
	}
	f.acting = nil
	w.term.segments.turn = true
	w.pace.took(m.Now-f.handed, given, answered)
	if failed == nil && answered == 0 {
		failed = noTurn // No write had a turn in all that time, so this is no queue.
	}
	if failed != nil {
		w.flushFailed(m, writingBuckets, failed)
		return
	}
	w.finishFlush(m)
}

// handle notes what the read-back showed.
func (e WritesResolved) handle(w *Worker, m Moment) {
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
			sendAgain, a.readBack = true, m.Now
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
		return // Reads that work do not end the outage, because a full disk or a lost privilege stops only writes.
	}
	w.finishFlush(m)
}

// handle ends a conflict. Measurements that are stored are dropped, and the others go back through the catalog.
func (e PositionsAsked) handle(w *Worker, m Moment) {
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
		why = "MongoDB repeatedly did not execute an update of a bucket"
	}
	w.log.Warn(why+"; the measurements of this write go into another bucket", "bucket", f.cut.Writes[i].ID.Hex())
	w.finishFlush(m)
}

// conclude notes the outcome of a write.
func (w *Worker) conclude(i int, outcome bucketer.Outcome) {
	f := w.flush
	f.attempts[i].step, f.outcomes[i] = done, outcome
	f.left--
	w.metrics.write(f.cut.Writes[i], outcome.Result, f.attempts[i].resolved)
}

// flushFailed postpones the next step of the flush. If another owner was found, the partition is claimed again instead.
func (w *Worker) flushFailed(m Moment, trying operation, err error) {
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
	w.catalog.Release(f.cut) // Every call about these writes has returned, and a Collection keeps nothing of them.
	w.countBuckets()
	w.lastFlush = m.Now
	w.metrics.flushSeconds.Observe((m.Now - f.started).Seconds())
}

// clearConflicted forgets the other buckets of each series that had a conflict, and the answers of look-ups for it. The other
// writer may have changed all of these buckets, and each conflict costs the write grace period to find out.
func (w *Worker) clearConflicted(f *inFlight) {
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

// step is what a write of a flush needs next.
type step uint8

const (
	toSend    step = iota
	toResolve      // its outcome is unknown, so it is read back
	toAsk          // it had a conflict: after the write grace period, ask which of its positions are stored
	done
)

// attempt is the state of one write. A write is unknown from its sending until it is done (E4).
type attempt struct {
	lastSent   Instant // when its last attempt was answered
	readBack   Instant // when it was last found not applied
	notApplied int32
	step       step
	sent       bool
	resolved   bool // its outcome came from a read-back
}

// inFlight holds the writes cut by one Prepare, until each is applied or its measurements are back in the catalog. It keeps lists
// of writes by state, so that no event looks at all of them.
type inFlight struct {
	cut      *bucketer.Flush
	attempts []attempt
	outcomes []bucketer.Outcome // of the writes that are done
	left     int                // how many writes are not done
	fresh    int                // index of the first write that was not handed out yet
	again    []int              // to be sent again, or not sent when they were handed out
	unknown  []int              // to be read back
	asking   []int              // conflicts that wait for their write grace period
	changed  bool               // a write ended as a conflict
	// acting are the indexes of the writes in the action under way. Nil means that there is none.
	acting  []int
	handed  Instant // when the action began
	retry   backoff
	started Instant
}

func newFlush(cut *bucketer.Flush, now Instant) *inFlight {
	n := len(cut.Writes)
	return &inFlight{cut: cut, attempts: make([]attempt, n), outcomes: make([]bucketer.Outcome, n), left: n, started: now}
}

// unresolved reports whether a write that was sent may still be executed.
func (f *inFlight) unresolved() bool {
	return slices.ContainsFunc(f.attempts, func(a attempt) bool { return a.sent && a.step != done })
}

// isOpen reports whether a write to this document is not done yet.
func (f *inFlight) isOpen(id bson.ObjectID) bool {
	i := slices.IndexFunc(f.cut.Writes, func(w *bucketer.Write) bool { return w.ID == id })
	return i >= 0 && f.attempts[i].step != done
}

// unconfirmed counts the writes that were sent and whose outcome is not known.
func (f *inFlight) unconfirmed() int { return len(f.unknown) + len(f.asking) }

// bytes is the memory of the flush without the writes themselves.
func (f *inFlight) bytes() int64 {
	indexes := cap(f.again) + cap(f.unknown) + cap(f.asking) + cap(f.acting)
	return int64(cap(f.attempts))*int64(unsafe.Sizeof(attempt{})) + int64(cap(f.outcomes))*int64(unsafe.Sizeof(bucketer.Outcome{})) +
		int64(indexes)*int64(unsafe.Sizeof(0))
}

// next takes the writes to be sent now. Writes that were handed out before come first. It takes as many as weigh no more than
// the bound together, and at least one. Nil means that there are none.
func (f *inFlight) next(bound int64) (indexes []int) {
	for weight := int64(0); len(f.again) > 0 || f.fresh < len(f.attempts); {
		i := f.fresh
		if len(f.again) > 0 {
			i = f.again[0]
		}
		if weight += weigh(f.cut.Writes[i]); len(indexes) > 0 && weight > bound {
			break
		}
		if len(f.again) > 0 {
			f.again = f.again[1:]
		} else {
			f.fresh++
		}
		indexes = append(indexes, i)
	}
	return indexes
}

// doubt marks inserts as unknown that were read back longer ago than most, so that they are read back again before they are sent
// again. On a cluster an earlier sending may have stored the bucket since, and an edit of metas may have moved it to another shard.
// MongoDB would not refuse the insert then, because an _id is unique only within a shard. Such an edit waits for inserts, for longer
// than most and the write grace period (internal/collection/selectionedit.go).
func (f *inFlight) doubt(now, most Instant) {
	f.again = slices.DeleteFunc(f.again, func(i int) bool {
		a := &f.attempts[i]
		if a.notApplied == 0 || f.cut.Writes[i].Kind != bucketer.Insert || now-a.readBack <= most {
			return false
		}
		a.step, f.unknown = toResolve, append(f.unknown, i)
		return true
	})
}

// writes picks writes by index.
func (f *inFlight) writes(indexes []int) []*bucketer.Write {
	writes := make([]*bucketer.Write, len(indexes))
	for i, at := range indexes {
		writes[i] = f.cut.Writes[at]
	}
	return writes
}

// pace bounds how much of a flush one SendWrites carries, by how long the last ones took. All calls of one SendWrites share a
// deadline. Calls still under way at the deadline become unknown, even with a healthy database. So an action should take a
// quarter of the write timeout, and half of it at most. The rest of the flush follows in other actions, each with its own
// deadline.
type pace struct {
	bound  int64         // the largest sum of weigh
	target time.Duration // the time that an action should take
	// quickest is the shortest time of the last actions that were answered completely. Zero means that there was none.
	quickest time.Duration
}

// writeWeight is the cost of a write to a database besides its bytes, in bytes.
const writeWeight = 4 << 10

// fewWrites is nearly always sent whole, because a database is hardly ever too slow for so little.
const fewWrites = 128 * writeWeight

// paceStep is the largest factor between the bounds of two consecutive actions, because one that was slow or quick by accident
// tells little. largestSend keeps a bound that is never reached from growing without end.
const (
	paceStep    = 4
	largestSend = 1 << 40
)

// weigh is the cost of sending a write, in bytes.
func weigh(w *bucketer.Write) int64 { return int64(len(w.Filter)+len(w.Document)) + writeWeight }

// took notes that an action carried the weight given, of which the weight answered was answered in time.
func (p *pace) took(d time.Duration, given, answered int64) {
	measured := int64(largestSend)
	if d > 0 {
		measured = int64(min(largestSend, float64(answered)*float64(p.target)/float64(d)))
	}
	// Unanswered writes mean that the action was too large, even if the bound would have allowed more. A few writes are also
	// unanswered in any outage, so they say less.
	if answered < given {
		p.bound = min(p.bound, max(given, fewWrites))
		p.bound = max(1, min(measured, p.bound/2), p.bound/paceStep)
		return
	}
	quickest := p.quickest
	if p.quickest += p.quickest / 8; p.quickest == 0 || d < p.quickest {
		p.quickest = d
	}
	switch {
	case d > 2*p.target:
		if d > quickest+quickest/2 { // otherwise the network takes so long, and a smaller action would be no quicker
			p.bound = max(1, min(measured, p.bound), p.bound/paceStep)
		}
	case given < p.bound/2: // a small action does not tell how long a large one takes
	case d > p.target: // at most half the write timeout
		p.bound = min(p.bound+p.bound/8+writeWeight, largestSend)
	default:
		p.bound = min(max(measured, p.bound), p.bound*paceStep, largestSend)
	}
}
