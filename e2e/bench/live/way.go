package live

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/harness"
)

// Way is a way to store measurements.
type Way string

// These are the ways.
const (
	Buckets  Way = "buckets"  // the consumer with SEGMENTS=off
	Segments Way = "segments" // the consumer with SEGMENTS=on
	Plain    Way = "plain"    // a naive consumer with a document per measurement
)

// Ways lists all ways, in the order of a case's rows.
var Ways = []Way{Buckets, Segments, Plain}

// ParseWays parses the ways of a command line, such as buckets,segments,plain.
func ParseWays(list string) ([]Way, error) {
	var ways []Way
	for name := range strings.SplitSeq(list, ",") {
		way := Way(name)
		if !slices.Contains(Ways, way) || slices.Contains(ways, way) {
			return nil, fmt.Errorf("%q is not one of %s, %s and %s, each once", name, Buckets, Segments, Plain)
		}
		ways = append(ways, way)
	}
	return ways, nil
}

// leastAhead is the minimum of COMPACT_VISIBILITY_DELAY. The inserts of a busy server fit into it.
const leastAhead = 5 * time.Second

// settings returns the settings of a consumer that stores in this way. Compactions and deletions of segments come much earlier
// than by default, so that the measured time contains a fair share of them.
func (w Way) settings(lasting time.Duration) harness.Settings {
	if w == Buckets {
		return harness.Settings{"SEGMENTS": "off"}
	}
	ahead := max(lasting/10, leastAhead).String()
	return harness.Settings{"SEGMENTS": "on", "COMPACT_INTERVAL": compacting(lasting).String(), "COMPACT_VISIBILITY_DELAY": ahead, "SEGMENT_RETENTION": ahead}
}

// compacting returns the time between two compactions.
func compacting(lasting time.Duration) time.Duration { return (lasting / 4).Round(time.Millisecond) }

// start starts the process that stores a topic in this way, in a database with the topic's name.
func (w Way) start(ctx context.Context, b *bench.Bench, topic string, lasting time.Duration) (store, error) {
	if w == Plain {
		f, err := b.Follow(ctx, topic, topic)
		return follower{f}, err
	}
	settings := harness.Settings{
		"KAFKA_BROKERS": b.Servers.Brokers, "KAFKA_TOPICS": topic, "KAFKA_GROUP_ID": topic,
		"MONGODB_URI": b.Servers.MongoURI, "MONGODB_DATABASE": topic, "LOG_FORMAT": "text",
	}
	for _, more := range []harness.Settings{w.settings(lasting), b.Settings} {
		for name, value := range more {
			settings[name] = value
		}
	}
	c, err := harness.Start(b.Consumer, settings)
	return consumer{c}, err
}

// store is a process that stores the produced records.
type store interface {
	// ready waits until the process reads.
	ready(ctx context.Context) error
	// counts returns the totals of the process so far.
	counts(ctx context.Context) (counts, error)
	PID() int
	Log() string
	Ended() <-chan struct{}
	Terminate(ctx context.Context) (code int, err error)
	Kill()
}

// counts are the totals of a process since its start. writes counts writes of documents with new measurements, and calls for
// Plain.
type counts struct{ stored, writes, compacted float64 }

// consumer is the measured program.
type consumer struct{ *harness.Consumer }

func (c consumer) ready(ctx context.Context) error { return c.AwaitReady(ctx) }

func (c consumer) counts(ctx context.Context) (counts, error) {
	metrics, err := c.Metrics(ctx)
	if err != nil {
		return counts{}, err
	}
	return counts{
		stored: metrics.Sum("waterwheel_measurements_stored_total"), writes: metrics.Sum("waterwheel_bucket_commits_total"),
		compacted: metrics.Sum("waterwheel_measurements_compacted_total"),
	}, nil
}

// follower is the naive consumer.
type follower struct{ *bench.Follower }

// ready does not wait, because the naive consumer reads from the beginning of the log.
func (f follower) ready(context.Context) error { return nil }

func (f follower) counts(context.Context) (c counts, err error) {
	c.stored, c.writes = f.Progress()
	return c, nil
}
