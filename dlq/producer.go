package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
)

// Producer writes letters. Its methods may be called from several goroutines at once, except that Close comes last.
//
// It does not use kafka-go's Writer: that merges the letters of all callers into batches of its own, so that one letter
// the broker refuses fails the letters of others; it goes on writing after its context has ended; and closing it
// while it writes can hang.
type Producer struct {
	options   Options
	transport *kafka.Transport
	client    *kafka.Client
	now       func() time.Time
}

// ProduceError says which letters of a Produce call are not known to be written, by their index, ascending. Err is what went
// wrong: an *UntakenError, or else an outage, after which the same letters may be produced again.
type ProduceError struct {
	Unacknowledged []int
	Err            error
}

// UntakenError: a dead-letter topic takes a letter in no form. Trying again helps only after its settings were changed.
type UntakenError struct {
	Topic string
	Err   error
}

// Error names the topic and the way out.
func (e *UntakenError) Error() string {
	wayOut := "raise its max.message.bytes, which is to be at least the source topic's and some KiB more"
	if errors.Is(e.Err, kafka.InvalidRecord) {
		wayOut = "set its cleanup.policy to delete: a compacted topic takes no letter without a key, and drops letters of equal keys"
	}
	return fmt.Sprintf("the dead-letter topic %q takes no letter, however short (%v): %s, then restart", e.Topic, e.Err, wayOut)
}

// Unwrap returns the cause.
func (e *UntakenError) Unwrap() error { return e.Err }

// Error names the number of letters and the cause.
func (e *ProduceError) Error() string {
	return fmt.Sprintf("producing %d dead letters: %v", len(e.Unacknowledged), e.Err)
}

// Unwrap returns the cause.
func (e *ProduceError) Unwrap() error { return e.Err }

// New checks the options. It connects to nothing.
func New(options Options) (*Producer, error) {
	if err := options.normalize(); err != nil {
		return nil, fmt.Errorf("setting up the dead-letter producer: %w", err)
	}
	transport := options.Transport
	if transport == nil {
		transport = &kafka.Transport{MetadataTopics: options.Topics(), MetadataTTL: time.Second, DialTimeout: options.Timeout}
	}
	return &Producer{
		options:   options,
		transport: transport,
		client:    &kafka.Client{Addr: kafka.TCP(options.Brokers...), Transport: transport, Timeout: options.Timeout},
		now:       time.Now,
	}, nil
}

// Produce writes the letters and returns nil only when every one of them is acknowledged by all in-sync replicas. It
// makes one try and ends with the first request that fails; a *ProduceError says which letters to bring again. A letter
// whose acknowledgement was lost is then written twice, which its headers let readers notice.
//
// A letter too long for its topic is written alone, its value, headers and key cut, with a header that says so.
// The letters and their slices are not kept.
func (p *Producer) Produce(ctx context.Context, letters []Letter) error {
	var failed ProduceError
	for _, batch := range p.batches(letters) {
		unwritten := batch.indexes
		if failed.Err == nil {
			unwritten, failed.Err = p.writeBatch(ctx, batch, letters)
		}
		failed.Unacknowledged = append(failed.Unacknowledged, unwritten...)
	}
	if failed.Err == nil {
		return nil
	}
	slices.Sort(failed.Unacknowledged)
	return &failed
}

// writeBatch writes letters in their order. After an error it returns those that are not acknowledged.
func (p *Producer) writeBatch(ctx context.Context, b *batch, letters []Letter) ([]int, error) {
	partition, err := p.partition(ctx, b.topic, b.source)
	if err != nil {
		return b.indexes, err
	}
	left := b.indexes
	for chunk := range chunks(letters, b.indexes) {
		left = left[len(chunk):]
		if unwritten, err := p.writeChunk(ctx, b.topic, partition, letters, chunk); err != nil {
			return append(slices.Clone(unwritten), left...), err
		}
	}
	return nil, nil
}

// Close closes the connections.
func (p *Producer) Close() { p.transport.CloseIdleConnections() }

// batch is what goes to one partition of a dead-letter topic: the letters of one source partition, in their order.
type batch struct {
	topic   string
	source  int32
	indexes []int
}

// batches groups the letters by topic and source partition, in the order of their first letters.
func (p *Producer) batches(letters []Letter) []*batch {
	type key struct {
		topic  string
		source int32
	}
	var order []*batch
	byKey := map[key]*batch{}
	for i := range letters {
		k := key{p.options.TopicFor(letters[i].Topic), letters[i].Partition}
		b := byKey[k]
		if b == nil {
			b = &batch{topic: k.topic, source: k.source}
			byKey[k] = b
			order = append(order, b)
		}
		b.indexes = append(b.indexes, i)
	}
	return order
}

// partition chooses the partition for the letters of a source partition: always the same one, so that they keep their
// order.
func (p *Producer) partition(ctx context.Context, topic string, source int32) (int, error) {
	metadata, err := p.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return 0, fmt.Errorf("looking up dead-letter topic %q: %w", topic, err)
	}
	for _, t := range metadata.Topics {
		if t.Name != topic {
			continue
		}
		if errors.Is(t.Error, kafka.UnknownTopicOrPartition) {
			return 0, fmt.Errorf("dead-letter topic %q does not exist (create it, or restart with DLQ_CREATE=true): %w", topic, t.Error)
		}
		if t.Error != nil {
			return 0, fmt.Errorf("looking up dead-letter topic %q: %w", topic, t.Error)
		}
		if n := len(t.Partitions); n > 0 {
			return int(source) % n, nil
		}
	}
	return 0, fmt.Errorf("looking up dead-letter topic %q: %w", topic, kafka.UnknownTopicOrPartition)
}
