package e2e_test

import (
	"testing"
	"time"

	"waterwheel/e2e/events"
)

// TestNewestFirst stores a backfill whose times go back by a minute with each record. It opens a bucket for each, after a look-up
// of stored buckets of another window. The look-ups are made many at a time, so that the backfill takes seconds.
func TestNewestFirst(t *testing.T) {
	t.Parallel()
	records := 12_000
	if world.servers.Slow() {
		records = 500
	}
	s := newStream(t, 1).inBuckets()
	g := events.NewGenerator(events.Options{
		Series: 2, Start: time.Now().Add(-time.Hour).Truncate(time.Second), Step: -time.Minute,
		MaxBytes: maxEventBytes, Seed: 5,
	})
	// Another process stores the newest measurements, because a consumer that knows of no stored bucket makes no look-up.
	if err := s.send(within(t, time.Minute), g, 20); err != nil {
		t.Fatal(err)
	}
	first := s.start()
	s.awaitCommitted(first, 30*time.Second)
	s.terminate(first)
	if err := s.send(within(t, time.Minute), g, records); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	c := s.start()
	s.awaitCommitted(c, 90*time.Second)
	t.Logf("%d records stored and committed after %.1fs", records, time.Since(start).Seconds())
	metrics, err := c.Metrics(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	s.terminate(c)
	lookups, queries := metrics.Sum("waterwheel_bucket_lookups_total"), metrics.Count("waterwheel_mongodb_command_duration_seconds", "command", "find")
	t.Logf("%v look-ups in %v queries", lookups, queries)
	if lookups < float64(records)/2 || queries == 0 || queries*10 > lookups {
		t.Errorf("%v look-ups took %v queries, want at most a tenth", lookups, queries)
	}
	s.check()
}
