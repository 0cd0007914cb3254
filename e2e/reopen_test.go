package e2e_test

import (
	"sync"
	"testing"
	"time"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// TestLateDataAcrossRestarts has readings half of which come out of order, a tenth of them hours late. The consumer is ended and
// killed in between. With BUCKET_REOPEN they go into buckets that earlier processes have stored, otherwise into new ones. In both
// cases they are stored once, with the right extremes.
func TestLateDataAcrossRestarts(t *testing.T) {
	t.Parallel()
	buckets := map[string]int{} // number of buckets by the setting
	var mu sync.Mutex
	t.Run("BUCKET_REOPEN", func(t *testing.T) {
		for _, reopen := range []string{"true", "false"} {
			t.Run(reopen, func(t *testing.T) {
				t.Parallel()
				report := testLateData(t, reopen)
				mu.Lock()
				defer mu.Unlock()
				buckets[reopen] = report.Buckets
			})
		}
	})
	if buckets["true"] >= buckets["false"] {
		t.Errorf("%d buckets with reopening, %d without", buckets["true"], buckets["false"])
	}
}

// testLateData lets four processes in turn store one stream.
func testLateData(t *testing.T, reopen string) *check.Report {
	series, records := 40, 6000
	if world.servers.Slow() {
		series, records = 10, 500
	}
	s := newStream(t, 4).inBuckets()
	g := events.NewGenerator(events.Options{
		Series: series, Start: time.Now().Add(-4 * time.Hour).Truncate(time.Second), Step: 5 * time.Second,
		MaxBytes: maxEventBytes, Seed: 7, Late: 0.4, VeryLate: 0.1,
	})
	archived := 0.0
	for life := range 4 {
		c := s.start("BUCKET_REOPEN", reopen)
		for range 4 { // each is stored before the next, so that late measurements find buckets that are not being written
			if err := s.send(within(t, time.Minute), g, records/4); err != nil {
				t.Fatal(err)
			}
			s.awaitCommitted(c, 90*time.Second)
		}
		archived += s.checkReopened(c, life, reopen == "true")
		if life%2 == 0 {
			c.Kill()
		} else {
			s.terminate(c)
		}
	}
	if reopen == "true" && archived == 0 {
		t.Error("no archived bucket was reopened")
	}
	return s.check()
}

// checkReopened checks in the metrics of a process whether it found the buckets of earlier processes. It returns the number of
// buckets that the process has archived and reopened itself.
func (s *stream) checkReopened(c *harness.Consumer, life int, reopen bool) (archived float64) {
	s.t.Helper()
	metrics, err := c.Metrics(within(s.t, 5*time.Second))
	if err != nil {
		s.t.Fatal(err)
	}
	query := metrics.Sum("waterwheel_buckets_reopened_total", "path", "query")
	archived = metrics.Sum("waterwheel_buckets_reopened_total", "path", "archived")
	lookups := metrics.Sum("waterwheel_bucket_lookups_total")
	s.t.Logf("life %d: %v buckets opened, %v reopened by query, %v from the archive, %v look-ups", life,
		metrics.Sum("waterwheel_buckets_opened_total"), query, archived, lookups)
	switch {
	case !reopen && (query > 0 || archived > 0 || lookups > 0):
		s.t.Errorf("life %d: without reopening %v look-ups, %v buckets reopened", life, lookups, query+archived)
	case reopen && life > 0 && query == 0:
		s.t.Errorf("life %d: no stored bucket of an earlier life was reopened", life)
	}
	return archived
}
