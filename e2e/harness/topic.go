package harness

import (
	"context"
	"fmt"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"waterwheel/e2e/events"
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

// Producer sends events to one topic. The key selects the partition, and all in-sync replicas acknowledge.
type Producer struct {
	writer *kafka.Writer
}

// NewProducer returns a producer for a topic of the cluster at brokers. The caller closes it.
func NewProducer(brokers, topic string) *Producer {
	return &Producer{writer: &kafka.Writer{
		Addr:         kafka.TCP(strings.Split(brokers, ",")...),
		Topic:        topic,
		Balancer:     &kafka.Hash{},
		RequiredAcks: kafka.RequireAll,
		BatchTimeout: 5 * time.Millisecond,
		BatchSize:    500,
		BatchBytes:   32 << 20, // above the usual limit, so that the topic refuses records that are too large
		MaxAttempts:  50,       // enough for the restart of a broker
		Transport:    &kafka.Transport{MetadataTTL: time.Second, IdleTimeout: 5 * time.Second},
	}}
}

// Send sends events and returns when all of them are acknowledged.
func (p *Producer) Send(ctx context.Context, made ...events.Event) error {
	messages := make([]kafka.Message, len(made))
	for i, e := range made {
		messages[i] = kafka.Message{Key: e.Key, Value: e.Value, Headers: []kafka.Header{{Key: "trace", Value: []byte("t-1")}}}
	}
	if err := p.writer.WriteMessages(ctx, messages...); err != nil {
		return fmt.Errorf("producing %d records: %w", len(made), err)
	}
	return nil
}

// Close ends the producer's connections.
func (p *Producer) Close() error { return p.writer.Close() }
