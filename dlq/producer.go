package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// Options define where letters go.
type Options struct {
	// Sources are the topics whose letters are produced.
	Sources []string
	// TopicFor returns the dead-letter topic of a source topic. It is empty if there is none. Sources may share one, which must
	// not be a source.
	TopicFor func(source string) string
	// GroupID is the consumer group, written into each letter.
	GroupID string
	// Create makes Setup create missing dead-letter topics. Otherwise a missing topic is an error.
	Create bool
	// Partitions and Replication apply to a created topic. Zero means the broker's default.
	Partitions, Replication int
	// Retention is how long a created topic keeps letters after they were written. Zero means until they are deleted.
	Retention time.Duration
}

// Topics lists the dead-letter topics of all sources, sorted, each once.
func (o *Options) Topics() []string {
	names := make([]string, 0, len(o.Sources))
	for _, source := range o.Sources {
		if name := o.TopicFor(source); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Producer writes letters. Its methods are safe for concurrent use, except that Close must be the last call.
type Producer struct {
	options Options
	client  *kafka.Client
	writer  writer
}

// writer is the part of *kafka.Writer that a Producer uses.
type writer interface {
	// Partitions returns the number of partitions of a topic.
	Partitions(ctx context.Context, topic string) (int, error)
	// Write writes messages in one request, and waits until all in-sync replicas have them. It does not retain them.
	Write(ctx context.Context, to record.Partition, messages ...kafka.Message) error
	// Route makes the writer write to these topics.
	Route(topics ...string)
	// Create creates missing topics.
	Create(ctx context.Context, topics ...kafka.NewTopic) error
	// Close closes the connections.
	Close()
}

// New returns a Producer that is not connected yet. Letters use their own connections.
func New(client *kafka.Client, options Options) *Producer {
	return &Producer{options, client, client.Writer(options.Topics()...)}
}

// grantWrite ends each error about a missing right.
const grantWrite = "grant this user WRITE on the dead-letter topic"

// advised adds to an error about a missing right what to do about it.
func advised(err error) error {
	if errors.Is(err, kafkago.TopicAuthorizationFailed) || errors.Is(err, kafkago.ClusterAuthorizationFailed) {
		return fmt.Errorf("%w; %s, and CREATE if waterwheel should create the topic (DLQ_CREATE=true)", err, grantWrite)
	}
	return err
}

// Setup finds the dead-letter topics, and creates missing ones if the options allow it. It may be called again after an error.
// kafka.Classify reports whether that can help.
func (p *Producer) Setup(ctx context.Context) error { return p.setUp(ctx, p.options.Topics()...) }

func (p *Producer) setUp(ctx context.Context, names ...string) error {
	missing, err := p.client.Missing(ctx, names...)
	switch {
	case err != nil:
	case len(missing) == 0:
	case !p.options.Create:
		return kafka.Mistake(fmt.Errorf("dead-letter topics do not exist: %s (create them, or set DLQ_CREATE=true)", strings.Join(missing, ", ")))
	default:
		err = p.create(ctx, missing)
	}
	if err != nil {
		return advised(err)
	}
	topics, err := p.client.Topics(ctx, names...)
	if err != nil {
		return fmt.Errorf("reading metadata of the dead-letter topics: %w", err)
	}
	var errs []error
	for _, t := range topics {
		if t.Err == nil && !t.Rights.Allow(kafka.Write) {
			errs = append(errs, kafka.Mistake(fmt.Errorf("this user can see dead-letter topic %q but may not write to it: %s", t.Name, grantWrite)))
		}
	}
	return errors.Join(errs...)
}

// create creates topics that keep letters for a time after their writing (LogAppendTime). By default Kafka would use the times of
// the records, and would delete letters of old records at once.
func (p *Producer) create(ctx context.Context, names []string) error {
	retention := int64(-1)
	if p.options.Retention > 0 {
		retention = p.options.Retention.Milliseconds()
	}
	topics := make([]kafka.NewTopic, len(names))
	for i, name := range names {
		topics[i] = kafka.NewTopic{
			Name: name, Partitions: p.options.Partitions, Replication: p.options.Replication,
			Configuration: map[string]string{
				"cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime", "retention.ms": strconv.FormatInt(retention, 10),
			},
		}
	}
	if err := p.writer.Create(ctx, topics...); err != nil {
		return fmt.Errorf("creating the dead-letter topics: %w", err)
	}
	return nil
}

// Add adds a source topic, and finds or creates its dead-letter topic as Setup does. It may be called again after an error, and
// while letters are produced, but not concurrently with itself.
func (p *Producer) Add(ctx context.Context, source string) error {
	if !slices.Contains(p.options.Sources, source) {
		p.options.Sources = append(p.options.Sources, source)
		p.writer.Route(p.options.Topics()...)
	}
	if name := p.options.TopicFor(source); name != "" {
		return p.setUp(ctx, name)
	}
	return nil
}

// Close closes the connections.
func (p *Producer) Close() { p.writer.Close() }

// Produce writes letters in their order. It returns how many of them, from the first on, all in-sync replicas have acknowledged.
// If that is not all, the error says why the next one is not acknowledged. A *record.StopError means that its dead-letter topic
// takes it in no form. After any other error the same letters may be produced again. Then a letter whose acknowledgement was lost
// is written twice, and readers can detect that from its headers.
//
// A letter that is too long for its topic is written alone. Its value, headers and key are cut, and a header records that.
// Produce does not retain the letters or their slices.
func (p *Producer) Produce(ctx context.Context, letters []record.Letter) (written int, err error) {
	for written < len(letters) {
		chunk := letters[written : written+together(letters[written:])]
		to, err := p.partition(ctx, chunk[0].Partition)
		if err == nil {
			var n int
			n, err = p.writeChunk(ctx, to, chunk)
			written += n
		}
		if err != nil {
			return written, advised(err)
		}
	}
	return written, nil
}

// partition returns the partition for letters of a source partition. It is always the same one, so that the letters keep their
// order.
func (p *Producer) partition(ctx context.Context, source record.Partition) (to record.Partition, err error) {
	to.Topic = p.options.TopicFor(source.Topic)
	n, err := p.writer.Partitions(ctx, to.Topic)
	switch {
	case errors.Is(err, kafkago.UnknownTopicOrPartition):
		return to, fmt.Errorf("dead-letter topic %q does not exist (create it, or restart with DLQ_CREATE=true): %w", to.Topic, err)
	case err != nil:
		return to, fmt.Errorf("looking up dead-letter topic %q: %w", to.Topic, err)
	}
	to.Number = source.Number % int32(n)
	return to, nil
}

// together returns how many letters, from the first on, go into one request. They are letters of one source partition, as many as
// fit.
func together(letters []record.Letter) int {
	n := 1
	for n < len(letters) && letters[n].Partition == letters[0].Partition {
		n++
	}
	return kafka.Fitting(letters[:n], func(l *record.Letter) int { return letterOverhead + len(l.Key) + len(l.Value) + len(l.Headers) })
}
