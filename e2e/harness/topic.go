package harness

import (
	"context"
	"fmt"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

// CreateTopic creates a topic with the broker's default replication. settings are topic settings, as pairs of name and value.
func (s *Servers) CreateTopic(ctx context.Context, name string, partitions int, settings ...string) error {
	topic := kafka.TopicConfig{Topic: name, NumPartitions: partitions, ReplicationFactor: -1}
	for i := 0; i+1 < len(settings); i += 2 {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: settings[i], ConfigValue: settings[i+1]})
	}
	response, err := s.admin.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err == nil {
		err = response.Errors[name]
	}
	if err != nil {
		return fmt.Errorf("creating topic %s: %w", name, err)
	}
	return s.awaitLeaders(ctx, name)
}

// awaitLeaders waits until every partition of a topic has a leader.
func (s *Servers) awaitLeaders(ctx context.Context, name string) error {
	for {
		response, err := s.admin.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{name}})
		if err == nil && len(response.Topics) == 1 && led(response.Topics[0]) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the leaders of topic %s: %w", name, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func led(t kafka.Topic) bool {
	if t.Error != nil || len(t.Partitions) == 0 {
		return false
	}
	for _, p := range t.Partitions {
		if p.Error != nil {
			return false
		}
	}
	return true
}

// DeleteTopics deletes topics, and ignores topics that do not exist.
func (s *Servers) DeleteTopics(ctx context.Context, names ...string) error {
	if _, err := s.admin.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: names}); err != nil {
		return fmt.Errorf("deleting topics %v: %w", names, err)
	}
	return nil
}
