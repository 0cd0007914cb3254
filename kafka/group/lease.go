package group

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// leaseEnded is the end of a lease that can never be held again.
const leaseEnded = -1

// lease says whether writes may be sent. There is one for each generation, and it ends one lease length after the *send
// time* of the last OffsetCommit that was answered 0 in that generation: such an answer was appended by all in-sync replicas,
// so no later generation existed when it was sent. Before the first such answer it is what was left of the lease of the
// generation before, if that one is followed (Generation.Follows), else it is not held. Heartbeats renew nothing, and neither
// does a SyncGroup: one that is sent again may be answered from the coordinator's memory.
//
// A lease that lapsed is held again after the next such answer; one that was ended, by an answer that ends
// the generation (endsGeneration) or with the generation itself, never is.
//
// It is safe for concurrent use. Held takes no lock.
type lease struct {
	now    func() time.Duration
	length time.Duration
	end    atomic.Int64 // on the clock of now, or leaseEnded

	mu        sync.Mutex // orders renew, finish and account
	accounted time.Duration
	lapsed    prometheus.Counter
}

// newLease returns a lease that holds until end. The time in which it is not held, from the moment accounted until it is ended,
// is added to lapsed, in seconds, unless that is nil.
func newLease(now func() time.Duration, length, end, accounted time.Duration, lapsed prometheus.Counter) *lease {
	l := &lease{now: now, length: length, accounted: accounted, lapsed: lapsed}
	l.end.Store(int64(end))
	return l
}

// successor is the lease of the generation that follows at a moment: it begins with what is left of this one.
func (l *lease) successor(at time.Duration, lapsed prometheus.Counter) *lease {
	return newLease(l.now, l.length, time.Duration(l.end.Load()), at, lapsed)
}

// renewed is when the request was sent that renewed it last.
func (l *lease) renewed() time.Duration { return time.Duration(l.end.Load()) - l.length }

// Held reports whether the lease holds at this moment. It reads the clock once; ask immediately before sending.
func (l *lease) Held() bool {
	end := l.end.Load()
	return end != leaseEnded && l.now() < time.Duration(end)
}

// renew extends the lease by an answer 0 to a request sent at sent. Answers may come in any order: the end never moves
// back.
func (l *lease) renew(sent time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.end.Load()
	if end == leaseEnded || int64(sent+l.length) <= end {
		return
	}
	l.addLapse()
	l.end.Store(int64(sent + l.length))
}

// finish ends the lease for good.
func (l *lease) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addLapse()
	l.end.Store(leaseEnded)
}

// account adds the time since the last call in which the lease was not held to the counter, so that the counter moves
// during a long lapse too.
func (l *lease) account() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addLapse()
}

func (l *lease) addLapse() {
	end := l.end.Load()
	if end == leaseEnded || l.lapsed == nil {
		return
	}
	now := l.now()
	if lapse := now - max(time.Duration(end), l.accounted); lapse > 0 {
		l.lapsed.Add(lapse.Seconds())
	}
	l.accounted = max(l.accounted, now)
}
