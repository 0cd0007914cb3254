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

// watchInterval is the time between two reads of a former owner's claim, which may be released meanwhile.
const watchInterval = 200 * time.Millisecond

// otherGroupPatience is how long a claim of another group is read again before it stops the partition. Right after an election,
// a read may not show a takeover yet.
const otherGroupPatience = 15 * time.Second

// handle begins a term.
func (e Assigned) handle(w *Worker, m Moment) { w.assign(m, e) }

// assign begins a term.
func (w *Worker) assign(m Moment, a Assigned) {
	if !a.Consecutive {
		w.past.observedClaim.outlive()
	}
	source := timeseries.Source{Topic: w.o.Partition.Topic, TopicID: a.TopicID, Partition: w.o.Partition.Number}
	if w.source != source || !w.o.Warm || w.halt != nil { // a partition may have stopped in the middle of a record
		w.drop()
	}
	w.logStatus.begin(m.Now, a.Consecutive && w.source == source)
	w.source, w.assigned, w.halt = source, a, nil
	w.term, w.retry, w.question = term{}, retries{}, askNothing
	if source.TopicID == [16]byte{} { // the topic is missing, or was when partitions were assigned
		w.phase, w.question = finding, askTopic
		return
	}
	w.phase = reading
	w.do(Open{Source: source})
}

// advanceClaim takes the next of these steps: read the document, wait, prove the membership, claim, read the stored positions.
func (w *Worker) advanceClaim(m Moment) {
	if w.busy.claim || !w.retry.claim.ready(m.Now) {
		return
	}
	switch w.phase { // proving waits for the commit
	case reading:
		w.readClaim(m)
	case waiting:
		w.wait(m)
	case claiming:
		if !m.Held { // E7
			w.phase, w.term.provedBy = proving, m.Now
			w.do(CommitNow{})
			return
		}
		w.term.sent = w.o.NewToken()
		ours := claim.Claim{Token: w.term.sent, Start: w.term.start.Offset, Wait: w.o.Wait, Lease: w.o.Wait - w.o.WriteGrace}
		w.start(&w.busy.claim, SendClaim{Seen: w.term.seen, Claim: ours})
	case loading:
		w.loadStored()
	}
}

func (w *Worker) readClaim(m Moment) {
	w.phase, w.term.asked = reading, m.Now
	w.start(&w.busy.claim, ReadClaim{})
}

// wait waits until the former owner releases its claim or can do nothing more. Once that owner can commit nothing more, the
// start is read again, so that its last commits count. Until then this process commits nothing. The network may delay a commit
// of the former owner, which then sets the offset back until our next commit. That is harmless, because the records in between
// are stored, and are recognised if they are read again.
func (w *Worker) wait(m Moment) {
	switch {
	case !w.term.quiesced && m.Now >= w.term.quiesces:
		w.readClaim(m)
	case m.Now >= max(w.term.until, w.past.unknownUntil):
		w.phase, w.term.provedBy = proving, m.Now
		w.do(CommitNow{})
	case !w.term.quiesced && m.Now >= w.term.watch:
		w.start(&w.busy.claim, WatchClaim{})
	default:
		w.passOn(m)
	}
}

// handle reads the claim again when it was released or another claim has replaced it.
func (e ClaimWatched) handle(w *Worker, m Moment) {
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

// loadStored reads the next window of the stored positions.
func (w *Worker) loadStored() {
	w.start(&w.busy.claim, LoadStoredPositions{
		Start: w.offsetTracker.next, End: w.windowEnd(w.offsetTracker.next), Newest: w.catalog == nil && w.o.Bucketing.Reopen,
	})
}

func (w *Worker) windowEnd(start int64) int64 {
	if start > math.MaxInt64-w.o.Window {
		return math.MaxInt64
	}
	return start + w.o.Window
}

// handle decides from the partition document who owns the partition, where to start and how long to wait.
func (e ClaimRead) handle(w *Worker, m Moment) {
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
		w.failed(m, &w.retry.claim, MongoDB, readingTheClaim, errors.New("the partition document contains no claim (was it edited by hand?): stop all consumers of this group, delete the document, and start them again"))
		return
	}
	w.found(e)
	executed := w.term.sent != (claim.Token{}) && seen.Claim == w.term.sent // our claim was executed, though its acknowledgement never came
	if w.catalog != nil && seen.Claim != w.catalogClaim && !executed {
		w.drop() // another process owned the partition in between
	}
	if !w.resolve(e) {
		return
	}
	w.succeeded(&w.retry.claim, MongoDB)
	w.answered(Kafka)
	w.logStatus.sawEnd(m.Now, e.Bounds.End, e.Bounds.High)
	w.term.end = e.Bounds.End
	w.logStatus.committed = w.term.committed.Offset
	w.term.told = w.term.told && seen.Claim == w.term.seen.Claim
	w.term.seen = seen
	// An executed claim may not be durable yet. The worker claims again until MongoDB acknowledges it.
	if executed {
		w.phase, w.term.quiesced = claiming, true
		return
	}
	w.waitFor(m.Now, seen)
	w.phase = waiting
	if left := max(w.term.until, w.past.unknownUntil) - m.Now; left > 0 && !w.term.told {
		w.term.told = true
		if seen.Found {
			w.log.Info("waiting for the previous owner to release the partition, or for its lease to expire", "owner", seen.Owner, "wait", left)
		} else {
			w.log.Warn("the partition document is missing, although offsets are committed or buckets exist: waiting until writes of an earlier owner can no longer arrive", "wait", left)
		}
	}
}

// otherGroup stops the partition if the document keeps showing another group.
func (w *Worker) otherGroup(m Moment, group string) {
	r := &w.past.refused
	r.by = &record.StopError{Reason: "other_group", Detail: fmt.Sprintf(
		"this partition of the collection %s is written by the group %q, and this consumer is in the group %q: only one group "+
			"may write to a collection; use another MONGODB_COLLECTION, or take over this collection with `waterwheel collection takeover`",
		w.o.Namespace, group, w.o.Group)}
	if r.since == 0 {
		r.since = m.Now
	}
	if m.Now-r.since < otherGroupPatience {
		w.retry.claim.fail(m.Now, w.o.Random)
		return
	}
	r.since = 0 // after the next assignment the patience begins anew
	w.metrics.claim("refused")
	w.stop(r.by)
}

// found notes what the group has committed. A restarted term may have to assume that nothing is committed (From.Offset is -1).
// If this pipeline has committed since, that commit counts instead, because a claim on its way may carry that start.
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

// resolve decides the start. False means that the partition has stopped.
func (w *Worker) resolve(e ClaimRead) bool {
	s, err := claim.Facts{
		Partition: w.o.Partition.Number, Pipeline: w.provenance(), Committed: w.term.committed, Document: e.Seen,
		FirstPartitions: e.FirstPartitions, Bounds: e.Bounds, OutOfRange: w.o.OutOfRange,
	}.Start()
	if stop, ok := errors.AsType[*record.StopError](err); ok { // Start returns no other error
		w.stop(stop)
		return false
	}
	if w.term.committed.Consumed && s.Offset < w.term.committed.Offset && !w.term.resolved {
		w.log.Warn("another program committed an offset of this group. This consumer reads from the offset at which the partition's last consumer began, and skips stored records. "+
			"To begin at the committed offset instead, stop all consumers of the group and run kafka-consumer-groups.sh --reset-offsets --to-current --execute",
			"offset", w.term.committed.Offset, "from", s.Offset)
	}
	if w.term.committed.Consumed && w.term.resolved && s.Offset > w.term.start.Offset {
		// The document that gave the earlier start is gone. That start stays, because records that the other program read are stored
		// nowhere.
		return true
	}
	if s.Beyond > 0 { // the next commit overwrites the offset that was beyond the end
		w.term.beyond = s.Beyond
	}
	w.term.start, w.term.resolved = s, true
	return true
}

// waitFor decides when the document's owner can commit nothing more, and when none of its writes can be executed any more.
func (w *Worker) waitFor(now Instant, seen claim.Document) {
	t := &w.term
	t.noted, t.until, t.quiesced = seen.Waited, now, true
	wait, lease := w.o.Wait, w.o.Wait-w.o.WriteGrace
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

// proved goes on to the claim after the commit that proves the membership. A commit sent before the wait was over proves
// nothing.
func (w *Worker) proved(e Committed) {
	if e.SentAt >= w.term.provedBy && e.Offset == w.term.start.Committed() {
		w.phase = claiming
	}
}

// handle handles the answer to a claim.
func (e Claimed) handle(w *Worker, m Moment) {
	w.busy.claim = false
	if e.Err == nil && e.Won {
		w.won(m)
		return
	}
	w.phase = reading // the document shows what became of the claim
	if e.Err == nil {
		w.term.quiesced = false // the new owner may have committed since
		w.metrics.claim("lost")
	} else {
		w.failed(m, &w.retry.claim, MongoDB, sendingTheClaim, e.Err)
	}
}

// won begins the ownership. It keeps the catalog (warm) if nobody else can have written in between, and otherwise begins with
// an empty one.
func (w *Worker) won(m Moment) {
	token := w.term.sent
	w.past.mine, w.term.claimed = token, true
	start := w.term.start
	warm := w.catalog != nil && m.Now > w.past.unknownUntil &&
		w.term.committed.Offset == w.committed && start.Offset == w.committed
	if warm {
		w.catalogClaim, w.phase = token, running
		w.lag = lag{behind: w.offsetTracker.next < w.term.end, since: m.Now}
		w.followCollection()
		w.metrics.claim("warm")
		w.log.Info("claimed", "kind", "warm", "offset", w.offsetTracker.next)
		return
	}
	w.drop()
	w.catalogClaim, w.phase = token, loading
	w.offsetTracker.next = start.Offset
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

// handle takes the stored positions. Only now may measurements be inserted (E2).
func (e StoredPositionsLoaded) handle(w *Worker, m Moment) {
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
		w.log.Info("read the stored positions", "positions", e.Stored.Len(), "from", w.offsetTracker.next)
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

// noteInterval is the least time between two notes of how long a claim has been waited for.
const noteInterval = 2 * time.Second

// observedClaim is another owner's claim in the partition document, with the moment from which the wait for its writes counts.
//
// The wait counts from any moment at which the generation of the claim was over. From then on no commit renews its lease.
// Nothing is written under the claim in a later generation, because every term claims anew. A read that shows the claim proves
// such a moment once a later commit of ours is known to be accepted (Moment.Renewed). Then no other member has been assigned
// the partition since we were, so the claim is older than our generation. A proven moment stays valid, whoever owns the
// partition later. It may be passed on as the time that has passed since. Thus clocks of two machines are not compared, and a
// clock that stood still only makes that time shorter.
//
// A process that starts again on the same machine under its static id waits as well. A file lock could prove that the former
// process is dead, so that its lease does not matter. But the wait also covers commands that the former process gave to the
// network and that MongoDB may still execute. Only a durable log of what was sent and answered could name those. That would
// cost a write and an fsync in each flush, to save 14 s after a crash.
type observedClaim struct {
	claim claim.Token // Zero means that there was no document.
	at    Instant     // the first read that showed it, in this term and earlier ones in which we kept the partition
	// over is a moment at which the claim's generation was certainly over. It is set only if proven.
	over   Instant
	proven bool
}

// since is the moment from which our own wait counts. Our claim proves it, because it is sent under a lease that is shorter
// than the wait.
func (s *observedClaim) since() Instant {
	if s.proven {
		return min(s.at, s.over)
	}
	return s.at
}

// outlive forgets a claim that a term has seen and not proven, because another process may have owned the partition since.
func (s *observedClaim) outlive() {
	if !s.proven {
		*s = observedClaim{}
		return
	}
	s.at = s.over
}

// look notes a read of the partition document that shows another owner's claim.
func (s *observedClaim) look(now Instant, seen claim.Document) {
	if s.claim != seen.Claim || *s == (observedClaim{}) {
		*s = observedClaim{claim: seen.Claim, at: now}
	}
	if over := now - seen.Waited; seen.Waited > 0 && (!s.proven || over < s.over) {
		s.over, s.proven = over, true
	}
}

// prove notes a commit of ours that is known to be accepted.
func (s *observedClaim) prove(sentAt Instant) {
	if s.claim == (claim.Token{}) || sentAt < s.at { // without a document, another claim may have come and gone
		return
	}
	s.over, s.proven = s.since(), true
}

// passOn writes down how long the claim has been waited for, so that the next owner need not begin anew.
func (w *Worker) passOn(m Moment) {
	s := &w.past.observedClaim
	s.prove(m.Renewed)
	switch {
	case m.Now >= w.term.until || s.claim == (claim.Token{}) || s.claim != w.term.seen.Claim || !m.Held:
	case !s.proven && !w.term.proving && w.term.quiesced:
		w.term.proving = true
		w.do(CommitNow{})
	case s.proven && m.Now-s.over >= w.term.noted+noteInterval:
		w.term.noted = m.Now - s.over
		w.start(&w.busy.claim, NoteWaited{Claim: s.claim, Waited: w.term.noted})
	}
}

// handle goes on after a wait was written down. If that failed, the only harm is that others wait longer.
func (e WaitedNoted) handle(w *Worker, m Moment) {
	w.busy.claim = false
	if errors.Is(e.Err, claim.ErrOtherOwner) {
		w.phase = reading
		return
	}
	if e.Err != nil {
		w.term.noted -= noteInterval
		w.retry.claim.fail(m.Now, w.o.Random)
		return
	}
	w.retry.claim.succeed()
}
