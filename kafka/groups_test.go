package kafka

import (
	"errors"
	"slices"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listgroups"
)

// TestGroupsOfABrokerThatCannotTellAreNotLeftOut: a coordinator that still loads its groups lists none.
func TestGroupsOfABrokerThatCannotTellAreNotLeftOut(t *testing.T) {
	request := &listGroups{}
	messages, merger, err := request.Split(protocol.Cluster{Brokers: map[int32]protocol.Broker{1: {ID: 1}, 2: {ID: 2}}})
	if err != nil || len(messages) != 2 {
		t.Fatal(messages, err)
	}
	one := &listgroups.Response{Groups: []listgroups.ResponseGroup{{GroupID: "a"}}}
	merged, err := merger.Merge(messages, []any{one, &listgroups.Response{Groups: []listgroups.ResponseGroup{{GroupID: "b"}}}})
	if err != nil || len(merged.(*listgroups.Response).Groups) != 2 {
		t.Errorf("%+v, %v", merged, err)
	}
	_, err = merger.Merge(messages, []any{one, &listgroups.Response{ErrorCode: 14}})
	if !errors.Is(err, kafkago.GroupLoadInProgress) || Classify(unanswered(protocol.ListGroups, "", -1, err)) != Retry {
		t.Errorf("%v", err)
	}
}

func TestRealGroupsAndTheirMembers(t *testing.T) {
	brokers := realBrokers(t)
	topic := realTopic(t, brokers)
	client, _ := realClient(t, brokers, topic)
	group := topic + ".group"
	if members, err := client.Members(t.Context(), group); len(members) != 0 || err != nil {
		t.Errorf("a group that is not there has the members %v, %v", members, err)
	}
	member := startMember(t, realOptions(brokers, topic, group))
	g := member.holding(t, 1)
	if members, err := client.Members(t.Context(), group); len(members) != 1 || err != nil || !members[0].Ours || members[0].ID != g.MemberID {
		t.Errorf("members %v, %v; want this one", members, err)
	}
	commit := Commit{Topic: topic, Partition: 0, Offset: 7, Metadata: "seven"}
	if results, err := g.Commit(t.Context(), []Commit{commit}); err != nil || results[0] != nil {
		t.Fatalf("committing: %v, %v", results, err)
	}
	member.leave(t)
	groups, err := client.Groups(t.Context(), topic)
	if err != nil || !slices.Equal(groups, []string{group}) {
		t.Errorf("groups %v, %v", groups, err)
	}
	answers, err := client.Committed(t.Context(), group, topic, []int32{0})
	if err != nil || len(answers) != 1 || answers[0].Committed != 7 || answers[0].Metadata != "seven" {
		t.Errorf("committed %+v, %v", answers, err)
	}
}

func TestRealConfigurationOfATopic(t *testing.T) {
	brokers := realBrokers(t)
	client, _ := realClient(t, brokers, realTopic(t, brokers))
	topic := client.options.Topics[0]
	c, err := client.Configuration(t.Context(), topic)
	if err != nil || c.Replicas != 1 || c.InSync != 1 || c.Values["cleanup.policy"] != "delete" || c.Values["min.insync.replicas"] == "" {
		t.Errorf("%+v, %v", c, err)
	}
}
