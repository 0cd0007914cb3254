package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// Producer writes letters. Its methods may be called from several goroutines at once, except that Close comes last.
type Producer struct {
	options Options
	client  *kafka.Client
	writer  writer
}

// writer is where letters are written: *kafka.Writer.
type writer interface {
	// Partitions is how many partitions a topic has.
	Partitions(ctx context.Context, topic string) (int, error)
	// Write writes messages in one request, and waits until all in-sync replicas have them. They are not kept.
	Write(ctx context.Context, to record.Partition, messages ...kafka.Message) error
	// Route makes it a writer to these topics.
	Route(topics ...string)
	// Create makes topics that are missing.
	Create(ctx context.Context, topics ...kafka.NewTopic) error
	// Close closes the connections.
	Close()
}

// New connects to nothing yet: letters have connections of their own.
func New(client *kafka.Client, options Options) *Producer {
	return &Producer{options, client, client.Writer(options.Topics()...)}
}

// Add makes letters of another source topic go to its dead-letter topic, which Setup would find or create. It may be called again after
// an error, and while letters are produced, but not twice at the same time.
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

// Produce writes letters in their order and returns how many of them, from the first on, are acknowledged by all in-sync
// replicas: all, or the error says why the next one is not. A *record.StopError: its dead-letter topic takes it in no form.
// After another error the same letters may be produced again. A letter whose acknowledgement was lost is then written twice,
// which its headers let readers notice.
//
// A letter too long for its topic is written alone, its value, headers and key cut, with a header that says so. The letters
// and their slices are not kept.
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

// partition is the one for the letters of a source partition: always the same one, so that they keep their order.
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

// together is how many letters, from the first on, are written in one request: the letters of one source partition, as far as
// they fit.
func together(letters []record.Letter) int {
	n := 1
	for n < len(letters) && letters[n].Partition == letters[0].Partition {
		n++
	}
	return kafka.Fitting(letters[:n], func(l *record.Letter) int { return letterOverhead + len(l.Key) + len(l.Value) + len(l.Headers) })
}
