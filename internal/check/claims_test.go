package check

import (
	"strings"
	"testing"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/sink"
)

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
