package kafka

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/record"
)

const (
	// requestBytes bounds one request of several messages, well under the broker's default of 1 MiB.
	requestBytes = 512 << 10
	// messageOverhead bounds the bytes that Kafka's record format adds to a message. headerOverhead bounds those that it adds to
	// a header.
	messageOverhead, headerOverhead = 40, 10
	// latestTimestamp is the last time, in milliseconds, that kafka-go writes unchanged. kafka-go counts nanoseconds in an int64
	// and replaces 0 by the current time.
	latestTimestamp = math.MaxInt64 / 1_000_000
)

// Message is a record to write.
type Message struct {
	// Timestamp is in milliseconds since 1970. A time that Kafka cannot keep becomes the present time.
	Timestamp int64
	// Key and Value are written as null when nil.
	Key, Value []byte
	Headers    []record.Header
}

// Size bounds the bytes that the message takes in a request.
func (m *Message) Size() int {
	n := messageOverhead + len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value) + headerOverhead
	}
	return n
}

// Fitting returns how many of the first items fit into one request. A single item beyond the limit goes alone.
func Fitting[T any](items []T, size func(*T) int) int {
	bytes := 0
	for n := range items {
		if bytes += size(&items[n]); n > 0 && bytes > requestBytes {
			return n
		}
	}
	return len(items)
}

// Writer writes to topics. Its methods are safe for concurrent use, but Close comes last.
//
// It does not use kafka-go's Writer, for three reasons. kafka-go's Writer merges the messages of all callers into its own
// batches, so one refused message fails those of other callers. It goes on writing after its context has ended. And closing it
// during a write can hang.
type Writer struct {
	connector *connector
	address   net.Addr // all bootstrap brokers
	client    atomic.Pointer[kafkago.Client]
}

// Writer makes a writer to topics, with its own connections. A kafka-go transport knows only the leaders of the topics that it
// was made for.
func (c *Client) Writer(topics ...string) *Writer {
	w := &Writer{connector: c.connector, address: c.address}
	w.Route(topics...)
	return w
}

// Route makes the writer write to these topics. It does not disturb writes under way.
func (w *Writer) Route(topics ...string) {
	former := w.client.Swap(&kafkago.Client{Addr: w.address, Transport: w.connector.transport(topics), Timeout: AnswerTimeout})
	closeIdle(former)
}

// Close closes the connections.
func (w *Writer) Close() { closeIdle(w.client.Load()) }

func closeIdle(c *kafkago.Client) {
	if c == nil {
		return
	}
	if transport, ok := c.Transport.(*kafkago.Transport); ok {
		transport.CloseIdleConnections()
	}
}

// Write writes messages to a partition in one request and one record batch. It waits until all in-sync replicas have them. It
// keeps no bytes of the messages.
func (w *Writer) Write(ctx context.Context, to record.Partition, messages ...Message) error {
	records := make([]kafkago.Record, len(messages))
	for i := range messages {
		// A request abandoned at the end of its context may still be encoded later, so it shares no bytes.
		m := &messages[i]
		records[i] = kafkago.Record{
			Time: time.UnixMilli(m.Timestamp), Key: kafkago.NewBytes(bytes.Clone(m.Key)), Value: kafkago.NewBytes(bytes.Clone(m.Value)),
		}
		if m.Timestamp <= 0 || m.Timestamp > latestTimestamp {
			records[i].Time = time.Now()
		}
		for _, h := range m.Headers {
			records[i].Headers = append(records[i].Headers, kafkago.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	response, err := w.client.Load().Produce(ctx, &kafkago.ProduceRequest{
		Topic: to.Topic, Partition: int(to.Number), RequiredAcks: kafkago.RequireAll, Records: kafkago.NewRecordReader(records...),
	})
	if err != nil {
		return w.connector.unanswered(err)
	}
	return response.Error
}

// Partitions returns the topic's number of partitions. It may be a moment old.
func (w *Writer) Partitions(ctx context.Context, topic string) (int, error) {
	metadata, err := w.client.Load().Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return 0, w.connector.unanswered(err)
	}
	for _, t := range metadata.Topics {
		if t.Name == topic && (t.Error != nil || len(t.Partitions) > 0) {
			return len(t.Partitions), t.Error
		}
	}
	return 0, kafkago.UnknownTopicOrPartition
}

// NewTopic is a topic to create.
type NewTopic struct {
	Name string
	// Partitions and Replication are the broker's defaults when 0.
	Partitions, Replication int
	// Configuration are settings of the topic.
	Configuration map[string]string
}

// Create creates the topics that do not exist yet, and waits until this writer knows them.
func (w *Writer) Create(ctx context.Context, topics ...NewTopic) error {
	ctx, cancel := context.WithTimeout(ctx, 2*AnswerTimeout)
	defer cancel()
	request := &kafkago.CreateTopicsRequest{}
	for _, t := range topics {
		config := kafkago.TopicConfig{
			Topic: t.Name, NumPartitions: cmp.Or(t.Partitions, byDefault), ReplicationFactor: cmp.Or(t.Replication, byDefault),
		}
		for name, value := range t.Configuration {
			config.ConfigEntries = append(config.ConfigEntries, kafkago.ConfigEntry{ConfigName: name, ConfigValue: value})
		}
		request.Topics = append(request.Topics, config)
	}
	response, err := w.client.Load().CreateTopics(ctx, request)
	if err != nil {
		return fmt.Errorf("creating topics: %w", w.connector.unanswered(err))
	}
	for _, t := range topics {
		if err := response.Errors[t.Name]; err != nil && !errors.Is(err, kafkago.TopicAlreadyExists) {
			return fmt.Errorf("creating topic %q: %w", t.Name, err)
		}
	}
	return nil
}
