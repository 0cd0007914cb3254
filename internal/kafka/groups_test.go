package kafka

import (
	"errors"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listgroups"

	"waterwheel/internal/record"
)

// TestGroupsOfABrokerThatCannotTellAreNotLeftOut covers a coordinator that still loads its groups, and lists none.
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
	if !errors.Is(err, kafkago.GroupLoadInProgress) || Classify(NoAnswer(protocol.ListGroups, record.Partition{}, err)) != Retry {
		t.Errorf("%v", err)
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
