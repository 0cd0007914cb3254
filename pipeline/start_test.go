package pipeline

import (
	"strings"
	"testing"
)

var (
	thisTopic  = [16]byte{1}
	otherTopic = [16]byte{2}
	ours       = Provenance{ClusterID: "cluster", TopicID: thisTopic, Namespace: "db.events"}
)

func TestStartIsResolvedAgainstTheLog(t *testing.T) {
	bounds := Bounds{First: 10, End: 100, High: 105, Start: 90}
	document := func(topic [16]byte, start int64) Seen { return Seen{Found: true, TopicID: topic, Start: start} }
	with := func(change func(*Provenance)) string { p := ours; change(&p); return p.String() }
	tests := map[string]struct {
		committed int64
		metadata  string
		consumed  bool
		seen      Seen
		policy    OutOfRange
		want      start
		stopped   string // the reason
	}{
		"a commit of ours":                                       {committed: 50, metadata: ours.String(), want: start{offset: 50}},
		"an operator's reset has no metadata":                    {committed: 20, want: start{offset: 20}},
		"metadata of something else":                             {committed: 20, metadata: "ww1;x", want: start{offset: 20}},
		"another consumer's, before this pipeline's first claim": {committed: 60, consumed: true, want: start{offset: 60}},
		"another consumer's, after a claim":                      {committed: 60, consumed: true, seen: document(thisTopic, 44), want: start{offset: 44}},
		"another consumer's, before the claim's start":           {committed: 40, consumed: true, seen: document(thisTopic, 44), want: start{offset: 40}},
		"another consumer's, of a topic created again":           {committed: 60, consumed: true, seen: document(otherTopic, 44), want: start{offset: 10}},
		"another consumer's, the document was deleted":           {committed: 60, consumed: true, seen: Seen{HasBuckets: true}, want: start{offset: 10}},
		"ours, though with an epoch":                             {committed: 50, metadata: ours.String(), consumed: true, seen: document(thisTopic, 44), want: start{offset: 50}},
		"a mirror's copy":                                        {committed: 33, metadata: with(func(p *Provenance) { p.ClusterID = "far"; p.Namespace = "x.y" }), want: start{offset: 33}},
		"of a topic deleted since":                               {committed: 50, metadata: with(func(p *Provenance) { p.TopicID = otherTopic }), want: start{offset: 10}},
		"of another collection":                                  {committed: 50, metadata: with(func(p *Provenance) { p.Namespace = "db.other" }), stopped: "other_collection"},
		"offsets expired: the document's start":                  {committed: -1, seen: document(thisTopic, 44), want: start{offset: 44}},
		"a document of a topic deleted since":                    {committed: -1, seen: document(otherTopic, 44), want: start{offset: 10}},
		"a new group begins where configured":                    {committed: -1, seen: Seen{FirstPartitions: 4}, want: start{offset: 90}},
		"a partition added later begins at first":                {committed: -1, seen: Seen{FirstPartitions: 3}, want: start{offset: 10}},
		"behind the log start":                                   {committed: 4, want: start{offset: 10, lost: 6}},
		"at the log end":                                         {committed: 100, want: start{offset: 100}},
		"beyond an open transaction":                             {committed: 105, want: start{offset: 105}},
		"beyond the log end":                                     {committed: 106, policy: StopOutOfRange, stopped: "offset_out_of_range"},
		"beyond the log end, earliest":                           {committed: 106, policy: EarliestOutOfRange, want: start{offset: 10}},
		"beyond the log end, latest":                             {committed: 106, policy: LatestOutOfRange, want: start{offset: 100}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := resolveStart(startFacts{
				partition: 3, ours: ours, committed: test.committed, metadata: test.metadata, consumed: test.consumed, seen: test.seen, bounds: bounds,
				outOfRange: test.policy,
			})
			if test.stopped != "" {
				stop, ok := isStop(err)
				if !ok || stop.Reason != test.stopped || !strings.ContainsAny(stop.Detail, ";:") {
					t.Fatalf("got %v, %v, want a stop with reason %s and a way out", got, err, test.stopped)
				}
				return
			}
			if err != nil || got != test.want {
				t.Fatalf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

func TestProvenanceComesBackFromMetadata(t *testing.T) {
	got, ok := ParseProvenance(ours.String())
	if !ok || got != ours {
		t.Fatalf("got %+v, %v from %q", got, ok, ours)
	}
	for _, foreign := range []string{"", "ww1", "ww2;c;00;x", "ww1;c;zz;x", "ww1;c;0102;x", "some tool's note"} {
		if got, ok := ParseProvenance(foreign); ok {
			t.Errorf("%q was taken as ours: %+v", foreign, got)
		}
	}
}

// TestStartMayLieBehindTheEnd: the end is asked first, and a record that comes then may be the one that KAFKA_START means.
func TestStartMayLieBehindTheEnd(t *testing.T) {
	got, err := resolveStart(startFacts{ours: ours, committed: -1, seen: Seen{FirstPartitions: 1}, bounds: Bounds{End: 100, Start: 101}})
	if err != nil || got != (start{offset: 101}) {
		t.Fatalf("got %+v, %v", got, err)
	}
}

// TestOnlyWhatAnotherProgramCommittedIsMarkedAsThat: beside another program every commit is told as a consumer's.
func TestOnlyWhatAnotherProgramCommittedIsMarkedAsThat(t *testing.T) {
	for name, test := range map[string]struct {
		committed int64
		metadata  string
		from      Commit
	}{
		"ours":              {committed: 60, metadata: ours.String(), from: Commit{Offset: 60, Metadata: ours.String()}},
		"none":              {committed: -1, from: Commit{Offset: 44, Metadata: ours.String()}},
		"another program's": {committed: 60, from: Commit{Offset: 44, Metadata: consumedMetadata}},
		"marked already":    {committed: 44, metadata: consumedMetadata, from: Commit{Offset: 44, Metadata: consumedMetadata}},
	} {
		t.Run(name, func(t *testing.T) {
			w, m := newTestWorker(t)
			w.Handle(m, Abandoned{})
			w.Handle(m, Assigned{TopicID: thisTopic, Committed: test.committed, Metadata: test.metadata, Consumed: true})
			seen := Seen{Found: true, Group: "g", TopicID: thisTopic, Claim: Token{1}, Released: true, Start: 44}
			w.Handle(m, ClaimRead{Seen: seen, Bounds: Bounds{End: 1000}})
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
