package group

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"waterwheel/internal/kafka"
)

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
