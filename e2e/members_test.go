package e2e_test

import (
	"syscall"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// TestMembersJoinAndLeave: one consumer becomes three and one again under load, once in order and once by a crash; each
// has its share of the partitions, and nothing is lost or doubled.
func TestMembersJoinAndLeave(t *testing.T) {
	t.Parallel()
	series, rate := 100, 2000
	if world.servers.Slow() {
		series, rate = 30, 80
	}
	s := newStream(t, 6)
	load := s.startLoad(s.generator(series), rate)

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

// TestPausedConsumerDoublesNothing: a consumer stands still for longer than its session, another takes its partitions
// over, and then the first goes on where it stood.
func TestPausedConsumerDoublesNothing(t *testing.T) {
	t.Parallel()
	series, rate := 100, 2000
	if world.servers.Slow() {
		series, rate = 30, 80
	}
	s := newStream(t, 4)
	load := s.startLoad(s.generator(series), rate)
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

func (s *stream) signal(c *harness.Consumer, signal syscall.Signal) {
	s.t.Helper()
	if err := c.Signal(signal); err != nil {
		s.t.Fatalf("sending %v: %v", signal, err)
	}
}

// awaitAssigned waits until each of the consumers has that many partitions.
func (s *stream) awaitAssigned(partitions int, consumers ...*harness.Consumer) {
	s.t.Helper()
	ctx := within(s.t, time.Minute)
	for {
		settled := true
		got := make([]int, len(consumers))
		for i, c := range consumers {
			metrics, err := c.Metrics(ctx)
			got[i] = int(metrics.Sum("waterwheel_assigned_partitions"))
			settled = settled && err == nil && got[i] == partitions
		}
		if settled {
			return
		}
		if ctx.Err() != nil {
			s.t.Fatalf("the consumers have %v partitions, want %d each", got, partitions)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
