package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"

	"waterwheel/e2e/events"
)

// CreateTopic creates a topic with the broker's default replication, and waits until every partition has a leader. settings are
// topic settings, as pairs of name and value.
func (s *Servers) CreateTopic(ctx context.Context, name string, partitions int, settings ...string) error {
	configs := map[string]*string{}
	for i := 0; i+1 < len(settings); i += 2 {
		configs[settings[i]] = &settings[i+1]
	}
	if _, err := s.admin.CreateTopic(ctx, int32(partitions), -1, configs, name); err != nil {
		return fmt.Errorf("creating topic %s: %w", name, err)
	}
	for {
		found, err := s.admin.ListTopics(ctx, name)
		if t := found[name]; err == nil && t.Err == nil && len(t.Partitions) == partitions && !slices.ContainsFunc(t.Partitions.Sorted(), notLed) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the leaders of topic %s: %w", name, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func notLed(p kadm.PartitionDetail) bool { return p.Err != nil || p.Leader < 0 }

// DeleteTopics deletes topics, and ignores topics that do not exist.
func (s *Servers) DeleteTopics(ctx context.Context, names ...string) error {
	if _, err := s.admin.DeleteTopics(ctx, names...); err != nil {
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

// AtRate calls do a number of times a second until the context ends, with the number of the call and the present time. After a delay
// it catches up, so that a slow moment is no gap.
func AtRate(ctx context.Context, perSecond float64, do func(n int, now time.Time)) {
	begun := time.Now()
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for n := 0; ctx.Err() == nil; {
		now := time.Now()
		for due := int(now.Sub(begun).Seconds() * perSecond); n < due && ctx.Err() == nil; n++ {
			do(n, now)
		}
		select {
		case <-ctx.Done():
		case <-ticks.C:
		}
	}
}
