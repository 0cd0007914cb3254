package group

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// Assigned is a partition that this member owns in a generation.
type Assigned struct {
	record.Partition
	// TopicID is the topic's id as the group's leader saw it when it made the assignment: zero when the topic was not
	// there. It may have been created again since.
	TopicID [16]byte
	// Beside means that another program was in the group since this member is. While a group has members Kafka takes no offsets from
	// tools: what this program has not committed, the other one has, with an epoch or without.
	Beside bool
}

// Generation is one period of the group in which the assignment stands. Its fields never change.
type Generation struct {
	ID       int32
	MemberID string
	// Partitions are sorted by topic and number.
	Partitions []Assigned
	// Follows means that this member was in the generation just before, too, and knows what it was assigned there: nobody else can have
	// been assigned what it had then and has now.
	Follows     bool
	lease       *lease
	joining     atomic.Bool // the next generation has been asked for: that this one is over is no news
	coordinator coordinator
	now         func() time.Duration
	timeout     time.Duration // of one commit
	metrics     *metrics
	turn        chan struct{} // holds one token: commits go out one after the other
	over        chan struct{} // closed by end
	once        sync.Once
	cause       error // why it is over; read after over is closed
}

// Held reports whether anything may be written on the strength of this generation. It is safe for concurrent use, and cheap. When
// another generation has followed, the rest of the lease still counts for partitions that are being handed over.
func (g *Generation) Held() bool { return g.lease.Held() }

// Renewed is when the last commit was sent that renewed the lease; a moment before the generation, if none was.
func (g *Generation) Renewed() time.Duration { return g.lease.renewed() }

// Commit commits offsets in one request and returns a result for each, nil where the coordinator answered 0; kafka.Classify says
// what to do about another. An error instead means that nothing is known of any of them, or, if it is kafka.ErrGenerationOver,
// that nothing was sent.
//
// An answer renews the lease (see there) if it takes at least one partition's offset and says for none that the generation is over
// (endsGeneration). A commit is appended once for all its partitions, so one that is taken proves as much as many; other codes, such
// as UNKNOWN_TOPIC_OR_PARTITION for a deleted topic or REBALANCE_IN_PROGRESS throughout a rebalance, prove nothing. If it says so for
// any of them, the lease and the generation end; unless the next generation has been asked for and it only says that this one is
// over: then it counts as not taken. A commit during a rebalance is taken until the next generation begins.
//
// A commit that is taken while the lease is not held is sent once more, and the second answer counts: it takes two to have a lease.
//
// Calls may overlap: they are sent one after the other, so that an older offset does not follow a newer one.
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
	if g.isOver() { // while the turn was waited for
		return nil, kafka.ErrGenerationOver
	}
	results, err := g.commitOnce(ctx, commits)
	if err == nil && slices.Contains(results, nil) && !g.Held() && !g.isOver() {
		return g.commitOnce(ctx, commits)
	}
	return results, err
}

// commitOnce sends one request, and draws the consequences of its answer.
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

// end ends the generation and its lease for good. The first cause stands.
func (g *Generation) end(cause error) {
	g.once.Do(func() {
		g.lease.finish()
		g.cause = cause
		close(g.over)
	})
}

// supersede ends the commits of a generation that another one follows. Its lease runs out by itself.
func (g *Generation) supersede() {
	g.once.Do(func() {
		g.cause = kafka.ErrGenerationOver
		close(g.over)
	})
}

// close ends the generation after all its senders have returned, and waits for a commit still on its way: nothing is sent
// under it any more.
func (g *Generation) close() {
	g.end(kafka.ErrGenerationOver)
	<-g.turn // and never back
}

// endingAnswer is the one among the answers to a commit that ends the generation, nil if none does.
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
