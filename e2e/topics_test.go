package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// beside returns a stream on another topic, for the consumers of this one.
func (s *stream) beside(topic string, partitions int) *stream {
	s.t.Helper()
	if err := world.servers.CreateTopic(within(s.t, 30*time.Second), topic, partitions); err != nil {
		s.t.Fatal(err)
	}
	other := *s
	other.topic, other.book, other.producer = topic, events.NewBook(), harness.NewProducer(world.servers.Brokers, topic)
	s.t.Cleanup(func() {
		if err := other.producer.Close(); err != nil {
			s.t.Error(err)
		}
		if err := world.servers.DeleteTopics(s.t.Context(), topic, topic+".dlq"); err != nil && s.t.Context().Err() == nil {
			s.t.Error(err)
		}
	})
	return &other
}

// awaitDoubt waits until /readyz of a ready consumer has a sentence.
func (s *stream) awaitDoubt(c *harness.Consumer, sentence string) {
	s.t.Helper()
	ctx := within(s.t, 40*time.Second)
	for {
		status, body, err := c.Get(ctx, "/readyz")
		if err == nil && status == http.StatusOK && strings.Contains(body, sentence) {
			return
		}
		if ctx.Err() != nil {
			s.t.Fatalf("/readyz says %d %q (%v), want %q", status, body, err, sentence)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// TestTopicIsCreatedAgain deletes a topic while consumers run, and creates it again. Records that were committed before must stay
// stored once. All records of the new topic must be stored, although its offsets begin anew.
func TestTopicIsCreatedAgain(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	consumers := []*harness.Consumer{s.start(), s.start()}
	s.awaitAssigned(1, consumers...)
	before, after := 600, 900
	if world.servers.Slow() {
		before, after = 60, 90
	}
	begin, sent := time.Now().Add(-time.Hour).UnixMilli(), 0
	send := func(n int) {
		t.Helper()
		made := make([]events.Event, n)
		for i := range made {
			sent++
			made[i] = s.book.Add(events.Of(events.Reading{
				Time: begin + int64(sent)*100, Meta: fmt.Sprint("m-", sent%20), Fields: bson.D{{Key: "n", Value: int32(sent)}},
			}))
		}
		if err := s.producer.Send(within(t, time.Minute), made...); err != nil {
			t.Fatal(err)
		}
	}
	send(before)
	s.awaitCommitted(consumers[0], time.Minute)
	ctx := within(t, 3*time.Minute)
	former, _, err := s.kafka.Topic(ctx, s.topic)
	if err != nil {
		t.Fatal(err)
	}
	records, err := s.kafka.Read(ctx, former)
	if err != nil {
		t.Fatal(err)
	}

	if err := world.servers.DeleteTopics(ctx, s.topic); err != nil {
		t.Fatal(err)
	}
	for there := true; there; time.Sleep(100 * time.Millisecond) {
		if _, there, err = s.kafka.Topic(ctx, s.topic); err != nil {
			t.Fatal(err)
		}
	}
	if err := world.servers.CreateTopic(ctx, s.topic, 2); err != nil {
		t.Fatal(err)
	}
	if err := s.producer.Close(); err != nil { // it may still hold the metadata of the former topic
		t.Fatal(err)
	}
	s.producer = harness.NewProducer(world.servers.Brokers, s.topic)
	send(after)
	s.awaitCommitted(consumers[1], 90*time.Second)

	stored := map[check.Place]int{}
	ofFormer := bson.D{{Key: "control.source.topicId", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: former.ID[:]}}}
	buckets := s.collection(".buckets")
	if err := check.Listed(ctx, buckets.Database(), s.topic, ofFormer, func(at check.Place, _ bson.ObjectID) { stored[at]++ }); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if n := stored[check.Place{Partition: r.Partition, Position: check.Position{Offset: r.Offset}}]; n != 1 {
			t.Errorf("%spartition %d offset %d of the former topic is stored %d times", check.Verdict, r.Partition, r.Offset, n)
		}
	}
	if len(records) != before || len(stored) != before {
		t.Errorf("%sthe former topic had %d records, %d measurements of it are stored", check.Verdict, len(records), len(stored))
	}
	if _, err := buckets.DeleteMany(ctx, ofFormer); err != nil { // the checker knows only the present topic
		t.Fatal(err)
	}
	for _, c := range consumers {
		s.terminate(c)
	}
	if report := s.check(); report.Stored != after {
		t.Errorf("%sof the new topic: %s", check.Verdict, report)
	}
}

// TestTopicsThatMatchAPattern creates a topic while consumers run. All of them together read it from its first record, also after
// a kill. Its dead-letter topic is created, and is not read. The deletion of a topic does not disturb the
// others, and neither does a topic whose collection cannot be set up.
func TestTopicsThatMatchAPattern(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	s.settings = s.settings.With("KAFKA_TOPICS", "^"+s.topic, "KAFKA_START", "latest", "SEGMENTS", "off")
	nothing := *s
	nothing.settings = s.settings.With("KAFKA_TOPICS", "^nothing-like-"+s.topic)
	if code, out := nothing.run("check"); code != 3 || !strings.Contains(out, "no topic matches yet") || !strings.Contains(out, "connected, version ") {
		t.Errorf("check of a pattern that matches nothing: exit code %d\n%s", code, out)
	}
	a := s.start()
	s.awaitClaims(a, 2) // a claim finds out where latest is
	b := s.start()
	s.awaitClaims(b, 1)
	s.awaitAssigned(1, a, b)
	if err := s.send(t.Context(), s.generator(20), 500); err != nil {
		t.Fatal(err)
	}
	s.awaitCommitted(a, 60*time.Second)
	later := s.beside(s.topic+"-later", 4)
	if err := later.send(t.Context(), later.generator(20), 1000); err != nil {
		t.Fatal(err)
	}
	later.awaitCommitted(a, 90*time.Second)
	a.Kill()
	if err := later.send(t.Context(), later.generator(20), 1000); err != nil {
		t.Fatal(err)
	}
	later.awaitCommitted(b, 90*time.Second)
	if report := later.check(); report.Stored == 0 || report.DeadLetterCount() == 0 {
		t.Errorf("of the later topic: %s", report)
	}
	if report := s.check(); report.Stored == 0 {
		t.Errorf("of the first topic: %s", report)
	}
	if err := world.servers.DeleteTopics(within(t, 20*time.Second), later.topic); err != nil {
		t.Fatal(err)
	}
	s.awaitAssigned(2, b) // b alone, which no member disturbs
	if err := b.AwaitReady(within(t, 30*time.Second)); err != nil {
		t.Errorf("after the deleted topic was given up: %v", err)
	}
	// A topic whose collection cannot be set up keeps no consumer from starting.
	bad := s.topic + "-bad"
	unreadable := *s
	unreadable.topic = bad
	if _, err := unreadable.collection(".options").InsertOne(within(t, 20*time.Second), bson.D{{Key: "_id", Value: "options"}, {Key: "timeField", Value: 7}}); err != nil {
		t.Fatal(err)
	}
	s.beside(bad, 1)
	a = s.start()
	if err := s.send(t.Context(), s.generator(20), 500); err != nil {
		t.Fatal(err)
	}
	s.awaitAssigned(1, a, b)
	s.awaitCommitted(b, 90*time.Second)
	for _, c := range []*harness.Consumer{a, b} {
		s.awaitDoubt(c, "not read, although it matches KAFKA_TOPICS: "+bad+" (")
	}
	if err := b.AwaitReady(within(t, 30*time.Second)); err != nil {
		t.Errorf("after a topic was deleted: %v", err)
	}
	s.terminate(a)
	s.terminate(b)
	// Neither does a topic without a dead-letter topic, if consumers may not create one.
	mute := s.topic + "-mute"
	s.beside(mute, 1)
	s.settings = s.settings.With("DLQ_CREATE", "false")
	a = s.start()
	s.awaitDoubt(a, mute+" (")
	s.awaitClaims(a, 2)
	if err := s.send(t.Context(), s.generator(20), 500); err != nil {
		t.Fatal(err)
	}
	s.awaitCommitted(a, 90*time.Second)
	s.terminate(a)
	// A topic that cannot be set up does not take the place of another topic that would share a collection with it.
	held := s.beside(bad+".buckets", 1)
	s.settings = s.settings.With("DLQ_CREATE", "true")
	a = s.start()
	s.awaitDoubt(a, bad+" (")
	s.awaitClaims(a, 4) // of the first topic, of mute and of held
	if err := held.send(t.Context(), held.generator(20), 500); err != nil {
		t.Fatal(err)
	}
	held.awaitCommitted(a, 90*time.Second)
	held.check()
	s.terminate(a)
	s.check()
}
