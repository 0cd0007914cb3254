package pipeline

import (
	"errors"
	"time"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

// phase is where a term stands.
type phase uint8

const (
	idle     phase = iota // no term
	finding               // asks for the topic's id
	reading               // reads the partition document
	waiting               // waits until no write of another owner can arrive any more
	proving               // commits the start, as a fresh proof of membership
	claiming              // sends the claim
	loading               // reads the stored positions
	running               // reads and writes
	stopped               // cannot go on until an operator acts
)

// String is the phase's name on the status page.
func (p phase) String() string {
	return [...]string{"idle", "finding topic", "reading claim", "waiting", "confirming membership", "claiming", "loading stored positions", "running", "stopped"}[p]
}

// term is the state of one assignment.
type term struct {
	revoked  bool // the term must end in order
	shutdown bool // the process ends after this hand-over
	// restart, when not nil, begins the term anew as soon as nothing is under way.
	restart *Assigned

	asked     Instant // when the partition document was read last
	seen      claim.Document
	committed claim.Committed // what the group had committed at that read
	known     bool            // committed was read
	end       int64           // of the log, at that read
	start     claim.Start
	resolved  bool
	lost      []claim.Lost // the noted offsets of records that retention deleted
	// beyond is by how much the committed offset was beyond the log's end. Zero means that it was not, or that this was logged.
	beyond int64
	// quiesced means that no former owner can have committed anything since the document was read. That holds from the instant
	// quiesces at the latest.
	quiesced bool
	quiesces Instant
	until    Instant
	told     bool          // the wait for the seen claim was logged
	watch    Instant       // when to look at the claim again
	noted    time.Duration // how long the seen claim was waited for, as last written down
	proving  bool          // a commit was asked for, to prove what was seen
	provedBy Instant       // a commit sent at or after this instant is the proof
	sent     claim.Token   // the claim that was sent last
	claimed  bool          // the claim in the document is ours
	foreign  bool          // the release found another claim there

	segments segments // of the partition

	handing handing
	dry     bool // this term can flush nothing more
}

// handing is how far the hand-over has come.
type handing uint8

const (
	notHanding handing = iota
	committing         // the final commit
	releasing          // the claim
	released
)

// mayRead reports whether the term still reads. A term that is revoked, stopped or about to begin anew does not. Records that
// were already read are still stored.
func (w *Worker) mayRead() bool {
	return !w.term.revoked && w.halt == nil && w.term.restart == nil
}

// stop ends the partition's work until an operator acts. It keeps the first reason; a later reason will come up again.
func (w *Worker) stop(err *record.StopError) {
	if w.halt == nil || w.halt.Reason != err.Reason { // Records already read are still stored, and may meet the same error again and again.
		w.log.Error("partition stopped", "reason", err.Reason, "err", err.Detail)
	}
	if w.halt == nil {
		w.halt = err
	}
	w.giveUp(Kafka, Registry) // nothing is fetched any more
	if w.phase != running {
		w.phase = stopped
		w.giveUp(MongoDB, Coordinator, DeadLetterTopic)
	}
}

// leave ends the term in order.
func (w *Worker) leave() {
	w.past.unreleased = w.claimStands()
	w.phase, w.term = idle, term{}
	w.do(HandedOver{})
}

// handle ends the term without a hand-over.
func (Abandoned) handle(w *Worker, m Moment) {
	w.tellUnfinished(m.Now)
	if w.flush != nil && w.flush.unresolved() || w.busy.compact {
		w.past.unknownUntil = m.Now + w.o.WriteGrace
		w.metrics.counter(w.metrics.abandons).Inc()
	}
	if w.flush != nil || len(w.lookups) > 0 || w.term.restart != nil {
		w.drop() // The cut writes and look-ups were never sent, or the state cannot be trusted: the records are read again.
	}
	w.deadLetters.recall()
	w.past.unreleased = w.claimStands()
	w.phase, w.term, w.busy = idle, term{}, busy{}
}

// claimStands reports whether, as far as is known, the document shows a claim of ours that is not released.
func (w *Worker) claimStands() bool {
	switch seen := w.term.seen; {
	case w.term.claimed:
		return w.term.handing != released
	case seen.Found:
		return seen.Claim == w.past.mine && !seen.Released
	}
	return w.past.unreleased
}

// A restart begins the term anew from another offset or under another topic id. It waits until no answer is due that belongs to
// the present state. Whenever the position moves to a smaller offset, everything in memory is about other records. Until the
// restart nothing more is read or cut (mayRead, cut), and only sent writes are resolved. The commits renew the lease that this
// takes (Want).

// restart asks for the term to begin anew with the assignment a.
func (w *Worker) restart(a Assigned) {
	a.Consecutive = true // no other owner is known
	w.term.restart = &a
}

// from returns an assignment of this partition that assumes that we have committed offset.
func (w *Worker) from(offset int64) Assigned {
	return Assigned{TopicID: w.source.TopicID, From: &claim.Committed{Offset: offset, Metadata: w.provenance().String()}}
}

// again returns the present assignment, which starts from what the group has committed.
func (w *Worker) again() Assigned {
	return Assigned{TopicID: w.source.TopicID, Beside: w.assigned.Beside}
}

// createdAgain returns an assignment of the topic that replaced ours. Any committed offset belongs to the former topic, whoever
// committed it. Without that offset the topic would look like one that nobody has read, and KAFKA_START would decide.
func (w *Worker) createdAgain(topicID [16]byte) Assigned {
	a := w.again()
	a.TopicID = topicID
	switch former := w.term.committed; {
	case w.committed >= 0:
		a.From = &claim.Committed{Offset: w.committed, Metadata: w.provenance().String()}
	case w.term.known && former.Offset >= 0 && !former.Consumed:
		a.From = &claim.Committed{Offset: former.Offset, Metadata: w.provenance().String()}
	case w.term.known:
		a.From = &claim.Committed{Offset: -1}
	}
	return a
}

// claimAgain gives the flush up, because another owner was found. Only a new claim tells who owns the partition (E7).
func (w *Worker) claimAgain() {
	w.log.Warn("another consumer has claimed the partition: this consumer claims it again")
	w.metrics.claim("lost")
	w.flush = nil
	w.restart(w.again())
}

// advanceRestart begins the term anew, if a restart was asked for and nothing is under way.
func (w *Worker) advanceRestart(m Moment) {
	if w.term.restart == nil || !w.quiet() {
		return
	}
	w.drop()
	if w.term.revoked {
		w.leave()
	} else {
		w.assign(m, *w.term.restart)
	}
}

// handle ends the reading; the hand-over follows.
func (e Revoked) handle(w *Worker, _ Moment) {
	w.term.revoked, w.term.shutdown = true, e.Shutdown
}

// advanceHandOver takes the last steps of a revoked term: the final commit and the release. They begin once everything that was
// read is stored and all letters are acknowledged.
func (w *Worker) advanceHandOver(m Moment) {
	if !w.term.revoked || !w.drained() || w.compacting(m.Now) || w.busy.claim || !w.retry.claim.ready(m.Now) {
		return
	}
	switch w.term.handing {
	case notHanding:
		w.retry.claim.succeed()
		if w.term.handing = committing; w.committed != w.committable() {
			w.do(CommitNow{})
			return
		}
		w.term.handing = releasing
		w.advanceHandOver(m)
	case releasing:
		if m.Now <= w.past.unknownUntil {
			w.handOver() // no release while a write of ours is unknown
		} else if m.Held { // E7
			w.start(&w.busy.claim, SendRelease{})
		}
	case released:
		w.handOver()
	}
}

// withdraw ends a term that has not written anything. If its claim is already won, the claim is released.
func (w *Worker) withdraw(m Moment) {
	if !w.term.claimed || w.term.handing == released || m.Now <= w.past.unknownUntil {
		w.leave()
		return
	}
	if w.term.handing == notHanding {
		w.term.handing = releasing
		w.retry.claim.succeed()
	}
	if m.Held && w.retry.claim.ready(m.Now) { // E7
		w.start(&w.busy.claim, SendRelease{})
	}
}

// drained reports whether no work is left. Some measurements stay behind the commit and are read again. They await a look-up, or
// their series backs off, or they wait for letters in a stopped partition. The same holds for letters that the dead-letter
// topic refuses.
func (w *Worker) drained() bool {
	pending, _ := w.catalog.Pending()
	return w.quiet() && (pending == 0 || w.term.dry) && (w.deadLetters.empty() || w.deadLetters.refused) &&
		(len(w.rejected) == 0 || w.halt != nil)
}

// handOverCommitted goes on to the release after the final commit.
func (w *Worker) handOverCommitted(e Committed) {
	if w.term.handing == committing && e.Offset == w.committable() {
		w.term.handing = releasing
	}
}

// handle ends the term after the release was answered.
func (e Released) handle(w *Worker, m Moment) {
	w.busy.claim = false
	switch {
	case errors.Is(e.Err, claim.ErrOtherOwner):
		w.term.foreign = true
	case e.Err != nil:
		w.failed(m, &w.retry.claim, MongoDB, releasingTheClaim, e.Err)
		return
	}
	w.term.handing = released
}

// handOver ends the term. The catalog stays in case the next generation brings the partition back and no other process owned it
// in between. A catalog with measurements that are not stored is dropped.
func (w *Worker) handOver() {
	if w.catalog != nil {
		if _, open := w.catalog.Oldest(); open || w.lookups != nil || w.deadLetters.refused || w.term.foreign {
			w.drop()
		}
	}
	w.leave()
}
