package pipeline

import (
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
	waiting               // waits until nobody else's write can come any more
	proving               // commits the start: a fresh proof of membership
	claiming              // sends the claim
	loading               // reads D
	running               // reads and writes
	stopped               // cannot go on until an operator acts
)

// String is the phase's word on the status page.
func (p phase) String() string {
	return [...]string{"idle", "finding topic", "reading claim", "waiting", "proving", "claiming", "loading", "running", "stopped"}[p]
}

// term is what belongs to one assignment.
type term struct {
	revoked  bool // it is to end in order
	shutdown bool // that is the process' last hand-over
	// restart, when set, begins the term anew as soon as nothing is under way.
	restart *Assigned

	asked     Instant // when the partition document was read last
	seen      claim.Document
	committed claim.Committed // what the group had committed then
	known     bool            // that was read
	end       int64           // of the log then
	start     claim.Start
	resolved  bool
	lost      []claim.Lost // the noted offsets of records that retention deleted
	beyond    int64        // by how much the offset to go on at was beyond the log's end. Zero means that it was not, or that was told.
	// quiesced means that no former owner can have committed anything since the document was read; at the latest at quiesces.
	quiesced bool
	quiesces Instant
	until    Instant
	told     bool          // the wait for the claim seen was logged
	watch    Instant       // when to look at the claim again
	noted    time.Duration // how long the claim seen was waited for, as far as that is written down
	proving  bool          // a commit was asked for that proves the sight of it
	provedBy Instant       // a commit sent after this is the proof
	sent     claim.Token   // the claim sent and not answered
	claimed  bool          // the claim in the document is ours
	foreign  bool          // the release found another claim there

	segments segments // what the partition has in segments

	handing handing
	dry     bool // nothing more can be flushed in this term
}

// handing is how far the hand-over is.
type handing uint8

const (
	notHanding handing = iota
	committing         // the final commit
	releasing          // the claim
	released
)

// mayRead reports whether the term reads on. It does not once it is revoked, stopped, or to begin anew; records already read are still
// stored.
func (w *Worker) mayRead() bool {
	return !w.term.revoked && w.halt == nil && w.term.restart == nil
}

// stop ends the partition's work until an operator acts. The first reason stays: a later one comes again.
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
		w.giveUp(MongoDB, DeadLetters)
	}
}

// leave ends the term in order.
func (w *Worker) leave(actions []Action) []Action {
	w.past.unreleased = w.claimStands()
	w.phase, w.term = idle, term{}
	return append(actions, HandedOver{})
}

// abandon ends the term without a hand-over.
func (w *Worker) abandon(m Moment) {
	w.tellUnfinished(m.Now)
	if w.flush != nil && w.flush.unresolved() || w.busy.compact {
		w.past.unknownUntil = m.Now + w.o.Grace
		w.metrics.abandons.WithLabelValues().Inc()
	}
	if w.flush != nil || len(w.lookups) > 0 || w.term.restart != nil {
		w.drop() // cut or asked for, but never sent, or not to be trusted: the records are read again
	}
	w.letters.recall()
	w.past.unreleased = w.claimStands()
	w.phase, w.term, w.busy = idle, term{}, busy{}
}

// claimStands reports whether the document shows a claim of ours that is not released, as far as is known.
func (w *Worker) claimStands() bool {
	switch seen := w.term.seen; {
	case w.term.claimed:
		return w.term.handing != released
	case seen.Found:
		return seen.Claim == w.past.mine && !seen.Released
	}
	return w.past.unreleased
}
