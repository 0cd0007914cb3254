package group

import (
	"slices"
	"testing"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

func TestRealGroupsAndTheirMembers(t *testing.T) {
	brokers := realBrokers(t)
	topic := realGroupTopic(t, brokers, 1)
	client := realClient(t, brokers, topic)
	group := topic + ".group"
	// A fresh cluster may still be choosing the group's coordinator.
	members, err := kafka.Answer(t.Context(), func() ([]kafka.Member, error) { return client.Members(t.Context(), group) })
	if len(members) != 0 || err != nil {
		t.Errorf("a group that is not there has the members %v, %v", members, err)
	}
	member := startMember(t, realOptions(topic, group))
	g := member.holding(t, 1)
	if members, err := client.Members(t.Context(), group); len(members) != 1 || err != nil || !IsOurs(members[0]) || members[0].ID != g.MemberID {
		t.Errorf("members %v, %v; want this one", members, err)
	}
	seven := commit(topic, 0, 7, "seven")
	if results, err := g.Commit(t.Context(), []record.Commit{seven}); err != nil || results[0] != nil {
		t.Fatalf("committing: %v, %v", results, err)
	}
	member.leave(t)
	groups, err := client.Groups(t.Context(), topic)
	if err != nil || !slices.Equal(groups, []string{group}) {
		t.Errorf("groups %v, %v", groups, err)
	}
	answers, err := client.Committed(t.Context(), group, []record.Partition{{Topic: topic}})
	if err != nil || len(answers) != 1 || answers[0].Offset != 7 || answers[0].Metadata != "seven" {
		t.Errorf("committed %+v, %v", answers, err)
	}
}
