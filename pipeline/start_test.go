package pipeline

import (
	"testing"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

var (
	thisTopic  = [16]byte{1}
	otherTopic = [16]byte{2}
	ours       = claim.Provenance{ClusterID: "cluster", TopicID: thisTopic, Namespace: "db.events"}
)

// TestOnlyWhatAnotherProgramCommittedIsMarkedAsThat checks this because every commit looks like a consumer's while another
// program commits too.
func TestOnlyWhatAnotherProgramCommittedIsMarkedAsThat(t *testing.T) {
	for name, test := range map[string]struct {
		committed int64
		metadata  string
		offset    int64
		as        string
	}{
		"ours":              {committed: 60, metadata: ours.String(), offset: 60, as: ours.String()},
		"none":              {committed: -1, offset: 44, as: ours.String()},
		"another program's": {committed: 60, offset: 44, as: claim.ConsumedMetadata},
		"marked already":    {committed: 44, metadata: claim.ConsumedMetadata, offset: 44, as: claim.ConsumedMetadata},
	} {
		t.Run(name, func(t *testing.T) {
			w, m := newTestWorker(t)
			w.Handle(m, Abandoned{})
			w.Handle(m, Assigned{TopicID: thisTopic, Beside: true})
			seen := claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{1}, Released: true, Start: 44}
			committed := claim.Committed{Offset: test.committed, Metadata: test.metadata}
			w.Handle(m, ClaimRead{Seen: seen, Committed: committed, Bounds: record.Bounds{End: 1000}})
			got, ok := w.Want()
			if test.as == ours.String() {
				test.as = w.provenance().String()
			}
			if !ok || got.Offset != test.offset || got.Metadata != test.as {
				t.Errorf("commits %+v, %v, want %d as %s", got, ok, test.offset, test.as)
			}
		})
	}
}

// TestStartStaysWhenItsDocumentIsDeleted has an operator who deletes the partition document during the wait for the claim. The
// worker remembers that the partition belonged to this pipeline.
func TestStartStaysWhenItsDocumentIsDeleted(t *testing.T) {
	w, m := newTestWorker(t)
	w.Handle(m, Abandoned{})
	w.Handle(m, Assigned{TopicID: thisTopic})
	committed := claim.Committed{Offset: 60, Consumed: true}
	seen := claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{1}, Released: true, Start: 44}
	w.Handle(m, ClaimRead{Seen: seen, Committed: committed, Bounds: record.Bounds{End: 1000}})
	w.Handle(m, Committed{Offset: 44, SentAt: m.Now})
	w.Handle(m, Claimed{}) // lost, so the document is read again
	w.Handle(m, ClaimRead{Committed: committed, Bounds: record.Bounds{End: 1000}})
	if got, ok := w.Want(); !ok || got.Offset != 44 {
		t.Errorf("commits %+v, %v, want 44", got, ok)
	}
}
