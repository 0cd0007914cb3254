package dlq

import (
	"slices"
	"time"
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
