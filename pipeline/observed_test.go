package pipeline

import (
	"testing"
	"time"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

// crashed returns a partition document with the claim of an owner that did not release it.
func crashed(waited time.Duration) ClaimRead {
	return ClaimRead{
		Seen:   claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{1}, Wait: 30 * time.Second, Lease: 28 * time.Second, Waited: waited},
		Bounds: record.Bounds{End: 1000},
	}
}

// reassigned starts a term after a term of another owner.
func reassigned(w *Worker, m Moment) {
	w.Handle(m, Abandoned{})
	w.Handle(m, Assigned{TopicID: thisTopic})
}

// TestWaitGoesOnFromMemberToMember has rebalances more often than a wait lasts, each of which assigns another member.
func TestWaitGoesOnFromMemberToMember(t *testing.T) {
	a, m := newTestWorker(t)
	b, _ := newTestWorker(t)
	began, waited := m.Now, time.Duration(0)
	for term := range 6 {
		w := []*Worker{a, b}[term%2]
		reassigned(w, m)
		actions := w.Handle(m, crashed(waited))
		for end := m.Now + 9*time.Second; m.Now < end; actions = w.Handle(m, Ticked{}) {
			for len(actions) > 0 {
				action := actions[0]
				actions = actions[1:]
				switch action := action.(type) {
				case WatchClaim:
					actions = w.Handle(m, ClaimWatched{Seen: crashed(waited).Seen})
				case ReadClaim:
					actions = w.Handle(m, crashed(waited))
				case NoteWaited:
					if waited = action.Waited; action.Claim != (claim.Token{1}) || waited > m.Now-began {
						t.Fatalf("%v is written down for claim %v after %v", waited, action.Claim, m.Now-began)
					}
					w.Handle(m, WaitedNoted{})
				case CommitNow: // the proof before the claim
					if m.Now-began >= 30*time.Second {
						return
					}
					if m.Now-began < 28*time.Second { // until the former owner cannot commit any more
						t.Fatalf("commits after %v", m.Now-began)
					}
				}
			}
			m.Now += time.Second
			m.Renewed = m.Now // by a commit of another partition
		}
	}
	t.Fatalf("nothing moves for %v", m.Now-began)
}

func TestOnlyAProvenSightIsCarriedOn(t *testing.T) {
	for name, test := range map[string]struct {
		proven time.Duration // send time of the last commit that is proven to be accepted after the sight
		left   time.Duration // rest of the wait, five seconds later in another term
	}{
		"a commit sent later":          {proven: time.Second, left: 25 * time.Second},
		"a commit sent before":         {proven: -1, left: 30 * time.Second},
		"a commit sent at that moment": {proven: 0, left: 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w, m := newTestWorker(t)
			reassigned(w, m)
			w.Handle(m, crashed(0))
			seen := m.Now
			m.Now += 2 * time.Second
			m.Renewed = seen + test.proven
			w.Handle(m, Committed{Offset: 0, SentAt: m.Now})
			m.Now = seen + 5*time.Second
			reassigned(w, m)
			w.Handle(m, crashed(0))
			if left := w.Status(m.Now).ClaimWait; left != test.left {
				t.Errorf("%v are left, want %v", left, test.left)
			}
		})
	}
}

func TestWaitForAnotherClaimBeginsAnew(t *testing.T) {
	w, m := newTestWorker(t)
	reassigned(w, m)
	w.Handle(m, crashed(20*time.Second))
	if left := w.Status(m.Now).ClaimWait; left != 10*time.Second {
		t.Errorf("%v are left", left)
	}
	m.Now += 20 * time.Second
	reassigned(w, m)
	another := crashed(0)
	another.Seen.Claim = claim.Token{2}
	w.Handle(m, another)
	if left := w.Status(m.Now).ClaimWait; left != 30*time.Second {
		t.Errorf("%v are left of the wait for another claim", left)
	}
}

func TestClaimThatChangedIsReadAgain(t *testing.T) {
	w, m := newTestWorker(t)
	reassigned(w, m)
	w.Handle(m, crashed(0))
	m.Renewed = m.Now
	w.Handle(m, Committed{Offset: 0, SentAt: m.Now})
	m.Now += noteInterval
	expect[WatchClaim](t, w.Handle(m, Ticked{}))
	expect[NoteWaited](t, w.Handle(m, ClaimWatched{Seen: crashed(0).Seen}))
	expect[ReadClaim](t, w.Handle(m, WaitedNoted{Err: claim.ErrOtherOwner}))
}
