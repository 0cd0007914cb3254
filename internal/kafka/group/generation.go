package group

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// Assigned is a partition that this member owns in a generation.
type Assigned struct {
	record.Partition
	// TopicID is the topic's id when the group's leader made the assignment. Zero means that the topic did not exist. The topic
	// may have been created again since.
	TopicID [16]byte
	// Beside means that another program was a member of the group while this process had its present member id. Kafka takes no
	// offsets from tools while a group has members. So an offset that this program did not commit comes from the other program,
	// with or without a leader epoch.
	Beside bool
}

// Generation is a period of the group with one assignment. Its exported fields never change.
type Generation struct {
	ID       int32
	MemberID string
	// Partitions are sorted by topic and number.
	Partitions []Assigned
	// Follows means that this member was also in the generation just before and knows its assignment there. Nobody else can then
	// have owned, in between, a partition that this member had then and has now.
	Follows     bool
	lease       *lease
	joining     atomic.Bool // JoinGroup for the next generation was sent, so ILLEGAL_GENERATION does not end this one
	coordinator coordinator
	now         func() time.Duration
	timeout     time.Duration // of one commit
	metrics     *metrics
	turn        chan struct{} // holds one token, so that commits are sent one after the other
	over        chan struct{} // closed by end
	once        sync.Once
	cause       error // why the generation is over; read it after over is closed
}

// Held reports whether this generation may write. It is cheap and safe for concurrent use. After the next generation has begun,
// the rest of the lease still counts for partitions that are being handed over.
func (g *Generation) Held() bool { return g.lease.Held() }

// Renewed is the send time of the commit that last renewed the lease. If none did, it is a moment before the generation.
func (g *Generation) Renewed() time.Duration { return g.lease.renewed() }

// Commit commits offsets in one request and returns one result for each. A nil result means that the coordinator answered 0.
// Any other answer but one about a rebalance, the end of the generation or an unknown topic is an outage. The error kafka.ErrGenerationOver means that nothing was sent. After any other
// error the outcome of all commits is unknown.
//
// An answer counts for the lease if it accepts at least one partition's offset and no code in it ends the generation
// (endsGeneration). The coordinator appends all partitions of a commit at once, so one accepted offset proves as much as many.
// Other codes prove nothing. Examples are UNKNOWN_TOPIC_OR_PARTITION for a deleted topic, and REBALANCE_IN_PROGRESS during a
// rebalance. A code that ends the generation ends the lease too. The exception is ILLEGAL_GENERATION after this member has asked
// for the next generation: the commit then counts as not accepted. The coordinator accepts commits during a rebalance until the
// next generation begins.
//
// If the lease is not held after an accepted commit, Commit sends it once more and returns the second answer. A lease needs two
// accepted commits.
//
// Calls may overlap. Commit sends them one after the other, so that an older offset does not follow a newer one.
func (g *Generation) Commit(ctx context.Context, commits []record.Commit) ([]error, error) {
	if len(commits) == 0 {
		return nil, nil
	}
	select {
	case <-g.turn:
		defer func() { g.turn <- struct{}{} }()
	case <-g.over:
		return nil, kafka.ErrGenerationOver
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if g.isOver() { // the generation may have ended while Commit waited for the turn
		return nil, kafka.ErrGenerationOver
	}
	results, err := g.commitOnce(ctx, commits)
	if err == nil && slices.Contains(results, nil) && !g.Held() && !g.isOver() {
		return g.commitOnce(ctx, commits)
	}
	return results, err
}

// commitOnce sends one request and applies its answer to the lease and the generation.
func (g *Generation) commitOnce(ctx context.Context, commits []record.Commit) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	sent := g.now()
	results, err := g.coordinator.Commit(ctx, membership{g.ID, g.MemberID}, commits)
	g.metrics.countCommit(results, err)
	if over := endingAnswer(results, err); over != nil && !(g.joining.Load() && errors.Is(over, kafkago.IllegalGeneration)) {
		g.end(over)
	} else if slices.Contains(results, nil) {
		g.lease.taken(sent)
	}
	return results, err
}

// isOver reports whether nothing more may be sent.
func (g *Generation) isOver() bool {
	select {
	case <-g.over:
		return true
	default:
		return false
	}
}

// end ends the generation and its lease for good. Only the first cause counts.
func (g *Generation) end(cause error) {
	g.once.Do(func() {
		g.lease.finish()
		g.cause = cause
		close(g.over)
	})
}

// supersede ends the commits of a generation when the next one has begun. Its lease runs out by itself.
func (g *Generation) supersede() {
	g.once.Do(func() {
		g.cause = kafka.ErrGenerationOver
		close(g.over)
	})
}

// close ends the generation after all its senders have returned, and waits for a commit that is still under way. After it,
// nothing is sent under this generation.
func (g *Generation) close() {
	g.end(kafka.ErrGenerationOver)
	<-g.turn // the token never comes back
}

// endingAnswer returns the first answer to a commit that ends the generation. It is nil if none does.
func endingAnswer(results []error, err error) error {
	if endsGeneration(err) {
		return err
	}
	if i := slices.IndexFunc(results, endsGeneration); i >= 0 {
		return results[i]
	}
	return nil
}

// endsGeneration reports whether an answer says that this member's generation is over.
func endsGeneration(err error) bool {
	return errors.Is(err, kafkago.IllegalGeneration) || errors.Is(err, kafkago.UnknownMemberId) || errors.Is(err, kafkago.FencedInstanceID)
}

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
