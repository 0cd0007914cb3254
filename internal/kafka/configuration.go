package kafka

import (
	"context"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
)

// Configuration is a topic's configuration and its least replication.
type Configuration struct {
	// Values holds the configuration by name, including the broker's defaults.
	Values map[string]string
	// Replicas and InSync are the lowest numbers among the topic's partitions.
	Replicas, InSync int
}

// Configuration asks for a topic's configuration. This needs the right DESCRIBE_CONFIGS, which reading records does not need. A
// user without it gets an error.
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
