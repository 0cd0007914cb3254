package pipeline

import (
	"errors"
	"time"

	"waterwheel/internal/claim"
)

// noteInterval is the least time between two notes of how long a claim has been waited for.
const noteInterval = 2 * time.Second

// observedClaim is another owner's claim in the partition document, with the moment from which the wait for its writes counts.
//
// The wait counts from any moment at which the generation of the claim was over. From then on no commit renews its lease.
// Nothing is written under the claim in a later generation, because every term claims anew. A read that shows the claim proves
// such a moment once a later commit of ours is known to be accepted (Moment.Renewed). Then no other member has been assigned
// the partition since we were, so the claim is older than our generation. A proven moment stays valid, whoever owns the
// partition later. It may be passed on as the time that has passed since. Thus clocks of two machines are not compared, and a
// clock that stood still only makes that time shorter. Versions that do not know the note wait in full.
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
func (w *Worker) passOn(m Moment, actions []Action) []Action {
	s := &w.past.observedClaim
	s.prove(m.Renewed)
	switch {
	case m.Now >= w.term.until || s.claim == (claim.Token{}) || s.claim != w.term.seen.Claim || !m.Held:
	case !s.proven && !w.term.proving && w.term.quiesced:
		w.term.proving = true
		return append(actions, CommitNow{})
	case s.proven && m.Now-s.over >= w.term.noted+noteInterval:
		w.term.noted = m.Now - s.over
		w.busy.claim = true
		return append(actions, NoteWaited{Claim: s.claim, Waited: w.term.noted})
	}
	return actions
}

// waitedNoted goes on after a wait was written down. If that failed, the only harm is that others wait longer.
func (w *Worker) waitedNoted(m Moment, e WaitedNoted) {
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
