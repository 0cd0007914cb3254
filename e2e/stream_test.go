package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// stream is the topic of one test, with its group and database, and the book of the produced events.
type stream struct {
	t        *testing.T
	topic    string
	database string
	settings harness.Settings
	book     *events.Book
	kafka    *check.Kafka
	producer *harness.Producer
}

// newStream creates a topic for a test, and removes it with the database at the test's end. settings are topic settings, as pairs
// of name and value.
func newStream(t *testing.T, partitions int, settings ...string) *stream {
	t.Helper()
	ctx := within(t, 30*time.Second)
	test := strings.ReplaceAll(strings.ToLower(t.Name()), "/", "-")
	name := fmt.Sprintf("e2e-%s-%x", test, time.Now().UnixNano()&0xffffff)
	if err := world.servers.CreateTopic(ctx, name, partitions, settings...); err != nil {
		t.Fatal(err)
	}
	kafka, err := check.DialKafka(world.servers.Brokers)
	if err != nil {
		t.Fatal(err)
	}
	s := &stream{
		t: t, topic: name, database: databaseOf(name), book: events.NewBook(), kafka: kafka,
		settings: world.servers.Short(name, databaseOf(name)),
		producer: harness.NewProducer(world.servers.Brokers, name),
	}
	t.Cleanup(s.remove)
	return s
}

// inBuckets makes consumers of the stream write buckets directly, for tests about buckets.
func (s *stream) inBuckets() *stream {
	s.settings = s.settings.With("SEGMENTS", "off")
	return s
}

// databaseOf returns a database name within MongoDB's limit of 63 bytes.
func databaseOf(topic string) string { return topic[max(0, len(topic)-60):] }

// remove restores the given servers to their former state.
func (s *stream) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.producer.Close(); err != nil {
		s.t.Errorf("closing the producer: %v", err)
	}
	s.kafka.Close()
	if err := world.servers.DeleteTopics(ctx, s.topic, s.topic+".dlq"); err != nil {
		s.t.Error(err)
	}
	if err := world.servers.DropDatabase(ctx, databaseOf(s.topic)); err != nil {
		s.t.Error(err)
	}
}

// within returns the test's context with a timeout.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// maxEventBytes is the EVENT_MAX_BYTES of the tests. It is small, so that oversized events are cheap to make.
const maxEventBytes = 64 << 10

// generator returns a generator of the test's events, with times around the last hours.
func (s *stream) generator(series int, changes ...func(*events.Options)) *events.Generator {
	o := events.Options{
		Series: series, Start: time.Now().Add(-4 * time.Hour).Truncate(time.Second), Step: 30 * time.Second,
		MaxBytes: maxEventBytes, Seed: uint64(time.Now().UnixNano()),
	}
	for _, change := range changes {
		change(&o)
	}
	s.t.Logf("seed %d", o.Seed)
	return events.NewGenerator(o)
}

// send produces n generated events in batches.
func (s *stream) send(ctx context.Context, g *events.Generator, n int) error {
	for n > 0 {
		batch := make([]events.Event, min(n, 1000))
		for i := range batch {
			batch[i] = s.book.Add(g.Next())
		}
		if err := s.producer.Send(ctx, batch...); err != nil {
			return err
		}
		n -= len(batch)
	}
	return nil
}

// start starts a consumer, and ends it with the test if it still runs. It returns when the process answers or has ended, because
// a signal kills a process that cannot catch it yet.
func (s *stream) start(pairs ...string) *harness.Consumer {
	s.t.Helper()
	return s.startAs(world.binary, pairs...)
}

// startAs is start for another version of the program.
func (s *stream) startAs(binary string, pairs ...string) *harness.Consumer {
	s.t.Helper()
	settings := s.settings.With("EVENT_MAX_BYTES", fmt.Sprint(maxEventBytes)).With(pairs...)
	c, err := harness.Start(binary, settings)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.explain(c)
		}
		c.Kill()
	})
	for ctx := within(s.t, 20*time.Second); c.Running(); time.Sleep(20 * time.Millisecond) {
		if _, _, err := c.Get(ctx, "/healthz"); err == nil {
			break
		}
		if ctx.Err() != nil {
			s.t.Fatal("the consumer does not answer")
		}
	}
	return c
}

// explain logs a consumer's status and output.
func (s *stream) explain(c *harness.Consumer) {
	if c.Running() {
		if _, status, err := c.Get(context.Background(), "/api/status"); err == nil {
			s.t.Logf("status of process %d: %s", c.PID(), status)
		}
		if _, metrics, err := c.Get(context.Background(), "/metrics"); err == nil {
			own := slices.DeleteFunc(strings.Split(metrics, "\n"), func(l string) bool {
				return !strings.HasPrefix(l, "waterwheel_") || strings.Contains(l, "_bucket{") || strings.HasSuffix(l, " 0")
			})
			s.t.Logf("metrics of process %d:\n%s", c.PID(), strings.Join(own, "\n"))
		}
	}
	s.t.Logf("log of process %d:\n%s", c.PID(), c.Log())
}

// terminate ends a consumer with SIGTERM. The consumer must end with code 0.
func (s *stream) terminate(c *harness.Consumer) {
	s.t.Helper()
	code, err := c.Terminate(within(s.t, 20*time.Second))
	if err != nil {
		s.t.Fatal(err)
	}
	if code != 0 {
		s.t.Errorf("after SIGTERM the consumer ended with code %d, want 0", code)
	}
}

// awaitCommitted waits until all records produced so far are committed. The consumer must not end meanwhile.
func (s *stream) awaitCommitted(c *harness.Consumer, d time.Duration) {
	s.t.Helper()
	ctx, cancel := context.WithCancelCause(within(s.t, d))
	defer cancel(nil)
	go func() {
		select {
		case <-c.Ended():
			cancel(errors.New("the consumer ended"))
		case <-ctx.Done():
		}
	}()
	topic, _, err := s.kafka.Topic(ctx, s.topic)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.kafka.AwaitCommitted(ctx, s.settings["KAFKA_GROUP_ID"], topic); err != nil {
		s.t.Fatal(err, context.Cause(ctx))
	}
}

// check compares all stored documents with all produced records.
func (s *stream) check() *check.Report {
	s.t.Helper()
	report, err := check.Run(within(s.t, time.Minute), s.source())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		s.t.Errorf("the stored measurements differ from the produced ones: %v", err)
	}
	s.t.Log(report)
	return report
}

// source says where the records and documents of the stream are.
func (s *stream) source() check.Source {
	return check.Source{
		Kafka: s.kafka, MongoURI: world.servers.MongoURI, Database: s.database, Topic: s.topic,
		Group: s.settings["KAFKA_GROUP_ID"], Fate: s.book.Fate,
	}
}
