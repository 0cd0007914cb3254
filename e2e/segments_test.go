package e2e_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
	"waterwheel/reader"
	"waterwheel/timeseries"
)

// inSegments are settings of a consumer that writes segments and settles them soon.
var inSegments = []string{"SEGMENTS", "on", "SETTLE_INTERVAL", "2s", "SETTLE_AHEAD", "40s", "SETTLE_LINGER", "30s"}

// needSettling skips a test that settles segments on a server that is too slow for it.
func needSettling(t *testing.T) {
	t.Helper()
	if world.servers.Slow() {
		t.Skip("this server looks through its collection for any condition beside the _id: settling, which changes segments one by one, takes it minutes")
	}
}

// TestSegmentsLoseAndDoubleNothing: consumers that write segments are killed under load, and at every moment each measurement is
// shown once. One that writes none any more settles what is left.
func TestSegmentsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	testSegments(t, 3, func(_ *stream, c *harness.Consumer) { c.Kill() })
}

// TestSegmentsOutliveOrderlyRestarts: the same with SIGTERM.
func TestSegmentsOutliveOrderlyRestarts(t *testing.T) {
	t.Parallel()
	testSegments(t, 3, func(s *stream, c *harness.Consumer) { s.terminate(c) })
}

func testSegments(t *testing.T, times int, end func(*stream, *harness.Consumer)) {
	needSettling(t)
	const series, rate = 300, 1500
	s := newStream(t, 4)
	load := s.startLoad(s.generator(series), rate)
	for range times {
		c := s.start(inSegments...)
		s.awaitSettled(c, 1)
		s.checkShown()
		end(s, c)
		s.checkShown()
	}
	load.stop()
	c := s.start(inSegments...)
	s.awaitCommitted(c, 90*time.Second)
	s.checkShown()
	s.checkRead()
	s.check()
	s.terminate(c)

	c = s.start("SEGMENTS", "off", "SETTLE_AHEAD", "2s", "SETTLE_LINGER", "1s")
	for ctx := within(t, 2*time.Minute); s.segments(ctx) > 0; time.Sleep(200 * time.Millisecond) {
		if ctx.Err() != nil || !c.Running() {
			t.Fatalf("%d segments are left (running: %v)", s.segments(t.Context()), c.Running())
		}
	}
	s.terminate(c)
	s.checkShown()
	s.checkRead()
	if report := s.check(); report.Valid == 0 {
		t.Error("nothing was produced")
	}
}

// awaitSettled waits until a consumer has settled segments so many times.
func (s *stream) awaitSettled(c *harness.Consumer, times float64) {
	s.t.Helper()
	ctx := within(s.t, 2*time.Minute)
	for {
		metrics, err := c.Metrics(ctx)
		if err == nil && metrics.Sum("waterwheel_settlings_total", "outcome", "finished") >= times {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("the consumer settles nothing (running: %v, last scrape: %v)", c.Running(), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// segments counts those there are.
func (s *stream) segments(ctx context.Context) int64 {
	n, err := s.collection(timeseries.BucketsSuffix).CountDocuments(ctx, bson.D{{Key: timeseries.PathLow, Value: bson.D{{Key: "$gte", Value: 0}}}})
	if err != nil && ctx.Err() == nil {
		s.t.Fatal(err)
	}
	return n
}

// checkShown: each measurement that is committed is shown once at this moment.
func (s *stream) checkShown() {
	s.t.Helper()
	report, err := check.Shown(within(s.t, time.Minute), check.Source{
		Kafka: s.kafka, MongoURI: world.servers.MongoURI, Database: s.database, Topic: s.topic,
		Group: s.settings["KAFKA_GROUP_ID"], Fate: s.book.Fate,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		s.t.Errorf("what is shown is not what was produced: %v", err)
	}
}

// checkRead: a reader finds each measurement that is stored once, and no other. Nothing is produced meanwhile.
func (s *stream) checkRead() {
	s.t.Helper()
	found := s.found()
	for at, times := range found {
		if times > 1 {
			s.t.Fatalf("the reader finds %v %d times", at, times)
		}
	}
	if report := s.check(); len(found) != report.Valid {
		s.t.Errorf("the reader finds %d measurements of %d", len(found), report.Valid)
	}
}

// place is where a measurement came from.
type place struct {
	partition int32
	position  timeseries.Position
}

// found is how often a reader finds each measurement.
func (s *stream) found() map[place]int {
	s.t.Helper()
	found := map[place]int{}
	for m, err := range s.open(world.servers.MongoURI).Find(within(s.t, time.Minute), reader.Query{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		found[place{m.Source.Partition, m.Position}]++
	}
	return found
}
