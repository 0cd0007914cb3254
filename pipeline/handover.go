package pipeline

import (
	"errors"

	"waterwheel/internal/claim"
)

// revoke ends the reading; the hand-over follows.
func (w *Worker) revoke(e Revoked) {
	w.term.revoked, w.term.shutdown = true, e.Shutdown
}

// advanceHandOver takes the last steps of a revoked term: the final commit and the release. They begin once everything that was
// read is stored and all letters are acknowledged.
func (w *Worker) advanceHandOver(m Moment, actions []Action) []Action {
	if !w.term.revoked || !w.drained() || w.compacting(m.Now) || w.busy.claim || !w.retry.claim.ready(m.Now) {
		return actions
	}
	switch w.term.handing {
	case notHanding:
		w.retry.claim.succeed()
		if w.term.handing = committing; w.committed != w.committable() {
			return append(actions, CommitNow{})
		}
		w.term.handing = releasing
		return w.advanceHandOver(m, actions)
	case releasing:
		if m.Now <= w.past.unknownUntil {
			return w.handOver(actions) // no release while a write of ours is unknown
		}
		if m.Held { // E7
			w.busy.claim = true
			return append(actions, SendRelease{})
		}
	case released:
		return w.handOver(actions)
	}
	return actions
}

// withdraw ends a term that has not written anything. If its claim is already won, the claim is released.
func (w *Worker) withdraw(m Moment, actions []Action) []Action {
	if !w.term.claimed || w.term.handing == released || m.Now <= w.past.unknownUntil {
		return w.leave(actions)
	}
	if w.term.handing == notHanding {
		w.term.handing = releasing
		w.retry.claim.succeed()
	}
	if !m.Held || !w.retry.claim.ready(m.Now) { // E7
		return actions
	}
	w.busy.claim = true
	return append(actions, SendRelease{})
}

// drained reports whether no work is left. Some measurements stay behind the commit and are read again. They are parked, or
// their series backs off, or they wait for letters in a stopped partition. The same holds for letters that the dead-letter
// topic refuses.
func (w *Worker) drained() bool {
	pending, _ := w.catalog.Pending()
	return w.quiet() && (pending == 0 || w.term.dry) && (w.letters.empty() || w.letters.refused) &&
		(len(w.rejected) == 0 || w.halt != nil)
}

// handOverCommitted goes on to the release after the final commit.
func (w *Worker) handOverCommitted(e Committed) {
	if w.term.handing == committing && e.Offset == w.committable() {
		w.term.handing = releasing
	}
}

// released ends the term after the release was answered.
func (w *Worker) released(m Moment, e Released) {
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
func (w *Worker) handOver(actions []Action) []Action {
	if w.catalog != nil {
		if _, open := w.catalog.Oldest(); open || w.lookups != nil || w.letters.refused || w.term.foreign {
			w.drop()
		}
	}
	return w.leave(actions)
}
