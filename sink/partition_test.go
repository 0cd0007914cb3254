package sink_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

func TestClaimIsCompareAndSet(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	a, b := s.Partition(source, "cluster", "group", "a"), s.Partition(source, "cluster", "group", "b")
	defer a.Close()
	defer b.Close()

	none, err := a.Read(t.Context())
	if err != nil || none != (claim.Document{}) {
		t.Fatalf("no document: %+v, %v", none, err)
	}
	first := claim.Claim{Token: token(), Start: 42, Wait: 30 * time.Second, Lease: 9 * time.Second}
	if won, err := a.Claim(t.Context(), none, first); err != nil || !won {
		t.Fatalf("first claim: %v, %v", won, err)
	}
	if won, err := b.Claim(t.Context(), none, claim.Claim{Token: token()}); err != nil || won {
		t.Fatalf("a claim on a document that exists: %v, %v", won, err)
	}
	seen, err := b.Read(t.Context())
	want := claim.Document{Found: true, Group: "group", TopicID: source.TopicID, Claim: first.Token, Start: 42, Wait: 30 * time.Second, Lease: 9 * time.Second, Owner: "a"}
	if diff := cmp.Diff(want, seen); err != nil || diff != "" {
		t.Fatalf("%v\n%s", err, diff)
	}
	if won, err := b.Claim(t.Context(), seen, claim.Claim{Token: token(), Start: 50}); err != nil || !won {
		t.Fatalf("a claim on what was seen: %v, %v", won, err)
	}
	if won, err := a.Claim(t.Context(), seen, claim.Claim{Token: token()}); err != nil || won {
		t.Fatalf("a claim on what is not there any more: %v, %v", won, err)
	}
	if err := a.Release(t.Context()); !errors.Is(err, claim.ErrOtherOwner) {
		t.Fatalf("a release of another's claim: %v", err)
	}
	if err := b.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if seen, err = a.Read(t.Context()); err != nil || !seen.Released || seen.Start != 50 {
		t.Fatalf("after the release: %+v, %v", seen, err)
	}
}

// TestWaitIsWrittenDownForOneClaim checks that a noted wait belongs to the claim that was seen, and does not count for the next
// one.
func TestWaitIsWrittenDownForOneClaim(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	a, b := s.Partition(source, "cluster", "group", "a"), s.Partition(source, "cluster", "group", "b")
	defer a.Close()
	defer b.Close()
	first := claim.Claim{Token: token(), Wait: 30 * time.Second, Lease: 9 * time.Second}
	if won, err := a.Claim(t.Context(), claim.Document{}, first); err != nil || !won {
		t.Fatalf("first claim: %v, %v", won, err)
	}
	if err := b.NoteWaited(t.Context(), token(), time.Minute); !errors.Is(err, claim.ErrOtherOwner) {
		t.Fatalf("a wait for a claim that is not there: %v", err)
	}
	if err := b.NoteWaited(t.Context(), first.Token, 7500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	seen, err := b.Read(t.Context())
	if err != nil || seen.Waited != 7500*time.Millisecond || seen.Claim != first.Token || seen.Wait != first.Wait || seen.Lease != first.Lease {
		t.Fatalf("%+v, %v", seen, err)
	}
	if won, err := b.Claim(t.Context(), seen, claim.Claim{Token: token()}); err != nil || !won {
		t.Fatalf("a claim on what was seen: %v, %v", won, err)
	}
	if seen, err = a.Read(t.Context()); err != nil || seen.Waited != 0 {
		t.Fatalf("of another claim: %+v, %v", seen, err)
	}
}

// TestLostRecordsAreNoted checks that only the owner notes them, for each topic id, and that they outlive its claim.
func TestLostRecordsAreNoted(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	a, b := s.Partition(source, "cluster", "group", "a"), s.Partition(source, "cluster", "group", "b")
	defer a.Close()
	defer b.Close()
	if err := a.NoteLost(t.Context(), claim.Lost{From: 1, To: 2}); !errors.Is(err, claim.ErrOtherOwner) {
		t.Errorf("without a claim: %v", err)
	}
	if won, err := a.Claim(t.Context(), claim.Document{}, claim.Claim{Token: token()}); err != nil || !won {
		t.Fatalf("claim: %v, %v", won, err)
	}
	for _, lost := range []claim.Lost{{From: 100, To: 120}, {From: 9, To: 50}, {From: 100, To: 130}, {From: 9, To: 50}} {
		if err := a.NoteLost(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
	}
	seen, err := b.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if won, err := b.Claim(t.Context(), seen, claim.Claim{Token: token()}); err != nil || !won {
		t.Fatalf("the next claim: %v, %v", won, err)
	}
	if err := a.NoteLost(t.Context(), claim.Lost{From: 500, To: 501}); !errors.Is(err, claim.ErrOtherOwner) {
		t.Errorf("under a claim that is not there any more: %v", err)
	}
	other := source
	other.TopicID[0]++
	for of, want := range map[timeseries.Source][]claim.Lost{source: {{From: 9, To: 50}, {From: 100, To: 130}}, other: nil} {
		lost, err := sink.ContentsOf(e.Database, "events").Lost(t.Context(), "cluster", of)
		if diff := cmp.Diff(want, lost); err != nil || diff != "" {
			t.Errorf("of topic %x: %v (-want +got):\n%s", of.TopicID[0], err, diff)
		}
	}
}

func TestAnotherGroupsClaimIsNotReplaced(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	e.claimed(t, s)
	other := s.Partition(source, "cluster", "other", "host")
	defer other.Close()
	seen, err := other.Read(t.Context())
	if err != nil || seen.Group != "group" {
		t.Fatalf("%+v, %v", seen, err)
	}
	if won, err := other.Claim(t.Context(), seen, claim.Claim{Token: token()}); err != nil || won {
		t.Fatalf("won %v, %v", won, err)
	}
}

func TestReadFindsBucketsWithoutDocument(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	sendAll(t, p, bucketer.Applied, insertOf("a", run(0, 2)...))
	if _, err := e.Raw.Collection("events.partitions").DeleteMany(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	seen, err := p.Read(t.Context())
	if err != nil || seen.Found || !seen.HasBuckets {
		t.Fatalf("%+v, %v", seen, err)
	}
	if _, err := p.Resolve(t.Context(), nil); !errors.Is(err, claim.ErrOtherOwner) {
		t.Fatalf("a fence without a document: %v", err)
	}
}

func TestTopicIsNotedOnce(t *testing.T) {
	s := connect(t).setup(t)
	for i, c := range []struct {
		id         [16]byte
		partitions int32
		want       int32
	}{{source.TopicID, 4, 4}, {source.TopicID, 9, 4}, {[16]byte{1}, 9, 0}} {
		if got, err := s.Partition(timeseries.Source{Topic: "events", TopicID: c.id}, "cluster", "g", "host").FirstPartitions(t.Context(), c.partitions); err != nil || got != c.want {
			t.Errorf("case %d: %d, %v", i, got, err)
		}
	}
}
