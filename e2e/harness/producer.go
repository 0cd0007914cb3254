package harness

import (
	"context"
	"fmt"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"waterwheel/e2e/events"
)

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
