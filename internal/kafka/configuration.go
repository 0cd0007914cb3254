package kafka

import (
	"context"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
)

// Configuration is what the cluster says of a topic beside its partitions.
type Configuration struct {
	// Values are the topic's configuration by name, the broker's defaults included.
	Values map[string]string
	// Replicas and InSync are the fewest that one of its partitions has.
	Replicas, InSync int
}

// Configuration asks for a topic's configuration. An error may be the user's lack of a privilege that reading records does
// not need (DESCRIBE_CONFIGS).
func (c *Client) Configuration(ctx context.Context, topic string) (answer Configuration, err error) {
	of := wholeTopic(topic)
	response, err := ask[*describeconfigs.Response](ctx, c, of, 0, &describeconfigs.Request{
		Resources: []describeconfigs.RequestResource{{ResourceType: int8(kafkago.ResourceTypeTopic), ResourceName: topic}},
	})
	if err != nil {
		return answer, err
	}
	answer.Values = map[string]string{}
	for _, resource := range response.Resources {
		if err := CodeError(protocol.DescribeConfigs, of, resource.ErrorCode); err != nil {
			return answer, err
		}
		for _, entry := range resource.ConfigEntries {
			answer.Values[entry.ConfigName] = entry.ConfigValue
		}
	}
	topics, err := c.Topics(ctx, topic)
	if err != nil {
		return answer, err
	}
	for i, p := range topics[0].Partitions {
		if i == 0 || p.Replicas < answer.Replicas {
			answer.Replicas = p.Replicas
		}
		if i == 0 || p.InSync < answer.InSync {
			answer.InSync = p.InSync
		}
	}
	return answer, nil
}
