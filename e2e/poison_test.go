package e2e_test

import (
	"testing"
	"time"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// TestPoisonUnderLoad makes one record in a hundred bad, for every reason in turn, and lets the database refuse some, under load.
// The consumer keeps up. Each bad record is one letter, and each other one is stored once.
func TestPoisonUnderLoad(t *testing.T) {
	t.Parallel()
	series, rate, duration := 200, 1500, 30*time.Second
	if world.servers.Slow() {
		series, rate, duration = 20, 100, 10*time.Second
	}
	s, r := newStream(t, 4), between(t)
	r.Obey(refuseMarked)
	c := s.start("MONGODB_URI", r.URI())
	g := s.generator(series)
	made := 0
	for begin, tick := time.Now(), time.Tick(100*time.Millisecond); time.Since(begin) < duration; <-tick {
		if err := s.send(within(t, 20*time.Second), g, rate/10); err != nil {
			t.Fatal(err)
		}
		if err := s.producer.Send(within(t, 20*time.Second), s.book.Add(poison(made))); err != nil {
			t.Fatal(err)
		}
		made++
	}
	end := time.Now()
	s.awaitCommitted(c, 20*time.Second)
	t.Logf("%d records a second; all committed %.1fs after the last", rate, time.Since(end).Seconds())
	s.awaitNoLag(c)
	s.terminate(c)

	report := s.check()
	reasons := append(events.Reasons(), "refused_by_database")
	for _, reason := range reasons {
		if report.DeadLetters[reason] == 0 {
			t.Errorf("no letter of reason %s", reason)
		}
	}
	if bad := report.DeadLetterCount(); bad < report.Records/100 || report.Repeated != 0 {
		t.Errorf(check.Verdict+"%d letters of %d records, %d of them more than once", bad, report.Records, report.Repeated)
	}
	if enough := 1000 * int(duration.Seconds()); report.Records < enough && !world.servers.Slow() {
		t.Errorf("%d records in %v: the load was too small for a test, want %d", report.Records, duration, enough)
	}
}

// poison makes bad events in addition to the generator's. Half are refused by the database, the others have the other reasons in
// turn.
func poison(n int) events.Event {
	if n%2 == 0 {
		e := numbered(121, n, refusedBy(121))
		e.Fate = events.Fate{Reason: "refused_by_database"}
		return e
	}
	const others = 1 << 30 // beyond the generator's serial numbers
	reasons := events.Reasons()
	return events.Bad(reasons[n/2%len(reasons)], others+n, time.Now().UnixMilli(), maxEventBytes)
}

// awaitNoLag waits until the consumer's metric shows that no record is uncommitted.
func (s *stream) awaitNoLag(c *harness.Consumer) {
	s.t.Helper()
	ctx := within(s.t, 10*time.Second)
	for {
		metrics, err := c.Metrics(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		if metrics.Sum("waterwheel_lag_records") == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
