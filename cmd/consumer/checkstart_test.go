package main

import (
	"errors"
	"maps"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/claim"
	"waterwheel/dlq"
	"waterwheel/kafka"
	"waterwheel/sink"
)

// TestCheckSeesClaimsOfAnotherGroup: run stops such partitions, so nothing is in place.
func TestCheckSeesClaimsOfAnotherGroup(t *testing.T) {
	other := claimedBy("c", 7, "theirs")
	other.Topic = "metrics"
	table := &claimTable{documents: []sink.PartitionDocument{
		claimedBy("c", 0, "ours"), claimedBy("c", 1, "theirs"), claimedBy("c", 2, "theirs"), claimedBy("d", 3, "elsewhere"), other,
	}}
	var found findings
	checkClaims(t.Context(), table, claimed{"events", "c", "events", "ours"}, &found)
	if found.count(findingWrong) != 1 || !found.has(findingWrong, `the group "theirs" writes partitions 1, 2 of events, the settings name the group "ours"`) {
		t.Errorf("%+v", found.list)
	}
	if !strings.Contains(found.list[0].WayOut, "consumer collection takeover") || !strings.Contains(found.list[0].WayOut, `"theirs"`) {
		t.Errorf("the way out is %q", found.list[0].WayOut)
	}
	if !found.has(findingOK, "1 partitions of events are claimed by the group ours") {
		t.Errorf("%+v", found.list)
	}
	found = findings{}
	checkClaims(t.Context(), table, claimed{"events", "", "events", "ours"}, &found)
	if len(found.list) != 0 {
		t.Errorf("without Kafka: %+v", found.list)
	}
}

// TestCheckJudgesCommitsAsRunDoes compares with what the start of a partition makes of the same commits.
func TestCheckJudgesCommitsAsRunDoes(t *testing.T) {
	ours := claim.Provenance{ClusterID: "c", TopicID: [16]byte{1}, Namespace: "db.events"}
	elsewhere, mirrored, deleted := ours, ours, ours
	elsewhere.Namespace, deleted.TopicID = "db.old", [16]byte{2}
	mirrored.ClusterID, mirrored.Namespace = "d", "db.old"
	for name, c := range map[string]struct {
		offset   int64
		metadata string
		policy   string
		state    FindingState // of the only finding; empty: there is none
		text     string
		lag      int64
	}{
		"ours":               {50, ours.String(), "stop", "", "", 50},
		"a reset":            {50, "", "stop", "", "", 50},
		"a mirror":           {50, mirrored.String(), "stop", "", "", 50},
		"another collection": {50, elsewhere.String(), "stop", findingWrong, "writes db.old, the settings name db.events", 0},
		"beyond the end":     {101, ours.String(), "stop", findingWrong, "offset 101 is committed for events/0, which ends at 100", 0},
		"beyond, earliest":   {101, ours.String(), "earliest", findingWarning, "run goes on at its earliest record (KAFKA_OUT_OF_RANGE)", 0},
		"beyond, latest":     {101, ours.String(), "latest", findingWarning, "run goes on at its latest record (KAFKA_OUT_OF_RANGE)", 0},
		"a deleted topic":    {101, deleted.String(), "stop", "", "", 90},
		"retention":          {3, ours.String(), "stop", findingWarning, "7 records of events/0 were deleted", 90},
	} {
		var found findings
		k := commits{subject: "group g", policy: c.policy, ours: ours}
		k.judge(dlq.Span{Place: dlq.Place{Topic: "events"}, First: 10, End: 100}, kafka.Assigned{Committed: c.offset, Metadata: c.metadata}, &found)
		if k.lag != c.lag || k.known != 1 {
			t.Errorf("%s: %+v", name, k)
		}
		if (c.state == "") != (len(found.list) == 0) || c.state != "" && !found.has(c.state, c.text) {
			t.Errorf("%s: %+v", name, found.list)
		}
	}
}

// TestCheckFindsWhatStopsEveryPartition compares on real servers: the same settings find nothing wrong.
func TestCheckFindsWhatStopsEveryPartition(t *testing.T) {
	s := newStage(t)
	stop := s.consume()
	s.produce(50)
	s.verified()
	stop()
	check := func(name, value string) (int, string) {
		env := maps.Clone(s.env)
		env[name] = value
		code, stdout, _ := try(t, env, nil, "check")
		return code, stdout
	}
	if code, out := check("LOG_LEVEL", "warn"); code != exitDone || !strings.Contains(out, "2 partitions of "+s.topic+" are claimed by the group "+s.topic) {
		t.Errorf("with the consumer's settings: exit code %d\n%s", code, out)
	}
	if code, out := check("KAFKA_GROUP_ID", s.topic+"-2"); code != exitFound || !strings.Contains(out, "consumer collection takeover") {
		t.Errorf("with another group: exit code %d\n%s", code, out)
	}
	if code, out := check("MONGODB_COLLECTION", "elsewhere"); code != exitFound || !strings.Contains(out, "other_collection") {
		t.Errorf("with another collection: exit code %d\n%s", code, out)
	}
}

// TestATopicThatMayNotBeSeenIsNotToBeCreated: each error has the advice of its own, once.
func TestATopicThatMayNotBeSeenIsNotToBeCreated(t *testing.T) {
	refused := func(code kafkago.Error) error {
		return &kafka.Error{API: "Metadata", Topic: "events", Partition: -1, Err: code}
	}
	errs := unreadable([]kafka.Topic{
		{Name: "a", Err: refused(kafkago.TopicAuthorizationFailed)},
		{Name: "b", Err: refused(kafkago.UnknownTopicOrPartition)},
		{Name: "c", Err: refused(kafkago.LeaderNotAvailable)},
		{Name: "d"},
	})
	if len(errs) != 2 || strings.Contains(errs[0].Error(), "create") || !strings.Contains(errs[0].Error(), "grant READ and DESCRIBE") ||
		strings.Count(errs[1].Error(), "create") != 1 {
		t.Errorf("%q", errs)
	}
}

func TestALetterThatMayNotBeWrittenSaysWhichRightIsLacking(t *testing.T) {
	err := advisedLetter(&dlq.ProduceError{Unacknowledged: []int{0}, Err: kafkago.TopicAuthorizationFailed})
	if !strings.Contains(err.Error(), "WRITE on the dead-letter topic") || !errors.Is(err, kafkago.TopicAuthorizationFailed) {
		t.Error(err)
	}
	if err := advisedLetter(kafkago.NotEnoughReplicas); !errors.Is(err, kafkago.NotEnoughReplicas) || strings.Contains(err.Error(), "grant") {
		t.Error(err)
	}
}
