package group

import (
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

func TestCommitRenewsTheLease(t *testing.T) {
	for _, test := range []struct {
		name    string
		request error           // answer to the whole request
		results map[int32]error // of partitions 0 and 1
		renews  bool
		outcome string
	}{
		{"all committed", nil, nil, true, outcomeCommitted},
		{"one topic is gone", nil, map[int32]error{1: kafkago.UnknownTopicOrPartition}, true, outcomeRefused},
		{"both are gone", nil, map[int32]error{0: kafkago.UnknownTopicOrPartition, 1: kafkago.UnknownTopicOrPartition}, false, outcomeRefused},
		{"rebalancing", nil, map[int32]error{0: kafkago.RebalanceInProgress, 1: kafkago.RebalanceInProgress}, false, outcomeRefused},
		{"coordinator moves", nil, map[int32]error{0: kafkago.NotCoordinatorForGroup, 1: kafkago.NotCoordinatorForGroup}, false, outcomeRefused},
		{"connection lost", io.ErrUnexpectedEOF, nil, false, outcomeUnanswered},
		{"no answer in time", errHang, nil, false, outcomeUnanswered},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.start(3500 * time.Millisecond)
				g := s.generation()
				before, sent := g.lease.until(), s.now()
				s.answer("commit", test.request)
				for p, err := range test.results {
					s.refuse(p, err)
				}
				results, err := g.Commit(t.Context(), []record.Commit{commit("events", 0, 5, ""), commit("events", 1, 6, "")})
				if (err != nil) != (test.request != nil) {
					t.Errorf("Commit returns %v", err)
				}
				for p, result := range results {
					if !errors.Is(result, test.results[int32(p)]) {
						t.Errorf("partition %d: %v", p, result)
					}
				}
				want := before
				if test.renews {
					want = sent + 10*time.Second
				}
				if g.lease.until() != want {
					t.Errorf("the lease ends %v later than before", g.lease.until()-before)
				}
				if took := s.now() - sent; took > 5*time.Second {
					t.Errorf("Commit took %v: no answer may take longer than half the lease", took)
				}
				sends := 1.0
				if test.renews {
					sends = 2 // the first does not prove anything yet
				}
				s.counts(t, s.group.metrics.commits.WithLabelValues(test.outcome), sends)
				s.told(t, "assigned 1")
			})
		})
	}
}

// TestLostCommitThatIsAnswered checks that a deposed coordinator answers pending requests and accepts no other.
func TestLostCommitThatIsAnswered(t *testing.T) {
	for name, second := range map[string]error{
		"the next coordinator is not found yet": kafkago.NotCoordinatorForGroup,
		"another generation stands":             kafkago.IllegalGeneration,
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.start(time.Second)
				g := s.generation()
				if s.renew(t, g); !g.Held() {
					t.Fatal("two commits that are taken give no lease")
				}
				s.pass(30 * time.Second)
				sent := len(s.asks("commit"))
				s.answerOnce("commit", nil)
				s.answer("commit", second)
				if _, err := g.Commit(t.Context(), []record.Commit{commit("events", 0, 7, "")}); !errors.Is(err, second) || g.Held() {
					t.Errorf("the second answer is %v, the lease is held: %v", err, g.Held())
				}
				if n := len(s.asks("commit")) - sent; n != 2 {
					t.Errorf("%d commits were sent", n)
				}
				s.answer("commit", nil)
				s.pass(0)
			})
		})
	}
}

func TestCommitThatMeetsALaterGenerationEndsThisOne(t *testing.T) {
	for _, code := range []kafkago.Error{kafkago.IllegalGeneration, kafkago.UnknownMemberId, kafkago.FencedInstanceID} {
		t.Run(code.Title(), func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.start(time.Second)
				g := s.generation()
				s.refuse(1, code)
				results, err := g.Commit(t.Context(), []record.Commit{commit("events", 0, 5, ""), commit("events", 1, 6, "")})
				if err != nil || !errors.Is(results[1], code) {
					t.Fatalf("Commit returns %v, %v", results, err)
				}
				if g.Held() {
					t.Error("the lease is held")
				}
				s.refuse(1, nil)
				if _, err := g.Commit(t.Context(), []record.Commit{commit("events", 0, 5, "")}); !errors.Is(err, kafka.ErrGenerationOver) || kafka.Classify(err) != kafka.GenerationOver {
					t.Errorf("the next commit: %v", err)
				}
				s.pass(2 * time.Second)
				if code == kafkago.FencedInstanceID {
					s.told(t, "assigned 1", "lost 1")
				} else {
					s.told(t, "assigned 1", "lost 1", "assigned 2")
				}
				s.counts(t, s.group.metrics.commits.WithLabelValues(outcomeOver), 1)
			})
		})
	}
}

func TestCommitsFollowOneAnother(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.start(time.Second)
		g := s.generation()
		s.renew(t, g)
		before := len(s.asks("commit"))
		s.answerOnce("commit", errHang)
		var wg sync.WaitGroup
		for offset := range int64(3) {
			wg.Go(func() {
				_, err := g.Commit(t.Context(), []record.Commit{commit("events", 0, offset, "")})
				if (err != nil) != (offset == 0) {
					t.Errorf("committing %d: %v", offset, err)
				}
			})
			s.pass(0)
		}
		if n := len(s.asks("commit")) - before; n != 1 {
			t.Errorf("%d commits are on their way", n)
		}
		wg.Wait()
		if n := len(s.asks("commit")) - before; n != 3 {
			t.Errorf("%d commits were sent", n)
		}
	})
}

func TestNothingToCommitAsksNobody(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.start(time.Second)
		if results, err := s.generation().Commit(t.Context(), nil); results != nil || err != nil || len(s.asks("commit")) != 0 {
			t.Errorf("Commit returns %v, %v", results, err)
		}
	})
}

func TestGenerationWithoutPartitionsCountsNoLapse(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.setTopic(1, 0)
		s.start(time.Minute)
		s.told(t, "assigned 1")
		s.counts(t, s.group.metrics.lapsed, 0)
	})
}

// handClock is a clock that a test sets.
type handClock struct{ at atomic.Int64 }

func (c *handClock) now() time.Duration { return time.Duration(c.at.Load()) }
func (c *handClock) set(s float64)      { c.at.Store(int64(s * float64(time.Second))) }

func (c *handClock) sent(s float64) (t time.Duration) { return time.Duration(s * float64(time.Second)) }

// until returns the end of the lease on the clock of Now if it is not renewed. It is in the past if the lease has expired, and 0
// if it was ended forever.
func (l *lease) until() time.Duration {
	return max(0, time.Duration(l.end.Load()))
}

func TestLeaseHoldsFromTheSendTime(t *testing.T) {
	var clock handClock
	clock.set(102) // the answer came after 2 s
	l := newLease(clock.now, 10*time.Second, clock.sent(102), clock.sent(110), clock.sent(102), nil)
	for _, step := range []struct {
		at   float64
		held bool
	}{{102, true}, {109.999, true}, {110, false}, {200, false}} {
		if clock.set(step.at); l.Held() != step.held {
			t.Errorf("at %v s the lease is held: %v", step.at, l.Held())
		}
	}
	if l.taken(clock.sent(195)); l.Held() {
		t.Error("one answer gives a lease back")
	}
	if l.taken(clock.sent(198)); !l.Held() || l.until() != clock.sent(205) {
		t.Errorf("renewed until %v, held: %v", l.until(), l.Held())
	}
	next := l.successor(clock.sent(200), nil)
	if next.taken(clock.sent(200)); next.until() != clock.sent(208) {
		t.Errorf("the commit before, of the generation before, makes the lease hold until %v", next.until())
	}
	l.finish()
	l.taken(clock.sent(199))
	if l.taken(clock.sent(200)); l.Held() || l.until() != 0 {
		t.Errorf("an ended lease is held: %v, until %v", l.Held(), l.until())
	}
	after := l.successor(clock.sent(200), nil)
	if after.taken(clock.sent(200)); after.Held() {
		t.Error("the lease after one that was ended begins held")
	}
	if after.taken(clock.sent(201)); !after.Held() {
		t.Error("the lease after one that was ended is never held")
	}
}

func TestLeaseCountsTheTimeItLapsed(t *testing.T) {
	var clock handClock
	lapsed := prometheus.NewCounter(prometheus.CounterOpts{Name: "lapsed"})
	expect := func(want float64) {
		t.Helper()
		if got := testutil.ToFloat64(lapsed); math.Abs(got-want) > 1e-6 {
			t.Errorf("counted %v s, want %v", got, want)
		}
	}
	clock.set(100)
	l := newLease(clock.now, 10*time.Second, clock.sent(100), clock.sent(110), clock.sent(100), lapsed)
	clock.set(109)
	l.account()
	expect(0)
	clock.set(112)
	l.account()
	expect(2) // from 110 to 112
	clock.set(115)
	l.taken(clock.sent(114))
	l.taken(clock.sent(115))
	expect(5) // to 115
	clock.set(123)
	l.account()
	expect(5)
	clock.set(130)
	l.finish()
	expect(11) // and from 124 to 130
	clock.set(140)
	l.account()
	expect(11)
}

func TestLeaseIsSafeForConcurrentUse(t *testing.T) {
	var clock handClock
	clock.set(100)
	l := newLease(clock.now, time.Second, clock.sent(100), clock.sent(101), clock.sent(100), prometheus.NewCounter(prometheus.CounterOpts{Name: "lapsed"}))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 1000 {
				l.taken(clock.sent(100 + float64(j*4+i)/1000))
				l.Held()
				l.account()
			}
		})
	}
	wg.Wait()
	if least := clock.sent(100+3996.0/1000) + time.Second; l.until() < least {
		t.Errorf("the lease ends at %v, want %v at least", l.until(), least)
	}
}

func TestNowGoesForward(t *testing.T) {
	first := kafka.Now()
	if first <= 0 {
		t.Errorf("the clock says %v", first)
	}
	for range 1000 {
		next := kafka.Now()
		if next < first {
			t.Fatalf("the clock went from %v to %v", first, next)
		}
		first = next
	}
}

func BenchmarkLeaseHeld(b *testing.B) {
	l := newLease(kafka.Now, time.Hour, 0, kafka.Now()+time.Hour, 0, nil)
	b.ReportAllocs()
	for b.Loop() {
		if !l.Held() {
			b.Fatal("not held")
		}
	}
}
