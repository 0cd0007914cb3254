package e2e_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// TestCrashesLoseAndDoubleNothing: a consumer is killed and restarted again and again under load.
func TestCrashesLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	testRestarts(t, 3, func(_ *stream, c *harness.Consumer) { c.Kill() })
}

// TestOrderlyRestartsLoseAndDoubleNothing: a consumer is ended by SIGTERM and restarted again and again under load.
func TestOrderlyRestartsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	testRestarts(t, 4, func(s *stream, c *harness.Consumer) { s.terminate(c) })
}

// testRestarts ends consumers in the middle of a stream, after some time with each, and lets a last one finish.
func testRestarts(t *testing.T, times int, end func(*stream, *harness.Consumer)) {
	series, rate := 100, 3000
	if world.servers.Slow() {
		series, rate = 30, 120
	}
	s := newStream(t, 4)
	load := s.startLoad(s.generator(series), rate)
	for range times {
		c := s.start()
		s.awaitStored(c, 30*time.Second)
		end(s, c)
	}
	load.stop()
	c := s.start()
	s.awaitCommitted(60 * time.Second)
	s.terminate(c)
	if report := s.check(); report.Valid == 0 {
		t.Error("nothing was produced")
	}
}

// awaitStored waits until a consumer has stored something, so that ending it hits it at work.
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

// load is a producer at work in the background.
type load struct {
	s      *stream
	group  *errgroup.Group
	cancel context.CancelFunc
}

// startLoad produces about rate events a second until stopped.
func (s *stream) startLoad(g *events.Generator, rate int) *load {
	ctx, cancel := context.WithCancel(s.t.Context())
	l := &load{s: s, group: &errgroup.Group{}, cancel: cancel}
	l.group.Go(func() error {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := s.send(context.WithoutCancel(ctx), g, rate/10); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		return nil
	})
	s.t.Cleanup(func() { cancel(); l.group.Wait() })
	return l
}

// stop ends the load after its last batch is acknowledged.
func (l *load) stop() {
	l.s.t.Helper()
	l.cancel()
	if err := l.group.Wait(); err != nil {
		l.s.t.Fatal(err)
	}
}
