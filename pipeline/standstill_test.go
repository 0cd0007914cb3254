//go:build !race

// The race detector makes so many goroutines too slow; the other tests of the waterwheel run under it.

package pipeline

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/internal/timeseries"
)

// standstill is 64 partitions of unequal load on a budget that the largest of them could use alone.
type standstill struct {
	*testing.T
	database *fakeDatabase
	gen      *fakeGeneration
	budget   *Budget
	consumer *Consumer
	logs     []*fakeLog
	peak     atomic.Int64 // bytes
}

const (
	crowd       = 64
	large       = 4 // number of large partitions
	crowdBudget = 24 << 20
)

func newStandstill(t *testing.T) *standstill {
	s := &standstill{T: t, database: newFakeDatabase(), gen: &fakeGeneration{committed: map[int32]int64{}}, budget: NewBudget(crowdBudget)}
	base := time.Now()
	for i := range int32(crowd) {
		l := &fakeLog{partition: i, begin: base, rate: 1, total: int64((10*time.Second + 2*time.Minute).Seconds()), most: 10, series: 3}
		if i < large {
			l.rate, l.total, l.most, l.series = 500*(int(i)+2), 40_000, 200, 300
		}
		s.logs = append(s.logs, l)
		s.database.logs[i] = l
	}
	s.consumer = newFakeConsumer(t, fakePorts{database: s.database, logs: s.logs}, s.budget, definedBy(timeseries.Seconds))
	return s
}

// watch samples the memory until the context ends, several times between two ticks of a worker.
func (s *standstill) watch(ctx context.Context) {
	for wait(ctx, tickInterval/5) == nil {
		s.peak.Store(max(s.peak.Load(), s.budget.Total()))
	}
}

// allowed is the budget plus an eighth, for a small piece of each partition and for pieces larger than the estimate.
const allowed = crowdBudget * 9 / 8

func (s *standstill) paused() (n int) {
	for _, status := range s.consumer.Statuses() {
		if status.Paused != "" {
			n++
		}
	}
	return n
}

// begin assigns all partitions, like the goroutine of the membership.
func (s *standstill) begin() {
	var assignments []Assignment
	for i := range int32(crowd) {
		assignments = append(assignments, Assignment{events(i), Assigned{TopicID: thisTopic}})
	}
	before := time.Now()
	s.consumer.Assigned(s.gen, assignments, false)
	if took := time.Since(before); took > 0 {
		s.Errorf("the membership's goroutine was held up for %v, and no heartbeat sent", took)
	}
}

// check fails unless every record was stored once and committed, within the memory limit.
func (s *standstill) check() {
	for i, l := range s.logs {
		stored := s.database.stored[int32(i)]
		for p, times := range stored {
			if times != 1 {
				s.Fatalf("partition %d: %v was stored %d times", i, p, times)
			}
		}
		if int64(len(stored)) != l.total || s.gen.committed[int32(i)] != l.total {
			s.Errorf("partition %d: stored %d, committed %d of %d", i, len(stored), s.gen.committed[int32(i)], l.total)
		}
	}
	s.checkPeak()
}

func (s *standstill) checkPeak() {
	if peak := s.peak.Load(); peak > allowed {
		s.Errorf("%d bytes were in use, of a budget of %d", peak, crowdBudget)
	}
	s.Logf("at most %.1f MiB of %.1f", float64(s.peak.Load())/(1<<20), float64(crowdBudget)/(1<<20))
}

// TestMemoryStaysWithinTheBudgetWhileTheDatabaseStandsStill has a database that stops for minutes. Memory stays within the budget
// and the lease is renewed. When the database continues, everything is stored once.
func TestMemoryStaysWithinTheBudgetWhileTheDatabaseStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStandstill(t)
		watching, stop := context.WithCancel(t.Context())
		go s.watch(watching)
		s.begin()
		_ = wait(t.Context(), 10*time.Second)
		s.database.standStill(true)
		_ = wait(t.Context(), 2*time.Minute)
		if s.peak.Load() < crowdBudget*7/8 {
			t.Errorf("only %d bytes were in use, of a budget of %d: nothing was tried", s.peak.Load(), crowdBudget)
		}
		if n := s.paused(); n < large {
			t.Errorf("%d partitions pause, want the %d large ones at least", n, large)
		}
		synctest.Wait()
		sum := s.budget.Fetching()
		for _, status := range s.consumer.Statuses() {
			sum += status.Bytes()
		}
		if sum != s.budget.Total() {
			t.Errorf("the partitions' memory of all kinds is %d bytes, the budget has %d", sum, s.budget.Total())
		}
		s.database.standStill(false)
		_ = wait(t.Context(), 70*time.Second)
		s.consumer.Revoke(t.Context(), true)
		if s.gen.longest > 10*time.Second/3+2*time.Second {
			t.Errorf("the lease was not renewed for %v", s.gen.longest)
		}
		stop()
		s.check()
	})
}

// TestSmallPartitionsAreNotSlowedByLargeOnes has large partitions that fill the budget of a slow database. The small ones are
// stored as soon as their flush interval has passed.
func TestSmallPartitionsAreNotSlowedByLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStandstill(t)
		s.database.perWrite = time.Millisecond // the large partitions need about 2000 writes per flush
		for _, l := range s.logs[:large] {
			l.rate, l.total, l.series = 2000, 1<<40, 1<<40 // every record has its own series
		}
		watching, stop := context.WithCancel(t.Context())
		go s.watch(watching)
		s.begin()
		paused := 0
		for range 30 {
			_ = wait(t.Context(), time.Second)
			paused = max(paused, s.paused())
		}
		if paused < large {
			t.Errorf("%d partitions paused, want the %d large ones at least: nothing was tried", paused, large)
		}
		s.consumer.Lost()
		stop()
		s.checkPeak()
		worst := time.Duration(0)
		for i := range int32(crowd) {
			if i >= large {
				worst = max(worst, s.database.slowest[i])
			}
		}
		if worst > 6*time.Second {
			t.Errorf("a small partition's record was stored only after %v, with a flush interval of 5 s", worst)
		}
		t.Logf("stored after %v at most", worst)
	})
}
