package claim_test

import (
	"errors"
	"strings"
	"testing"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

var (
	thisTopic  = [16]byte{1}
	otherTopic = [16]byte{2}
	ours       = claim.Provenance{ClusterID: "cluster", TopicID: thisTopic, Namespace: "db.events"}
)

func with(change func(*claim.Provenance)) string {
	p := ours
	change(&p)
	return p.String()
}

func TestStartIsResolvedAgainstTheLog(t *testing.T) {
	document := func(topic [16]byte, start int64) claim.Document {
		return claim.Document{Found: true, TopicID: topic, Start: start}
	}
	tests := map[string]struct {
		committed int64
		metadata  string
		consumed  bool
		document  claim.Document
		first     int32
		policy    claim.OutOfRange
		want      claim.Start
		stopped   string // reason of the StopError. Empty means no error.
	}{
		"a commit of ours":                                       {committed: 50, metadata: ours.String(), want: claim.Start{Offset: 50}},
		"an operator's reset has no metadata":                    {committed: 20, want: claim.Start{Offset: 20}},
		"metadata of something else":                             {committed: 20, metadata: "ww1;x", want: claim.Start{Offset: 20}},
		"another consumer's, before this pipeline's first claim": {committed: 60, consumed: true, want: claim.Start{Offset: 60}},
		"another consumer's, after a claim":                      {committed: 60, consumed: true, document: document(thisTopic, 44), want: claim.Start{Offset: 44}},
		"another consumer's, before the claim's start":           {committed: 40, consumed: true, document: document(thisTopic, 44), want: claim.Start{Offset: 40}},
		"another consumer's, of a topic created again":           {committed: 60, consumed: true, document: document(otherTopic, 44), want: claim.Start{Offset: 10}},
		"another consumer's, the document was deleted":           {committed: 60, consumed: true, document: claim.Document{HasBuckets: true}, want: claim.Start{Offset: 10}},
		"another consumer's, marked by us before a claim":        {committed: 60, metadata: claim.ConsumedMetadata, document: document(thisTopic, 44), want: claim.Start{Offset: 44}},
		"ours, though with an epoch":                             {committed: 50, metadata: ours.String(), consumed: true, document: document(thisTopic, 44), want: claim.Start{Offset: 50}},
		"a mirror's copy":                                        {committed: 33, metadata: with(func(p *claim.Provenance) { p.ClusterID = "far"; p.Namespace = "x.y" }), want: claim.Start{Offset: 33}},
		"of a topic deleted since":                               {committed: 50, metadata: with(func(p *claim.Provenance) { p.TopicID = otherTopic }), want: claim.Start{Offset: 10}},
		"of another collection":                                  {committed: 50, metadata: with(func(p *claim.Provenance) { p.Namespace = "db.other" }), stopped: "other_collection"},
		"of another collection and a topic deleted since":        {committed: 50, metadata: with(func(p *claim.Provenance) { p.Namespace = "db.other"; p.TopicID = otherTopic }), stopped: "other_collection"},
		"offsets expired: the document's start":                  {committed: -1, document: document(thisTopic, 44), want: claim.Start{Offset: 44}},
		"a document of a topic deleted since":                    {committed: -1, document: document(otherTopic, 44), want: claim.Start{Offset: 10}},
		"a new group begins where configured":                    {committed: -1, first: 4, want: claim.Start{Offset: 90}},
		"a partition added later begins at first":                {committed: -1, first: 3, want: claim.Start{Offset: 10}},
		"behind the log start":                                   {committed: 4, want: claim.Start{Offset: 10, Lost: 6}},
		"at the log end":                                         {committed: 100, want: claim.Start{Offset: 100}},
		"beyond an open transaction":                             {committed: 105, want: claim.Start{Offset: 105}},
		"beyond the log end":                                     {committed: 106, policy: claim.StopOutOfRange, stopped: "offset_out_of_range"},
		"beyond the log end, earliest":                           {committed: 106, policy: claim.EarliestOutOfRange, want: claim.Start{Offset: 10, Beyond: 6}},
		"beyond the log end, latest":                             {committed: 106, policy: claim.LatestOutOfRange, want: claim.Start{Offset: 100, Beyond: 6}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := claim.Facts{
				Partition: 3, Pipeline: ours, Document: test.document, FirstPartitions: test.first, OutOfRange: test.policy,
				Committed: claim.Committed{Offset: test.committed, Metadata: test.metadata, Consumed: test.consumed},
				Bounds:    record.Bounds{First: 10, End: 100, High: 105, Start: 90},
			}.Start()
			if test.stopped != "" {
				var stop *record.StopError
				if !errors.As(err, &stop) || stop.Reason != test.stopped || !strings.ContainsAny(stop.Detail, ";:") {
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

// TestStartMayLieBehindTheEnd checks this because the end is asked for first. KAFKA_START may mean a record that arrives
// afterwards.
func TestStartMayLieBehindTheEnd(t *testing.T) {
	got, err := claim.Facts{
		Pipeline: ours, Committed: claim.Committed{Offset: -1}, FirstPartitions: 1, Bounds: record.Bounds{End: 100, Start: 101},
	}.Start()
	if err != nil || got != (claim.Start{Offset: 101}) {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestProvenanceComesBackFromMetadata(t *testing.T) {
	got, ok := claim.ParseProvenance(ours.String())
	if !ok || got != ours {
		t.Fatalf("got %+v, %v from %q", got, ok, ours)
	}
	for _, foreign := range []string{"", "ww1", "ww2;c;00;x", "ww1;c;zz;x", "ww1;c;0102;x", "some tool's note"} {
		if got, ok := claim.ParseProvenance(foreign); ok {
			t.Errorf("%q was taken as ours: %+v", foreign, got)
		}
	}
}
