package group

import (
	"context"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
)

// transportFunc answers requests instead of a cluster.
type transportFunc func(kafkago.Request) kafkago.Response

// RoundTrip implements kafka.Asker.
func (f transportFunc) RoundTrip(_ context.Context, request kafkago.Request) (kafkago.Response, error) {
	return f(request), nil
}

// answerCommit checks a commit request. Its answer has the partitions in another order, an illegal generation for topic a, and
// nothing for b/0.
func answerCommit(t *testing.T, request kafkago.Request) kafkago.Response {
	t.Helper()
	r, ok := request.(*offsetcommit.Request)
	if !ok || len(r.Topics) != 2 || len(r.Topics[0].Partitions) != 2 {
		t.Fatalf("asked %+v", request)
	}
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			if p.CommittedLeaderEpoch != -1 {
				t.Errorf("%s/%d is committed with leader epoch %d", topic.Name, p.PartitionIndex, p.CommittedLeaderEpoch)
			}
		}
	}
	return &offsetcommit.Response{Topics: []offsetcommit.ResponseTopic{
		{Name: "a", Partitions: []offsetcommit.ResponsePartition{{PartitionIndex: 0, ErrorCode: 22}}},
		{Name: "b", Partitions: []offsetcommit.ResponsePartition{{PartitionIndex: 1}}},
	}}
}
