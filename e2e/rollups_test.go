package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
	"waterwheel/reader"
)

// rolledUp are settings of a consumer that keeps rollups of all levels, with little delay.
var rolledUp = []string{
	"ROLLUP_LEVELS", "1m,1h:17520h,1d", "ROLLUP_INTERVAL", "1s", "ROLLUP_SHARE", "1", "KAFKA_INSTANCE_ID", "one",
	"COMPACT_INTERVAL", "5s", "COMPACT_VISIBILITY_DELAY", "3s", "SEGMENT_RETENTION", "30s",
}

// TestRollupsOutliveKills kills a consumer under load again and again. Afterwards the totals by minute, hour and day must equal
// the totals that the test computes from all measurements.
func TestRollupsOutliveKills(t *testing.T) {
	t.Parallel()
	series, rate, times := 50, 2000, 3
	if world.servers.Slow() {
		series, rate = 8, 40
	}
	s := newStream(t, 3)
	load := s.startLoad(s.generator(series), rate)
	for range times {
		c := s.start(rolledUp...)
		s.awaitStored(c, time.Minute)
		s.awaitRows(c, time.Minute)
		c.Kill()
	}
	load.stop()
	c := s.start(rolledUp...)
	s.awaitCommitted(c, 90*time.Second)
	s.awaitRolledUp(c)
	s.compareRollups()
	s.check()
	s.t.Log(s.succeed("rollup", "verify"))

	if world.servers.Slow() { // it needs minutes to compute the rows of an edit
		s.terminate(c)
		return
	}
	s.edit("delete-meta", "--yes", "--closed", "--filter", `{"meta.id": {"$gte": 10}}`)
	s.awaitRolledUp(c)
	s.awaitComputedNotes(c, 2*time.Minute)
	s.compareRollups()
	s.terminate(c)
	s.t.Log(s.succeed("rollup", "status"))
}

// TestRollupsTakeNoMeasurements checks that a consumer whose collection is a rollup does not start, and says why.
func TestRollupsTakeNoMeasurements(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	c := s.start("ROLLUP_LEVELS", "1h")
	if err := c.AwaitReady(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	s.terminate(c)
	c = s.start("MONGODB_COLLECTION", s.topic+"_1h")
	code, err := c.Wait(within(t, time.Minute))
	if want := "is a rollup of " + s.topic; err != nil || code != 1 || !strings.Contains(c.Log(), want) {
		t.Errorf("the consumer ended with code %d (%v), and does not say that its collection %s", code, err, want)
	}
}

// awaitRows waits until a consumer has written rollup rows, so that it is doing this work when it is killed.
func (s *stream) awaitRows(c *harness.Consumer, d time.Duration) {
	s.t.Helper()
	for ctx := within(s.t, d); ; time.Sleep(20 * time.Millisecond) {
		metrics, err := c.Metrics(ctx)
		if err == nil && metrics.Sum("waterwheel_rollup_rows_total") > 0 {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("the consumer writes no rollup rows (running: %v, last scrape: %v)", c.Running(), err)
		}
	}
}

// rollupPatience is the timeout for waiting for rows and reading them. The embedded server scans its collection for most of them.
func rollupPatience() time.Duration {
	if world.servers.Slow() {
		return 5 * time.Minute
	}
	return time.Minute
}

// awaitRolledUp waits until the watermarks of all partitions have reached the committed offsets.
func (s *stream) awaitRolledUp(c *harness.Consumer) {
	s.t.Helper()
	patience, last := rollupPatience(), ""
	for ctx := within(s.t, patience); ; time.Sleep(100 * time.Millisecond) {
		behind, err := check.BehindRollups(ctx, s.source())
		if err != nil {
			behind = err.Error()
		}
		if behind == "" {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("the rollups are not complete after %v (running: %v): %s, and before: %s", patience, c.Running(), behind, last)
		}
		last = behind
	}
}

// awaitComputedNotes waits until the rows of edited series were computed. The note stays for a while, but is read once a second
// here.
func (s *stream) awaitComputedNotes(c *harness.Consumer, d time.Duration) {
	s.t.Helper()
	last := ""
	for ctx := within(s.t, d); ; time.Sleep(200 * time.Millisecond) {
		difference, err := s.rollupDifference(ctx)
		if difference == "" && err == nil {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("the rows of deleted series are not computed: %s (%v)", last, err)
		}
		last = difference
	}
}

// compareRollups fails the test at the first difference.
func (s *stream) compareRollups() {
	s.t.Helper()
	difference, err := s.rollupDifference(within(s.t, rollupPatience()))
	if err != nil {
		s.t.Fatalf("comparing rollups: %v", err)
	}
	if difference != "" {
		s.t.Errorf("%s%s", check.Verdict, difference)
	}
}

// rollupDifference compares the rows of all levels with totals of all measurements that readers find. Empty means that they are
// equal.
func (s *stream) rollupDifference(ctx context.Context) (string, error) {
	totals := check.NewTotals()
	for m, err := range s.openNamed(world.servers.MongoURI, s.topic).Find(ctx, reader.Query{}) {
		if err != nil {
			return "", err
		}
		totals.Add(m.Meta, m.Time, m.Fields)
	}
	rows, difference, err := totals.Compare(ctx, s.readable(), s.topic)
	s.t.Logf("%d rows", rows)
	return difference, err
}
