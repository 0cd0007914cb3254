package pipeline

import (
	"errors"
	"fmt"
	"math"
	"time"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// watchInterval is the time between two looks at the claim of a former owner, which may hand the partition over.
const watchInterval = 200 * time.Millisecond

// otherGroupPatience is how long a claim of another group is read again before it stops the partition: right after an
// election, a read may not yet show a takeover.
const otherGroupPatience = 15 * time.Second

// assign begins a term.
func (w *Worker) assign(m Moment, a Assigned) []Action {
	if !a.Consecutive {
		w.past.observedClaim.outlive()
	}
	source := timeseries.Source{Topic: w.o.Partition.Topic, TopicID: a.TopicID, Partition: w.o.Partition.Number}
	if w.source != source || !w.o.Warm || w.halt != nil { // a partition may have stopped in the middle of a record
		w.drop()
	}
	w.signs.begin(m.Now, a.Consecutive && w.source == source)
	w.source, w.assigned, w.halt = source, a, nil
	w.term, w.retry, w.question = term{}, retries{}, askNothing
	if source.TopicID == [16]byte{} { // the topic is missing, or was when partitions were assigned
		w.phase, w.question = finding, askTopic
		return nil
	}
	w.phase = reading
	return []Action{Open{Source: source}}
}

// advanceClaim takes the next step: read the document, wait, prove the membership, claim, read D.
func (w *Worker) advanceClaim(m Moment, actions []Action) []Action {
	if w.busy.claim || !w.retry.claim.ready(m.Now) {
		return actions
	}
	switch w.phase {
	case reading:
		return w.readClaim(m, actions)
	case waiting:
		return w.wait(m, actions)
	case claiming:
		if !m.Held { // E7
			w.phase, w.term.provedBy = proving, m.Now
			return append(actions, CommitNow{})
		}
		w.busy.claim, w.term.sent = true, w.o.NewToken()
		ours := claim.Claim{Token: w.term.sent, Start: w.term.start.Offset, Wait: w.o.Wait, Lease: w.o.Wait - w.o.Grace}
		return append(actions, SendClaim{Seen: w.term.seen, Claim: ours})
	case loading:
		return w.loadStored(actions)
	}
	return actions // proving waits for the commit
}

func (w *Worker) readClaim(m Moment, actions []Action) []Action {
	w.phase, w.busy.claim, w.term.asked = reading, true, m.Now
	return append(actions, ReadClaim{})
}

// wait waits for the former owner: until it releases its claim, or can do nothing more. Where to begin is read again when that
// owner can commit nothing more, so that its last commits count. Until then nothing is committed here. A commit of the former owner
// that the network holds back may still be executed later, and set the offset back until our next one: the records in between
// are stored, and recognised if they are read again.
func (w *Worker) wait(m Moment, actions []Action) []Action {
	switch {
	case !w.term.quiesced && m.Now >= w.term.quiesces:
		return w.readClaim(m, actions)
	case m.Now >= max(w.term.until, w.past.unknownUntil):
		w.phase, w.term.provedBy = proving, m.Now
		return append(actions, CommitNow{})
	case !w.term.quiesced && m.Now >= w.term.watch:
		w.busy.claim = true
		return append(actions, WatchClaim{})
	}
	return w.passOn(m, actions)
}

// claimWatched begins anew when the claim has been released, or another one taken its place.
func (w *Worker) claimWatched(m Moment, e ClaimWatched) {
	w.busy.claim = false
	if e.Err != nil {
		w.failed(m, &w.retry.claim, MongoDB, readingTheClaim, e.Err)
		return
	}
	w.succeeded(&w.retry.claim, MongoDB)
	w.term.watch = m.Now + watchInterval
	if seen := w.term.seen; e.Seen.Claim != seen.Claim || e.Seen.Released != seen.Released || e.Seen.Group != seen.Group {
		w.phase = reading
	}
}

// loadStored reads the next window of D.
func (w *Worker) loadStored(actions []Action) []Action {
	w.busy.claim = true
	return append(actions, LoadStored{
		Start: w.ledger.next, End: w.windowEnd(w.ledger.next), Newest: w.catalog == nil && w.o.Bucketing.Reopen,
	})
}

func (w *Worker) windowEnd(start int64) int64 {
	if start > math.MaxInt64-w.o.Window {
		return math.MaxInt64
	}
	return start + w.o.Window
}

// claimRead decides what the partition document means: whose it is, where to start, how long to wait.
func (w *Worker) claimRead(m Moment, e ClaimRead) {
	w.busy.claim = false
	if e.Err != nil {
		w.failed(m, &w.retry.claim, e.Of, readingTheClaim, e.Err)
		if errors.Is(e.Err, record.ErrTopicGone) {
			w.question = askTopic
			w.found(e)
		}
		return
	}
	seen := e.Seen
	if seen.Found && seen.Group != w.o.Group {
		w.otherGroup(m, seen.Group)
		return
	}
	w.past.refused = rival{}
	if seen.Found && seen.Claim == (claim.Token{}) {
		w.failed(m, &w.retry.claim, MongoDB, readingTheClaim, errors.New("the partition document shows no claim (was it edited?): delete it"))
		return
	}
	w.found(e)
	executed := w.term.sent != (claim.Token{}) && seen.Claim == w.term.sent // our claim, though nothing acknowledged it
	if w.catalog != nil && seen.Claim != w.catalogClaim && !executed {
		w.drop() // another process owned the partition in between
	}
	if !w.resolve(e) {
		return
	}
	w.succeeded(&w.retry.claim, MongoDB)
	w.answered(Kafka)
	w.signs.sawEnd(m.Now, e.Bounds.End, e.Bounds.High)
	w.term.end = e.Bounds.End
	w.signs.committed = w.term.committed.Offset
	w.term.told = w.term.told && seen.Claim == w.term.seen.Claim
	w.term.seen = seen
	if executed { // not durable perhaps: claimed once more, until an acknowledgement says so
		w.phase, w.term.quiesced = claiming, true
		return
	}
	w.waitFor(m.Now, seen)
	w.phase = waiting
	if left := max(w.term.until, w.past.unknownUntil) - m.Now; left > 0 && !w.term.told {
		w.term.told = true
		w.log.Info("waiting for the previous owner to release the partition, or for its lease to expire", "owner", seen.Owner, "wait", left)
	}
}

// otherGroup stops the partition if the document keeps showing another group.
func (w *Worker) otherGroup(m Moment, group string) {
	r := &w.past.refused
	r.by = &record.StopError{Reason: "other_group", Detail: fmt.Sprintf(
		"this partition of the collection %s is written by the group %q, and this consumer is in the group %q: only one group "+
			"may write to a collection; use another MONGODB_COLLECTION, or take it over with `waterwheel collection takeover`",
		w.o.Namespace, group, w.o.Group)}
	if r.since == 0 {
		r.since = m.Now
	}
	if m.Now-r.since < otherGroupPatience {
		w.retry.claim.fail(m.Now, w.o.Random)
		return
	}
	r.since = 0 // the next assignment is as patient again
	w.metrics.claim("refused")
	w.stop(r.by)
}

// found notes what the group has committed. Where a term begins anew as if nothing were committed, a commit of its own since
// then counts: it is what the claim that may be on its way says.
func (w *Worker) found(e ClaimRead) {
	c := e.Committed
	ours, ok := claim.ParseProvenance(c.Metadata)
	if from := w.assigned.From; from != nil {
		if from.Offset >= 0 || !ok || ours != w.provenance() {
			c = *from
		}
	} else if w.assigned.Beside {
		c.Consumed = true
	}
	c.Consumed = c.OfAnotherProgram()
	w.term.committed, w.term.known = c, true
}

// resolve decides the start. False means that the partition stopped.
func (w *Worker) resolve(e ClaimRead) bool {
	s, err := claim.Facts{
		Partition: w.o.Partition.Number, Pipeline: w.provenance(), Committed: w.term.committed, Document: e.Seen,
		FirstPartitions: e.FirstPartitions, Bounds: e.Bounds, OutOfRange: w.o.OutOfRange,
	}.Start()
	if stop, ok := errors.AsType[*record.StopError](err); ok { // it always is one
		w.stop(stop)
		return false
	}
	if w.term.committed.Consumed && s.Offset < w.term.committed.Offset && !w.term.resolved {
		w.log.Warn("another program committed the group's offset: going on where the last owner began and skipping stored records "+
			"(to go on at that offset instead: kafka-consumer-groups.sh --reset-offsets --to-current)",
			"offset", w.term.committed.Offset, "from", s.Offset)
	}
	if w.term.committed.Consumed && w.term.resolved && s.Offset > w.term.start.Offset {
		return true // the document that the earlier start was read from is gone; what the other program read is stored nowhere
	}
	if s.Beyond > 0 { // the commit that comes now hides it
		w.term.beyond = s.Beyond
	}
	w.term.start, w.term.resolved = s, true
	return true
}

// waitFor decides until when the owner that the document shows may commit, and when no write of it can be executed any more.
func (w *Worker) waitFor(now Instant, seen claim.Document) {
	t := &w.term
	t.noted, t.until, t.quiesced = seen.Waited, now, true
	wait, lease := w.o.Wait, w.o.Wait-w.o.Grace
	switch {
	case !seen.Found:
		ours, ok := claim.ParseProvenance(t.committed.Metadata)
		if !(ok && ours == w.provenance()) && !seen.HasBuckets {
			return
		}
	case seen.Released, seen.Claim == w.past.mine:
		return
	default:
		wait = max(wait, seen.Wait)
		if lease = seen.Lease; lease == 0 {
			lease = wait
		}
	}
	w.past.observedClaim.look(now, seen)
	since := w.past.observedClaim.since()
	t.until, t.quiesces, t.watch = since+wait, since+min(wait, lease), now+watchInterval
	t.quiesced = t.asked >= t.quiesces
}

// proved claims after the commit that proves the membership: one sent before the wait was over does not.
func (w *Worker) proved(e Committed) {
	if e.SentAt >= w.term.provedBy && e.Offset == w.term.start.Committed() {
		w.phase = claiming
	}
}

// claimAnswered goes on after a claim was sent.
func (w *Worker) claimAnswered(m Moment, e Claimed) {
	w.busy.claim = false
	if e.Err == nil && e.Won {
		w.won(m)
		return
	}
	w.phase = reading // and see what became of it
	if e.Err == nil {
		w.term.quiesced = false // whoever has claimed it may have committed since
		w.metrics.claim("lost")
	} else {
		w.failed(m, &w.retry.claim, MongoDB, sendingTheClaim, e.Err)
	}
}

// won begins the ownership: with the warm catalog, if nobody can have written in between, else with an empty one.
func (w *Worker) won(m Moment) {
	token := w.term.sent
	w.past.mine, w.term.claimed = token, true
	start := w.term.start
	warm := w.catalog != nil && m.Now > w.past.unknownUntil &&
		w.term.committed.Offset == w.committed && start.Offset == w.committed
	if warm {
		w.catalogClaim, w.phase = token, running
		w.lag = lag{behind: w.ledger.next < w.term.end, since: m.Now}
		w.followCollection()
		w.metrics.claim("warm")
		w.log.Info("claimed", "kind", "warm", "offset", w.ledger.next)
		return
	}
	w.drop()
	w.catalogClaim, w.phase = token, loading
	w.ledger.next = start.Offset
	w.lag = lag{behind: start.Offset < w.term.end, since: m.Now}
	w.metrics.claim("cold")
	w.log.Info("claimed", "kind", "cold", "offset", start.Offset)
	if start.Lost > 0 {
		w.lost(m, start.Committed(), start.Offset)
	}
	if beyond := w.term.beyond; beyond > 0 {
		w.term.beyond = 0
		w.elsewhere(m, w.term.end+beyond, w.term.end, start.Offset)
	}
}

// storedLoaded takes D. Only now may measurements be inserted (E2).
func (w *Worker) storedLoaded(m Moment, e StoredLoaded) {
	w.busy.claim = false
	if e.Err != nil {
		w.failed(m, &w.retry.claim, MongoDB, readingPositions, e.Err)
		return
	}
	w.succeeded(&w.retry.claim, MongoDB)
	w.stored = e.Stored
	_, w.window = e.Stored.Window() // it may be smaller than the requested one
	if e.Stored.Len() == 0 {
		w.stored = nil
	} else {
		w.log.Info("read the stored positions", "positions", e.Stored.Len(), "from", w.ledger.next)
	}
	if w.catalog == nil {
		bucketing := w.o.Bucketing
		bucketing.Source = w.source
		bucketing.Owner = claim.DocumentID(w.o.ClusterID, w.source.Topic, w.source.Partition)
		w.catalog = w.o.newCatalog(bucketing)
		if e.Newest != nil {
			w.catalog.Begin(*e.Newest)
		}
		w.committed = w.term.start.Committed() // the proof committed it
	}
	w.phase = running
	w.followCollection()
}
