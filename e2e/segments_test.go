package e2e_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
	"waterwheel/internal/timeseries"
	"waterwheel/reader"
)

// inSegments are settings of a consumer that writes segments and compacts them soon.
var inSegments = []string{"SEGMENTS", "on", "COMPACT_INTERVAL", "2s", "COMPACT_VISIBILITY_DELAY", "40s", "SEGMENT_RETENTION", "30s"}

// needCompaction skips a test that compacts segments on a server that is too slow for it.
func needCompaction(t *testing.T) {
	t.Helper()
	if world.servers.Slow() {
		t.Skip("this server looks through its collection for any condition beside the _id: compaction, which changes segments one by one, takes it minutes")
	}
}

// TestSegmentsLoseAndDoubleNothing kills consumers that write segments, under load. At every moment each measurement is shown
// once. A consumer that does not write segments any more compacts the remaining ones.
func TestSegmentsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	testSegments(t, 3, func(_ *stream, c *harness.Consumer) { c.Kill() })
}

// TestSegmentsOutliveOrderlyRestarts is the same with SIGTERM.
func TestSegmentsOutliveOrderlyRestarts(t *testing.T) {
	t.Parallel()
	testSegments(t, 3, func(s *stream, c *harness.Consumer) { s.terminate(c) })
}

func testSegments(t *testing.T, times int, end func(*stream, *harness.Consumer)) {
	needCompaction(t)
	const series, rate = 300, 1500
	s := newStream(t, 4)
	load := s.startLoad(s.generator(series), rate)
	for range times {
		c := s.start(inSegments...)
		s.awaitCompacted(c, 1)
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

	c = s.start("SEGMENTS", "off", "COMPACT_VISIBILITY_DELAY", "2s", "SEGMENT_RETENTION", "1s")
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

// TestSIGTERMFinishesACompaction checks that a consumer that is stopped while segments are frozen leaves none frozen. Nothing is
// shown twice, even if no consumer starts for a long time.
func TestSIGTERMFinishesACompaction(t *testing.T) {
	t.Parallel()
	needCompaction(t)
	s := newStream(t, 2)
	load := s.startLoad(s.generator(300), 1500)
	frozen := bson.D{
		{Key: timeseries.PathSegmentCompaction, Value: bson.D{{Key: "$exists", Value: true}}},
		{Key: timeseries.PathVisibleUntil, Value: bson.D{{Key: "$exists", Value: false}}},
	}
	count := func(ctx context.Context) int64 {
		n, err := s.collection(timeseries.BucketsSuffix).CountDocuments(ctx, frozen)
		if err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		return n
	}
	caught := 0
	for range 4 {
		c := s.start("SEGMENTS", "on", "COMPACT_INTERVAL", "1s", "COMPACT_VISIBILITY_DELAY", "30s", "SEGMENT_RETENTION", "30s")
		s.awaitCompacted(c, 1)
		for ctx := within(t, 20*time.Second); ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if count(ctx) > 0 {
				caught++
				break
			}
		}
		s.terminate(c)
		if n := count(within(t, time.Minute)); n > 0 {
			t.Errorf("%d segments are frozen after an orderly end; the log:\n%s", n, c.Log())
		}
		s.checkShown()
	}
	load.stop()
	if caught == 0 {
		t.Error("no consumer was stopped in the middle of a compaction")
	}
	time.Sleep(35 * time.Second) // until all buckets are shown
	s.checkShown()
	c := s.start(inSegments...)
	s.awaitCommitted(c, 90*time.Second)
	s.terminate(c)
	s.check()
	t.Logf("stopped in the middle of a compaction: %d times", caught)
}

// awaitCompacted waits until a consumer has compacted segments the given number of times.
func (s *stream) awaitCompacted(c *harness.Consumer, times float64) {
	s.t.Helper()
	ctx := within(s.t, 2*time.Minute)
	for {
		metrics, err := c.Metrics(ctx)
		if err == nil && metrics.Sum("waterwheel_compactions_total", "outcome", "finished") >= times {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("the consumer compacts nothing (running: %v, last scrape: %v)", c.Running(), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// segments returns the number of segments.
func (s *stream) segments(ctx context.Context) int64 {
	n, err := s.collection(timeseries.BucketsSuffix).CountDocuments(ctx, bson.D{{Key: timeseries.PathOwner, Value: bson.D{{Key: "$exists", Value: true}}}})
	if err != nil && ctx.Err() == nil {
		s.t.Fatal(err)
	}
	return n
}

// checkShown checks that each committed measurement is shown once at this moment.
func (s *stream) checkShown() {
	s.t.Helper()
	report, err := check.Shown(within(s.t, time.Minute), s.source())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		s.t.Errorf("the shown measurements differ from the produced ones: %v", err)
	}
}

// checkRead checks that a reader finds each stored measurement once, and no other. Nothing is produced meanwhile.
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

// place is the position of a measurement in the topic.
type place struct {
	partition int32
	position  timeseries.Position
}

// found returns how often a reader finds each measurement.
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
