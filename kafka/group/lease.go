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
// time* of the last SyncGroup or OffsetCommit that was answered 0 in that generation: such an answer was appended by all
// in-sync replicas, so no later generation existed when it was sent. (A SyncGroup that is sent again, or by a static member
// after a restart, may be answered from the coordinator's memory; nothing rests on that, because a claim awaits a commit
// first.) Heartbeats renew nothing.
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

// newLease returns a lease that a request sent at sent has just renewed. The time in which it is not held, until it is
// ended, is added to lapsed, in seconds, unless that is nil.
func newLease(now func() time.Duration, length, sent time.Duration, lapsed prometheus.Counter) *lease {
	l := &lease{now: now, length: length, accounted: sent, lapsed: lapsed}
	l.end.Store(int64(sent + length))
	return l
}

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
	l.accounted = now
}
