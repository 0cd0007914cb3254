package kafka

import (
	"context"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"
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
func (c *Client) Configuration(ctx context.Context, topic string) (Configuration, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	doing := fmt.Sprintf("reading the configuration of topic %q", topic)
	response, err := c.client.DescribeConfigs(ctx, &kafkago.DescribeConfigsRequest{
		Resources: []kafkago.DescribeConfigRequestResource{{ResourceType: kafkago.ResourceTypeTopic, ResourceName: topic}},
	})
	if err != nil {
		return Configuration{}, fmt.Errorf("%s: %w", doing, err)
	}
	answer := Configuration{Values: map[string]string{}}
	for _, resource := range response.Resources {
		if resource.Error != nil {
			return Configuration{}, fmt.Errorf("%s: %w", doing, resource.Error)
		}
		for _, entry := range resource.ConfigEntries {
			answer.Values[entry.ConfigName] = entry.ConfigValue
		}
	}
	metadata, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return Configuration{}, fmt.Errorf("%s: %w", doing, err)
	}
	for _, t := range metadata.Topics {
		for i, p := range t.Partitions {
			if i == 0 || len(p.Replicas) < answer.Replicas {
				answer.Replicas = len(p.Replicas)
			}
			if i == 0 || len(p.Isr) < answer.InSync {
				answer.InSync = len(p.Isr)
			}
		}
	}
	return answer, nil
}
