package pipeline

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

// TestClaimIsSentAgainUntilItIsAcknowledged checks that the stored positions are not read after a claim that was only read back.
// A claim that was never acknowledged may be lost when the server crashes.
func TestClaimIsSentAgainUntilItIsAcknowledged(t *testing.T) {
	tokens := byte(0)
	w, m := newIdleWorker(t, func(o *Options) { o.NewToken = func() claim.Token { tokens++; return claim.Token{9, tokens} } })
	expect[Open](t, w.Handle(m, Assigned{TopicID: thisTopic}))
	expect[CommitNow](t, w.Handle(m, ClaimRead{Bounds: record.Bounds{End: 1000}}))
	first := expect[SendClaim](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
	w.Handle(m, Claimed{Err: errDown})
	failed := testutil.ToFloat64(w.metrics.counter(w.metrics.retries, "claiming the partition"))
	if lost := testutil.ToFloat64(w.metrics.counter(w.metrics.claims, "lost")); failed != 1 || lost != 0 {
		t.Errorf("counted %g failed attempts and %g lost claims", failed, lost)
	}
	m.Now += longestDelay
	expect[ReadClaim](t, w.Handle(m, Ticked{}))
	ours := claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: first.Claim.Token, Wait: w.o.Wait}
	again := expect[SendClaim](t, w.Handle(m, ClaimRead{Seen: ours, Bounds: record.Bounds{End: 1000}})) // without another wait
	if again.Seen != ours || again.Claim.Token == first.Claim.Token {
		t.Fatalf("%+v after %+v", again, first)
	}
	expect[LoadStoredPositions](t, w.Handle(m, Claimed{Won: true}))
}

// TestClaimThatIsNoneIsNotReplaced checks that a partition document edited by hand, which holds no claim, is not replaced.
func TestClaimThatIsNoneIsNotReplaced(t *testing.T) {
	w, m := newIdleWorker(t)
	w.Handle(m, Assigned{TopicID: thisTopic})
	absent[CommitNow](t, w.Handle(m, ClaimRead{Seen: claim.Document{Found: true, Group: "g", TopicID: thisTopic}, Bounds: record.Bounds{End: 1000}}))
	if failure := w.Status(m.Now).Failures[MongoDB]; failure == nil || !strings.Contains(failure.Cause, "delete the document") {
		t.Fatalf("failure: %v", failure)
	}
	m.Now += longestDelay
	expect[ReadClaim](t, w.Handle(m, Ticked{})) // until an operator deletes it
	expect[CommitNow](t, w.Handle(m, ClaimRead{Bounds: record.Bounds{End: 1000}}))
}

// TestRefusedClaimIsToldAtOnceAndThroughRebalances checks the status while another group's claim is read again. A lost membership
// does not restart the patience.
func TestRefusedClaimIsToldAtOnceAndThroughRebalances(t *testing.T) {
	w, m := newTestWorker(t)
	theirs := ClaimRead{Seen: claim.Document{Found: true, Group: "theirs", TopicID: thisTopic, Claim: claim.Token{7}}, Bounds: record.Bounds{End: 1000}}
	began := m.Now
	for m.Now-began < otherGroupPatience {
		w.Handle(m, Abandoned{})
		w.Handle(m, Assigned{TopicID: thisTopic})
		w.Handle(m, theirs)
		s := w.Status(m.Now)
		if s.Refused == nil || !strings.Contains(s.Refused.Detail, `"theirs"`) || s.Stopped != nil {
			t.Fatalf("refused %v, stopped %v", s.Refused, s.Stopped)
		}
		m.Now += otherGroupPatience / 3
	}
	w.Handle(m, Ticked{})
	w.Handle(m, theirs)
	if s := w.Status(m.Now); s.Stopped == nil || s.Stopped.Reason != "other_group" {
		t.Fatalf("stopped %v", s.Stopped)
	}
	w.Handle(m, Abandoned{})
	w.Handle(m, Assigned{TopicID: thisTopic})
	if s := w.Status(m.Now); s.Refused == nil {
		t.Error("it looks ready before it has looked again")
	}
	expect[CommitNow](t, w.Handle(m, ClaimRead{Bounds: record.Bounds{End: 1000}}))
	if s := w.Status(m.Now); s.Refused != nil {
		t.Errorf("still refused: %v", s.Refused)
	}
}

// TestClaimWonWhileThePartitionGoesElsewhereIsReleased checks the release. Without it the next owner would wait for writes that
// were never sent.
func TestClaimWonWhileThePartitionGoesElsewhereIsReleased(t *testing.T) {
	claimed := func(t *testing.T) (*Worker, Moment) {
		w, m := newIdleWorker(t)
		expect[Open](t, w.Handle(m, Assigned{TopicID: thisTopic}))
		expect[CommitNow](t, w.Handle(m, ClaimRead{}))
		expect[SendClaim](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
		return w, m
	}
	for name, revoke := range map[string]func(*Worker, Moment) []Action{
		"before the answer": func(w *Worker, m Moment) []Action {
			w.Handle(m, Revoked{})
			return w.Handle(m, Claimed{Won: true})
		},
		"while the positions are read": func(w *Worker, m Moment) []Action {
			w.Handle(m, Claimed{Won: true})
			w.Handle(m, Revoked{})
			return w.Handle(m, StoredPositionsLoaded{Err: errDown})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, m := claimed(t)
			expect[SendRelease](t, revoke(w, m))
			if actions := w.Handle(m, Released{Err: errDown}); len(actions) > 0 {
				t.Errorf("after a release that failed: %v", actions)
			}
			m.Now += time.Minute
			expect[SendRelease](t, w.Handle(m, Ticked{}))
			expect[HandedOver](t, w.Handle(m, Released{}))
			if w.Status(m.Now).Unreleased {
				t.Error("it is told as not released")
			}
		})
	}
	t.Run("without a lease", func(t *testing.T) {
		w, m := claimed(t)
		w.Handle(m, Revoked{})
		m.Held = false
		if actions := w.Handle(m, Claimed{Won: true}); len(actions) > 0 {
			t.Errorf("%v", actions)
		}
		if w.Handle(m, Abandoned{}); !w.Status(m.Now).Unreleased {
			t.Error("it is not told that the claim stands")
		}
	})
}

// TestReleaseIsForgottenByNoLaterTerm checks that the status at the end of the process agrees with the document.
func TestReleaseIsForgottenByNoLaterTerm(t *testing.T) {
	w, m := newTestWorker(t)
	w.Handle(m, Abandoned{})
	if !w.Status(m.Now).Unreleased {
		t.Error("a term that was cut off is told as released")
	}
	former := w.past.mine
	document := func(c claim.Token, released bool) claim.Document {
		return claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: c, Released: released}
	}
	for _, seen := range []struct {
		document   claim.Document
		unreleased bool
	}{
		{document(former, false), true},
		{document(former, true), false},
		{document(claim.Token{99}, false), false},
	} {
		expect[Open](t, w.Handle(m, Assigned{TopicID: thisTopic}))
		w.Handle(m, ClaimRead{Seen: seen.document})
		w.Handle(m, Revoked{})
		w.Handle(m, Ticked{})
		if s := w.Status(m.Now); s.Phase != "idle" || s.Unreleased != seen.unreleased {
			t.Errorf("%s after %+v was seen, unreleased: %v", s.Phase, seen.document, s.Unreleased)
		}
	}
	expect[Open](t, w.Handle(m, Assigned{TopicID: thisTopic}))
	expect[CommitNow](t, w.Handle(m, ClaimRead{}))
	expect[SendClaim](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
	w.Handle(m, Revoked{})
	expect[SendRelease](t, w.Handle(m, Claimed{Won: true}))
	w.Handle(m, Released{})
	if s := w.Status(m.Now); s.Phase != "idle" || s.Unreleased {
		t.Errorf("%s after a release, unreleased: %v", s.Phase, s.Unreleased)
	}
}

// TestNothingIsCommittedAfterALostClaim checks this because a commit would reset the commits of the new owner.
func TestNothingIsCommittedAfterALostClaim(t *testing.T) {
	w, m := newIdleWorker(t)
	expect[Open](t, w.Handle(m, Assigned{TopicID: thisTopic}))
	expect[CommitNow](t, w.Handle(m, ClaimRead{}))
	expect[SendClaim](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
	if _, ok := w.Want(); !ok {
		t.Error("the start is not committed while the claim is on its way")
	}
	expect[ReadClaim](t, w.Handle(m, Claimed{}))
	if want, ok := w.Want(); ok {
		t.Errorf("%+v is to be committed", want)
	}
}
