package kafka

import (
	"context"
	"slices"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listgroups"
)

// Groups lists the consumer groups whose names begin with a prefix, as far as this user may see them, sorted.
func (c *Client) Groups(ctx context.Context, prefix string) ([]string, error) {
	answer, err := roundTrip[*listgroups.Response](ctx, c, &listGroups{}, 0)
	if err != nil {
		return nil, unanswered(protocol.ListGroups, "", -1, err)
	}
	var names []string
	for _, g := range answer.Groups {
		if strings.HasPrefix(g.GroupID, prefix) {
			names = append(names, g.GroupID)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// listGroups asks every broker for the groups that it coordinates. A broker that cannot tell fails the whole answer:
// kafka-go's own message leaves its groups out.
type listGroups struct{ listgroups.Request }

// Split implements protocol.Splitter.
func (r *listGroups) Split(cluster protocol.Cluster) ([]protocol.Message, protocol.Merger, error) {
	messages, _, err := r.Request.Split(cluster)
	return messages, new(listedGroups), err
}

// listedGroups merges the answers.
type listedGroups struct{ listgroups.Response }

// Merge implements protocol.Merger.
func (m *listedGroups) Merge(requests []protocol.Message, results []any) (protocol.Message, error) {
	for _, result := range results {
		answer, err := protocol.Result(result)
		if err != nil {
			return nil, err
		}
		if code := answer.(*listgroups.Response).ErrorCode; code != 0 {
			return nil, kafkago.Error(code)
		}
	}
	return m.Response.Merge(requests, results)
}

// Committed is what a group has committed for partitions of a topic. An answer's Err says which could not be read.
func (c *Client) Committed(ctx context.Context, group, topic string, partitions []int32) ([]Assigned, error) {
	options := c.options
	options.GroupID = group
	k := &kafkaCoordinator{transport: c.transport, address: c.address, options: options}
	asked := make([]topicPartition, len(partitions))
	for i, p := range partitions {
		asked[i] = topicPartition{topic, p}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return k.Committed(ctx, asked)
}
