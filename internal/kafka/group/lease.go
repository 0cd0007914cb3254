package group

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// leaseEnded is the end of a lease that can never be held again.
const leaseEnded = -1

// noneTaken stands for the send time of a commit before the first one is taken.
const noneTaken = -1

// lease says whether writes may be sent. There is one for each generation, and it ends one lease length after the *send
// time* of the last OffsetCommit but one that was answered 0 in that generation (or, if that is followed, Generation.Follows, in the
// one before). Such an answer means that the commit was appended by all in-sync replicas, so that no later generation existed when
// it was sent; but a coordinator that was deposed may, in the moment in which it learns that, answer what was still pending with 0
// although it was lost (KAFKA-20634). It takes nothing new then: the next commit, sent after that answer and taken too, proves
// that the answer was true. Before there are two, the lease is what was left of the one before, if that is followed, else it is not
// held. Heartbeats renew nothing, and neither does a SyncGroup: one that is sent again may be answered from the coordinator's memory.
//
// A lease that lapsed is held again after the next two such answers; one that was ended, by an answer that ends
// the generation (endsGeneration) or with the generation itself, never is.
//
// It is safe for concurrent use. Held takes no lock.
type lease struct {
	now    func() time.Duration
	length time.Duration
	end    atomic.Int64 // on the clock of now, or leaseEnded

	mu        sync.Mutex    // orders taken, finish and account
	last      time.Duration // send time of the last commit that was taken, noneTaken before
	began     time.Duration // when the generation did
	proven    bool          // a commit sent since then is proven to be taken
	accounted time.Duration
	lapsed    prometheus.Counter
}

// newLease returns the lease of a generation that began at a moment, which holds until end. The time in which it is not held, from
// the moment accounted until it is ended, is added to lapsed, in seconds, unless that is nil.
func newLease(now func() time.Duration, length, began, end, accounted time.Duration, lapsed prometheus.Counter) *lease {
	l := &lease{now: now, length: length, last: noneTaken, began: began, accounted: accounted, lapsed: lapsed}
	l.end.Store(int64(end))
	return l
}

// successor is the lease of the generation that follows at a moment: it begins with what is left of this one, with nothing where
// this one was ended.
func (l *lease) successor(at time.Duration, lapsed prometheus.Counter) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := time.Duration(l.end.Load())
	if end == leaseEnded {
		return newLease(l.now, l.length, at, at, at, lapsed)
	}
	next := newLease(l.now, l.length, at, end, at, lapsed)
	next.last = l.last
	return next
}

// renewed is when the last commit was sent that is proven to be taken.
func (l *lease) renewed() time.Duration { return time.Duration(l.end.Load()) - l.length }

// Held reports whether the lease holds at this moment. It reads the clock once; ask immediately before sending.
func (l *lease) Held() bool {
	end := l.end.Load()
	return end != leaseEnded && l.now() < time.Duration(end)
}

// exists reports whether a commit proves that the group has this generation. One that a coordinator has begun which is cut off may
// be lost, and the group have another one of that number.
func (l *lease) exists() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proven
}

// taken notes an answer 0 to a commit sent at sent, after all answers noted before had arrived, and renews the lease by the commit
// before, which it proves.
func (l *lease) taken(sent time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	proven := l.last
	l.last = sent
	l.proven = l.proven || proven >= l.began
	end := l.end.Load()
	if proven == noneTaken || end == leaseEnded || int64(proven+l.length) <= end {
		return
	}
	l.addLapse()
	l.end.Store(int64(proven + l.length))
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
