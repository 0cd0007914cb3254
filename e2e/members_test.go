package e2e_test

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// TestMembersJoinAndLeave has one consumer, then three, and then one again under load. One member leaves in order, and one
// crashes. Each has its share of the partitions, and nothing is lost or doubled.
func TestMembersJoinAndLeave(t *testing.T) {
	t.Parallel()
	s, load := underLoad(t, 6)

	first := s.start()
	s.awaitAssigned(6, first)
	second := s.start()
	s.awaitAssigned(3, first, second)
	third := s.start()
	s.awaitAssigned(2, first, second, third)
	s.terminate(first)
	s.awaitAssigned(3, second, third)
	second.Kill()
	s.awaitAssigned(6, third)
	load.stop()

	s.awaitCommitted(third, 90*time.Second)
	s.terminate(third)
	s.check()
}

// TestPausedConsumerDoublesNothing stops a consumer for longer than its session. Another one takes over its partitions, and then
// the first one continues.
func TestPausedConsumerDoublesNothing(t *testing.T) {
	t.Parallel()
	s, load := underLoad(t, 4)
	first, second := s.start(), s.start()
	s.awaitAssigned(2, first, second)
	s.awaitStored(first, time.Minute)
	s.signal(first, syscall.SIGSTOP)
	s.awaitAssigned(4, second)
	s.signal(first, syscall.SIGCONT)
	s.awaitAssigned(2, first, second)
	load.stop()
	s.awaitCommitted(second, 90*time.Second)
	s.terminate(first)
	s.terminate(second)
	s.check()
}

// TestWaitGoesOnWithTheNextMember kills the owner of a partition. The member that waits for its writes leaves in the middle of
// the wait. The next member waits only for the rest.
func TestWaitGoesOnWithTheNextMember(t *testing.T) {
	t.Parallel()
	const whole, waited = 12 * time.Second, 6 * time.Second
	s := newStream(t, 1)
	s.settings = s.settings.With("KAFKA_LEASE", "4s", "MONGODB_WRITE_TIMEOUT", "4s")
	s.sendPlain(100, 10)
	first := s.start()
	s.awaitStored(first, time.Minute)
	second := s.start()
	s.awaitAssigned(1, first)
	first.Kill()
	s.awaitAssigned(1, second)
	if wait := s.waitBeforeTheClaim(second); wait < whole-time.Second {
		t.Fatalf("who comes first waits for %v only", wait)
	}
	time.Sleep(waited)
	third := s.start()
	s.terminate(second)
	s.awaitAssigned(1, third)
	if wait := s.waitBeforeTheClaim(third); wait > whole-waited/2 {
		t.Errorf("who comes next waits for %v", wait)
	}
	s.sendPlain(100, 10)
	s.awaitCommitted(third, time.Minute)
	s.terminate(third)
	s.verify(t, 200)
}

// TestTwoWithOneInstanceID starts a second consumer with the instance ID of the first one, under load. The first one must end and
// name the setting. The second one goes on alone, and nothing is lost or doubled.
func TestTwoWithOneInstanceID(t *testing.T) {
	t.Parallel()
	s, load := underLoad(t, 4)
	s.settings = s.settings.With("KAFKA_INSTANCE_ID", "one")
	first := s.start()
	s.awaitStored(first, time.Minute)
	second := s.start()
	if code, err := first.Wait(within(t, 30*time.Second)); err != nil || code != 1 {
		t.Errorf("the replaced consumer ended with code %d, %v", code, err)
	}
	if line := lastLine(first, "give each process a different one"); !strings.Contains(line, "another process uses the same KAFKA_INSTANCE_ID") {
		t.Errorf("the replaced consumer does not name the setting:\n%s", first.Log())
	}
	s.awaitAssigned(4, second)
	load.stop()
	s.awaitCommitted(second, 90*time.Second)
	s.terminate(second)
	s.check()
}

// underLoad returns a new stream, with as much load as the servers can take.
func underLoad(t *testing.T, partitions int) (*stream, *load) {
	series, rate := 100, 2000
	if world.servers.Slow() {
		series, rate = 30, 80
	}
	s := newStream(t, partitions)
	return s, s.startLoad(s.generator(series), rate)
}

var claimWait = regexp.MustCompile(`waiting for the previous owner.* wait=(\S+)`)

// waitBeforeTheClaim returns the time for which a consumer says that it will wait.
func (s *stream) waitBeforeTheClaim(c *harness.Consumer) time.Duration {
	s.t.Helper()
	ctx := within(s.t, 30*time.Second)
	for {
		if found := claimWait.FindStringSubmatch(c.Log()); found != nil {
			wait, err := time.ParseDuration(found[1])
			if err != nil {
				s.t.Fatal(err)
			}
			return wait
		}
		if ctx.Err() != nil {
			s.t.Fatalf("it does not wait:\n%s", c.Log())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *stream) signal(c *harness.Consumer, signal syscall.Signal) {
	s.t.Helper()
	if err := c.Signal(signal); err != nil {
		s.t.Fatalf("sending %v: %v", signal, err)
	}
}

// awaitAssigned waits until each of the consumers has the given number of partitions.
func (s *stream) awaitAssigned(partitions int, consumers ...*harness.Consumer) {
	s.t.Helper()
	ctx := within(s.t, time.Minute)
	for {
		assigned := true
		got := make([]int, len(consumers))
		for i, c := range consumers {
			metrics, err := c.Metrics(ctx)
			got[i] = int(metrics.Sum("waterwheel_assigned_partitions"))
			assigned = assigned && err == nil && got[i] == partitions
		}
		if assigned {
			return
		}
		if ctx.Err() != nil {
			s.t.Fatalf("the consumers have %v partitions, want %d each", got, partitions)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
