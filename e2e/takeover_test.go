package e2e_test

import (
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// TestTakeoverAfterACrash kills the consumer of a group under load, and continues with another group. The takeover fails while
// Kafka still counts the dead consumer as a member. Another group without a takeover is refused.
func TestTakeoverAfterACrash(t *testing.T) {
	t.Parallel()
	records, series := 20_000, 100
	if world.servers.Slow() {
		records, series = 2_000, 20
	}
	s := newStream(t, 2)
	s.sendPlain(records/2, series)
	c := s.start()
	s.awaitStored(c, time.Minute)
	c.Kill()
	s.sendPlain(records-records/2, series)

	former := s.group()
	next := former + "-2"
	if code, out := s.run("collection", "takeover", "--to", next); code != 1 || !strings.Contains(out, former) || !strings.Contains(out, "nothing was changed") {
		t.Errorf("a group with a member: code %d\n%s", code, out)
	}
	s.settings = s.settings.With("KAFKA_GROUP_ID", next)
	c = s.start()
	s.awaitNotReady(c, "(other_group)", former)
	s.terminate(c)

	start := time.Now()
	for {
		code, out := s.run("collection", "takeover", "--output", "json")
		// An earlier command may have taken over one of them.
		if code == 0 && strings.Count(out, `"taken_over"`)+strings.Count(out, `"unchanged"`) == 2 {
			break
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("code %d\n%s", code, out)
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Logf("the dead member was gone after %.1fs", time.Since(start).Seconds())
	c = s.start()
	s.awaitCommitted(c, time.Minute)
	s.terminate(c)
	s.verify(t, records)
}

// run runs a command of the program to its end.
func (s *stream) run(args ...string) (code int, out string) {
	s.t.Helper()
	c, err := harness.Start(world.binary, s.settings, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Kill()
	if code, err = c.Wait(within(s.t, 5*time.Minute)); err != nil {
		s.t.Fatal(err)
	}
	return code, c.Log()
}
