package e2e_test

import (
	"slices"
	"testing"
	"time"

	"waterwheel/e2e/events"
)

// TestStoresEveryMeasurementOnce stores a large mixed stream. Each valid measurement must be in a bucket once, with the right
// columns and extremes. Each bad record must be a letter.
func TestStoresEveryMeasurementOnce(t *testing.T) {
	t.Parallel()
	series, records := 500, 100_000
	if world.servers.Slow() {
		series, records = 30, 4_000
	}
	s := newStream(t, 4)
	start := time.Now()
	if err := s.send(within(t, time.Minute), s.generator(series), records); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d records produced in %.1fs", records, time.Since(start).Seconds())

	start = time.Now()
	c := s.start()
	s.awaitCommitted(c, 90*time.Second)
	t.Logf("all stored and committed after %.1fs", time.Since(start).Seconds())
	metrics, err := c.Metrics(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	s.terminate(c)

	report := s.check()
	if report.Valid < records*9/10 || report.Tombstones == 0 {
		t.Errorf("%d valid measurements and %d tombstones of %d records: too few for a test", report.Valid, report.Tombstones, records)
	}
	if want := 2 * series; report.Buckets+report.Segments < want {
		t.Errorf("%d buckets and %d segments, want at least %d", report.Buckets, report.Segments, want)
	}
	reasons := events.Reasons()
	for _, reason := range reasons {
		if report.DeadLetters[reason] == 0 {
			t.Errorf("no letter of reason %s", reason)
		}
	}
	for reason := range report.DeadLetters {
		if !slices.Contains(reasons, reason) {
			t.Errorf("%d letters of reason %s", report.DeadLetters[reason], reason)
		}
	}
	for name, want := range map[string]int{
		"waterwheel_records_read_total":         report.Records,
		"waterwheel_measurements_stored_total":  report.Stored,
		"waterwheel_dead_letters_total":         report.DeadLetterCount(),
		"waterwheel_measurements_skipped_total": report.Tombstones,
	} {
		if got := int(metrics.Sum(name)); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}
