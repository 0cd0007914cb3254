package pipeline

import (
	"errors"
	"time"

	"waterwheel/internal/claim"
)

// noteInterval is how much time must pass before it is written down again how long a claim has been waited for.
const noteInterval = 2 * time.Second

// observedClaim is another owner's claim in the partition document, and since when the wait for its writes counts.
//
// The wait counts from any moment at which the generation of the claim was over: no commit renews its lease from then on,
// and nothing is written under it in another generation, because every term claims anew. A sight proves that once a
// commit of ours, sent after it, is proven to be taken (Moment.Renewed): then no other member has been assigned the partition since we were, so the
// claim is older than our generation. A proven sight holds for ever, whoever owns the partition meanwhile, and may be passed
// on, as a time that has passed: clocks of two machines are not compared, and a clock that stood still makes it shorter. Versions
// that do not know the note wait in full.
//
// A process that starts again on the same machine under its static id waits as well. A lock on a file could tell it that the
// former process is dead, so that its lease does not matter. But the wait is also for commands that the former process handed to
// the network and that MongoDB may still execute. Only a durable log of what was sent and answered could name those: a write
// and an fsync in each flush, to save 14 s after a crash.
type observedClaim struct {
	claim claim.Token // Zero means that there was no document.
	at    Instant     // the first read that showed it, in this term and those before in which we kept the partition
	// over is a moment at which its generation was over for certain; only if proven.
	over   Instant
	proven bool
}

// since is from when on our own wait counts. Our claim proves it, as it is sent under a lease that is shorter than the wait.
func (s *observedClaim) since() Instant {
	if s.proven {
		return min(s.at, s.over)
	}
	return s.at
}

// outlive forgets a claim that a term has seen and not proven: another process may have owned the partition since.
func (s *observedClaim) outlive() {
	if !s.proven {
		*s = observedClaim{}
		return
	}
	s.at = s.over
}

// look takes a read of the partition document that shows another owner's claim.
func (s *observedClaim) look(now Instant, seen claim.Document) {
	if s.claim != seen.Claim || *s == (observedClaim{}) {
		*s = observedClaim{claim: seen.Claim, at: now}
	}
	if over := now - seen.Waited; seen.Waited > 0 && (!s.proven || over < s.over) {
		s.over, s.proven = over, true
	}
}

// prove takes a commit of ours that is proven to be taken.
func (s *observedClaim) prove(sentAt Instant) {
	if s.claim == (claim.Token{}) || sentAt < s.at { // no document is no claim: another may have come and gone
		return
	}
	s.over, s.proven = s.since(), true
}

// passOn writes down how long the claim has been waited for: whoever is assigned the partition next need not begin anew.
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

// waitedNoted goes on after a wait was written down. If that failed, others wait longer: that is all.
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
