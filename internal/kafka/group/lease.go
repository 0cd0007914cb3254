package group

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// leaseEnded is the end of a lease that can never hold again.
const leaseEnded = -1

// noneTaken is the send time of the last accepted commit before there is one.
const noneTaken = -1

// lease says whether writes may be sent. Each generation has one. It ends one lease length after the *send time* of the second
// newest accepted commit of this generation. If the generation follows the one before (Generation.Follows), commits of that one
// count too. An accepted commit is an OffsetCommit with the answer 0.
//
// The answer 0 means that all in-sync replicas have appended the commit. So no later generation existed when it was sent. But a
// coordinator that just learns that it is deposed may answer pending commits with 0, although they are lost (KAFKA-20634). After
// that it accepts nothing new. So the next accepted commit, sent after that answer, proves that the answer was true. Before there
// are two accepted commits, the lease is the rest of the previous generation's lease. If the generation does not follow that one,
// the lease is not held. Heartbeats do not renew it. Neither does a SyncGroup, because a coordinator may answer a repeated one
// from memory.
//
// A lapsed lease holds again after the next two accepted commits. A lease that was ended never holds again. An answer that ends
// the generation (endsGeneration) ends it, and so does the end of the generation.
//
// It is safe for concurrent use. Held takes no lock.
type lease struct {
	now    func() time.Duration
	length time.Duration
	end    atomic.Int64 // on the clock of now, or leaseEnded

	mu        sync.Mutex    // orders taken, finish and account
	last      time.Duration // send time of the last accepted commit, or noneTaken
	began     time.Duration // when the generation began
	proven    bool          // a later accepted commit proves a commit of this generation
	accounted time.Duration
	lapsed    prometheus.Counter
}

// newLease returns the lease of a generation that began at began. It holds until end. While it is not held, from accounted on,
// lapsed counts the seconds until the lease is ended. A nil lapsed counts nothing.
func newLease(now func() time.Duration, length, began, end, accounted time.Duration, lapsed prometheus.Counter) *lease {
	l := &lease{now: now, length: length, last: noneTaken, began: began, accounted: accounted, lapsed: lapsed}
	l.end.Store(int64(end))
	return l
}

// successor returns the lease of a generation that begins at a moment and follows this one. It takes over the rest of this lease,
// or nothing if this lease was ended.
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

// renewed is the send time of the newest commit that is proven to be accepted.
func (l *lease) renewed() time.Duration { return time.Duration(l.end.Load()) - l.length }

// Held reports whether the lease holds at this moment. It reads the clock once; ask immediately before sending.
func (l *lease) Held() bool {
	end := l.end.Load()
	return end != leaseEnded && l.now() < time.Duration(end)
}

// exists reports whether a commit proves that the group has this generation. A generation of a coordinator that is cut off may be
// lost, and the group may have another generation with its number.
func (l *lease) exists() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proven
}

// taken notes an answer 0 to a commit sent at sent. That commit must be sent after all answers noted before have arrived. It
// proves the commit before. taken renews the lease by the send time of that earlier commit.
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

// account adds the time without a lease since the last call to the counter, so that the counter also moves during a long lapse.
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
