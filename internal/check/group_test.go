package check

import (
	"context"
	"errors"
	"strings"
	"testing"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/internal/verify"
	"waterwheel/sink"
)

// book implements verify.Offsets. Partition 0 has the offset under test, and partition 1 an offset of ours.
type book []claim.Committed

func (o book) Committed(context.Context, string, []record.Partition) ([]claim.Committed, error) {
	return o, nil
}

func (o book) Bounds(context.Context, record.Partition) (first, end int64, err error) {
	return 10, 100, nil
}

func (o book) OffsetAt(context.Context, record.Partition, int64) (int64, error) { return 0, nil }

// TestRunCheckAndVerifyAgree checks that they agree about a commit. They are where run begins or why it stops, the finding of
// check, and the offset up to which verify expects everything to be stored.
func TestRunCheckAndVerifyAgree(t *testing.T) {
	ours := claim.Provenance{ClusterID: "c", TopicID: [16]byte{1}, Namespace: "db.events"}
	elsewhere, mirrored, deleted := ours, ours, ours
	elsewhere.Namespace, deleted.TopicID = "db.old", [16]byte{2}
	mirrored.ClusterID, mirrored.Namespace = "d", "db.old"
	both := elsewhere
	both.TopicID = deleted.TopicID
	document := claim.Document{Found: true, TopicID: ours.TopicID, Start: 30}
	for name, c := range map[string]struct {
		committed claim.Committed
		document  claim.Document
		policy    claim.OutOfRange
		state     State // state of the only finding. Empty means no finding.
		text      string
		lag       int64
		verified  int64 // offset up to which verify expects measurements. -1 means refused.
	}{
		"ours":                {claim.Committed{Offset: 50, Metadata: ours.String()}, document, "stop", "", "", 50, 50},
		"a reset":             {claim.Committed{Offset: 50}, document, "stop", "", "", 50, 50},
		"a mirror":            {claim.Committed{Offset: 50, Metadata: mirrored.String()}, document, "stop", "", "", 50, 50},
		"nothing":             {claim.Committed{Offset: -1}, document, "stop", "", "", 70, 0},
		"another program":     {claim.Committed{Offset: 50, Consumed: true}, claim.Document{}, "stop", "", "", 50, 50},
		"beside ours":         {claim.Committed{Offset: 50, Consumed: true}, document, "stop", "", "", 70, 50},
		"another collection":  {claim.Committed{Offset: 50, Metadata: elsewhere.String()}, document, "stop", Wrong, "run would stop events/0 (other_collection): the group's offset was committed by a consumer that writes to db.old, but this consumer writes to db.events", 0, -1},
		"and a deleted topic": {claim.Committed{Offset: 50, Metadata: both.String()}, document, "stop", Wrong, "(other_collection)", 0, -1},
		"beyond the end":      {claim.Committed{Offset: 101, Metadata: ours.String()}, document, "stop", Wrong, "(offset_out_of_range): the committed offset 101 is beyond the log's end 100", 0, 100},
		"beyond, earliest":    {claim.Committed{Offset: 101, Metadata: ours.String()}, document, "earliest", Warning, "the start offset 101 of events/0 is beyond the end offset 100: run continues at the earliest record (KAFKA_OUT_OF_RANGE)", 90, 100},
		"beyond, latest":      {claim.Committed{Offset: 101, Metadata: ours.String()}, document, "latest", Warning, "run continues at the latest record (KAFKA_OUT_OF_RANGE)", 0, 100},
		"a deleted topic":     {claim.Committed{Offset: 101, Metadata: deleted.String()}, document, "stop", "", "", 90, 0},
		"retention":           {claim.Committed{Offset: 3, Metadata: ours.String()}, document, "stop", Warning, "7 records of events/0 were deleted", 90, 3},
	} {
		facts := claim.Facts{
			Pipeline: ours, Committed: c.committed, Document: c.document, Bounds: record.Bounds{First: 10, End: 100}, OutOfRange: c.policy,
		}
		l := look{Findings: &Findings{}}
		lag := l.start("group g", record.Partition{Topic: "events"}, facts)
		if (c.state == "") != (len(*l.Findings) == 0) || c.state != "" && !l.has(c.state, c.text) || lag != c.lag {
			t.Errorf("%s: %d behind, %+v", name, lag, *l.Findings)
		}
		begin, err := facts.Start()
		stop := (*record.StopError)(nil)
		if errors.As(err, &stop) != (l.Count(Wrong) > 0) || err == nil && lag != 100-begin.Offset {
			t.Errorf("%s: run begins at %+v, %v; check is %d behind, %+v", name, begin, err, lag, *l.Findings)
		}
		q := verify.Question{Topic: "events", Partitions: []int32{0, 1}, Group: "g", Pipeline: ours}
		ranges, err := q.Ranges(t.Context(), book{c.committed, {Offset: 50, Metadata: ours.String()}})
		switch refused := stop != nil && stop.Reason == "other_collection"; {
		case (err != nil) != refused || refused != (c.verified < 0):
			t.Errorf("%s: run stops with %v, verify with %v", name, stop, err)
		case err == nil && ranges[0].To != c.verified:
			t.Errorf("%s: verified up to %d", name, ranges[0].To)
		}
	}
}

func claimedBy(cluster, topic string, partition int32, group string) sink.PartitionDocument {
	return sink.PartitionDocument{ClusterID: cluster, Topic: topic, Partition: partition, Document: claim.Document{Found: true, Group: group}}
}

// TestCheckSeesClaimsOfAnotherGroup checks this because run stops such partitions.
func TestCheckSeesClaimsOfAnotherGroup(t *testing.T) {
	documents := []sink.PartitionDocument{
		claimedBy("c", "events", 0, "ours"), claimedBy("c", "events", 1, "theirs"), claimedBy("c", "events", 2, "theirs"),
		claimedBy("d", "events", 3, "elsewhere"), claimedBy("c", "metrics", 7, "theirs"),
	}
	of := func(clusterID string) look {
		l := look{
			Options: Options{GroupID: "ours"}, clusterID: clusterID, Findings: &Findings{}, documents: map[record.Partition]claim.Document{},
		}
		l.claims(Topic{Name: "events", Series: "events"}, documents)
		return l
	}
	l := of("c")
	found := *l.Findings
	if found.Count(Wrong) != 1 || !found.has(Wrong, `the group "theirs" writes partitions 1, 2 of events, but the settings name the group "ours"`) {
		t.Fatalf("%+v", found)
	}
	if !strings.Contains(found[0].WayOut, "waterwheel collection takeover") || !strings.Contains(found[0].WayOut, `"theirs"`) {
		t.Errorf("the way out is %q", found[0].WayOut)
	}
	if !found.has(OK, "1 partition of events is claimed by the group ours") {
		t.Errorf("%+v", found)
	}
	if len(l.documents) != 3 {
		t.Errorf("documents: %+v", l.documents)
	}
	if l := of(""); len(*l.Findings) != 0 {
		t.Errorf("without Kafka: %+v", *l.Findings)
	}
}
