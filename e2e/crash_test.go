package e2e_test

import (
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// TestCrashesLoseAndDoubleNothing kills and restarts a consumer again and again under load.
func TestCrashesLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	testRestarts(t, 3, func(_ *stream, c *harness.Consumer) { c.Kill() })
}

// TestCrashesWithoutReopening does the same without look-ups of stored buckets, so that each process begins new buckets.
func TestCrashesWithoutReopening(t *testing.T) {
	t.Parallel()
	testRestarts(t, 3, func(_ *stream, c *harness.Consumer) { c.Kill() }, "BUCKET_REOPEN", "false")
}

// TestCrashesOfAStaticMember does the same with static membership. A restarted process gets its partitions at once, while writes
// of the process before it may still be in flight.
func TestCrashesOfAStaticMember(t *testing.T) {
	t.Parallel()
	testRestarts(t, 3, func(_ *stream, c *harness.Consumer) { c.Kill() }, "KAFKA_INSTANCE_ID", "one")
}

// TestOrderlyRestartsLoseAndDoubleNothing ends a consumer with SIGTERM and restarts it, again and again under load.
func TestOrderlyRestartsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	testRestarts(t, 4, func(s *stream, c *harness.Consumer) { s.terminate(c) })
}

// testRestarts ends consumers in the middle of a stream, each after it has stored something, and lets a last one finish.
func testRestarts(t *testing.T, times int, end func(*stream, *harness.Consumer), pairs ...string) {
	series, rate := 100, 3000
	if world.servers.Slow() {
		series, rate = 30, 120
	}
	s := newStream(t, 4)
	load := s.startLoad(s.generator(series), rate)
	for range times {
		c := s.start(pairs...)
		s.awaitStored(c, time.Minute)
		end(s, c)
	}
	load.stop()
	c := s.start(pairs...)
	s.awaitCommitted(c, 90*time.Second)
	s.terminate(c)
	if report := s.check(); report.Valid == 0 {
		t.Error("nothing was produced")
	}
}

// awaitStored waits until a consumer has stored something, so that it is at work when it is ended.
func (s *stream) awaitStored(c *harness.Consumer, d time.Duration) {
	s.t.Helper()
	ctx := within(s.t, d)
	for {
		metrics, err := c.Metrics(ctx)
		if err == nil && metrics.Sum("waterwheel_measurements_stored_total") > 0 {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("the consumer stores nothing (running: %v, last scrape: %v)", c.Running(), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
