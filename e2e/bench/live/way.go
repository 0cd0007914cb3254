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

// Way is how measurements are stored.
type Way string

// The ways.
const (
	Buckets  Way = "buckets"  // the consumer with SEGMENTS=off
	Segments Way = "segments" // the consumer with SEGMENTS=on
	Plain    Way = "plain"    // a naive consumer: each measurement a document
)

// Ways are all of them, in the order of a case's rows.
var Ways = []Way{Buckets, Segments, Plain}

// ParseWays reads ways as the command line has them: buckets,segments,plain.
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

// leastAhead is how far ahead of what is shown segments are compacted at least: the inserts of a busy server fit into it.
const leastAhead = 5 * time.Second

// settings are the settings of a consumer that stores in this way. So that what is measured has its share of compactions, and of segments that
// are deleted, these come much sooner than they usually do.
func (w Way) settings(lasting time.Duration) harness.Settings {
	if w == Buckets {
		return harness.Settings{"SEGMENTS": "off"}
	}
	ahead := max(lasting/10, leastAhead).String()
	return harness.Settings{"SEGMENTS": "on", "COMPACT_INTERVAL": compacting(lasting).String(), "COMPACT_VISIBILITY_DELAY": ahead, "SEGMENT_RETENTION": ahead}
}

// compacting is the time between two compactions.
func compacting(lasting time.Duration) time.Duration { return (lasting / 4).Round(time.Millisecond) }

// start starts the process that stores a topic in this way, in a database of the same name.
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

// store is a process that stores what is produced.
type store interface {
	// ready waits until it reads.
	ready(ctx context.Context) error
	// counts tells what it has done so far.
	counts(ctx context.Context) (counts, error)
	PID() int
	Log() string
	Ended() <-chan struct{}
	Terminate(ctx context.Context) (code int, err error)
	Kill()
}

// counts are what a process has done from its beginning: measurements stored; writes of documents with them, for the plain way calls;
// measurements compacted.
type counts struct{ stored, writes, compacted float64 }

// consumer is the program that is measured.
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

// ready does not wait: it reads from the log's beginning.
func (f follower) ready(context.Context) error { return nil }

func (f follower) counts(context.Context) (c counts, err error) {
	c.stored, c.writes = f.Progress()
	return c, nil
}
