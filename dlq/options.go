package dlq

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
)

// defaultTimeout bounds one request where Options.Timeout is 0.
const defaultTimeout = 5 * time.Second

// Options say where letters go.
type Options struct {
	// Brokers are the bootstrap addresses, host:port. Required.
	Brokers []string
	// Transport carries the requests and belongs to the producer, which closes its connections. Its MetadataTopics must
	// be Topics: a transport knows no leader of others. Nil: plaintext without authentication.
	Transport *kafka.Transport
	// Sources are the topics whose letters are produced. Required.
	Sources []string
	// TopicFor is the name of the dead-letter topic of a source topic; sources may share one. Required.
	TopicFor func(source string) string
	// GroupID is the consumer group, written into each letter.
	GroupID string
	// Create makes missing dead-letter topics at Setup; otherwise a missing one is an error.
	Create bool
	// Partitions and Replication are those of a created topic; 0: one partition, and the broker's default replication.
	Partitions, Replication int
	// Retention is how long a created topic keeps letters after they were written; 0: until somebody deletes them.
	Retention time.Duration
	// Timeout bounds one request, broker's time included; 0: 5 s.
	Timeout time.Duration
}

// Topics lists the dead-letter topics of all sources, sorted, each once.
func (o *Options) Topics() []string {
	names := make([]string, 0, len(o.Sources))
	for _, source := range o.Sources {
		names = append(names, o.TopicFor(source))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (o *Options) normalize() error {
	if len(o.Brokers) == 0 || len(o.Sources) == 0 || o.TopicFor == nil {
		return errors.New("brokers, source topics and a dead-letter topic are required")
	}
	for _, name := range o.Topics() {
		if slices.Contains(o.Sources, name) {
			return fmt.Errorf("dead-letter topic %q is also a source topic: a bad record would come back for ever", name)
		}
	}
	if o.Partitions < 0 || o.Replication < -1 || o.Timeout < 0 {
		return errors.New("partitions, replication and timeout must not be negative")
	}
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.Replication == 0 {
		o.Replication = -1
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return nil
}
