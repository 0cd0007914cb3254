package status

import (
	"time"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/kafka"
)

// Topics is the last look for topics that match the patterns of KAFKA_TOPICS.
type Topics struct {
	// None means that no topic is read.
	None bool
	// Unread are topics that match and are not read, sorted, each with the reason.
	Unread []string
	// Failed is why the look failed. Since is when the first of the looks in a row failed, on the clock of package kafka.
	Failed error
	Since  time.Duration
}

// failing reports whether Kafka did not answer the last look, and no partition can tell that.
func (t *Topics) failing() bool { return t != nil && t.None && t.Failed != nil }

// topics adds sentences about the topics that match the patterns of KAFKA_TOPICS. Partitions tell about an outage of Kafka by
// themselves, if there are some.
func (r *readiness) topics(t *Topics) {
	switch {
	case !t.None:
	case t.Failed != nil && kafka.Now()-t.Since > patience:
		r.notReady(aboutOutages, "Kafka has been failing since %s: %v",
			text.Time(r.at.Add(t.Since-kafka.Now())), t.Failed)
	default:
		r.degraded("no topic matches KAFKA_TOPICS, or this user may not see it: the consumer looks for topics every 15 seconds")
	}
	if len(t.Unread) > 0 {
		r.degraded("not read, although it matches KAFKA_TOPICS: %s", text.List(t.Unread))
	}
}
