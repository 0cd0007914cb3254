package pipeline

import (
	"testing"

	"waterwheel/claim"
	"waterwheel/record"
)

var (
	thisTopic  = [16]byte{1}
	otherTopic = [16]byte{2}
	ours       = claim.Provenance{ClusterID: "cluster", TopicID: thisTopic, Namespace: "db.events"}
)

// TestOnlyWhatAnotherProgramCommittedIsMarkedAsThat: beside another program every commit is told as a consumer's.
func TestOnlyWhatAnotherProgramCommittedIsMarkedAsThat(t *testing.T) {
	for name, test := range map[string]struct {
		committed int64
		metadata  string
		from      Commit
	}{
		"ours":              {committed: 60, metadata: ours.String(), from: Commit{Offset: 60, Metadata: ours.String()}},
		"none":              {committed: -1, from: Commit{Offset: 44, Metadata: ours.String()}},
		"another program's": {committed: 60, from: Commit{Offset: 44, Metadata: claim.ConsumedMetadata}},
		"marked already":    {committed: 44, metadata: claim.ConsumedMetadata, from: Commit{Offset: 44, Metadata: claim.ConsumedMetadata}},
	} {
		t.Run(name, func(t *testing.T) {
			w, m := newTestWorker(t)
			w.Handle(m, Abandoned{})
			w.Handle(m, Assigned{TopicID: thisTopic, Committed: test.committed, Metadata: test.metadata, Consumed: true})
			seen := claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{1}, Released: true, Start: 44}
			w.Handle(m, ClaimRead{Seen: seen, Bounds: record.Bounds{End: 1000}})
			got, ok := w.Want()
			want := test.from
			want.Topic, want.Partition = got.Topic, got.Partition
			if provenance := w.provenance().String(); want.Metadata == ours.String() {
				want.Metadata = provenance
			}
			if !ok || got != want {
				t.Errorf("commits %+v, %v, want %+v", got, ok, want)
			}
		})
	}
}
