package source

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// period is one generation while this member lives in it. It belongs to Run's goroutine.
type period struct {
	*Generation
	owned    []topicPartition
	shapes   map[string]topicShape // what the assignment was made from; nil when the leader did not say
	answered time.Duration         // send time of the last heartbeat, or the SyncGroup, answered 0
	assigned bool                  // the handler knows of it
	beats    chan beat
}

// beat is one heartbeat's outcome.
type beat struct {
	sent time.Duration
	err  error
}

// newPeriod begins a generation with the answer to a SyncGroup sent at sent.
func (g *Group) newPeriod(m membership, sent time.Duration, assignment []byte) (*period, error) {
	owned, userData, err := decodeAssignment(assignment)
	if err != nil {
		return nil, err
	}
	p := &period{owned: owned, answered: sent, beats: make(chan beat)}
	if p.shapes, err = decodeShapes(userData); err != nil && len(owned) > 0 {
		g.log.Warn("the leader does not say from what it made the assignment: growing topics will not be noticed", "err", err)
	}
	lapsed := g.metrics.lapsed
	if len(owned) == 0 {
		lapsed = nil // nothing to commit: such a lease lapses as a matter of course
	}
	p.Generation = &Generation{
		ID:          m.generation,
		MemberID:    m.member,
		Lease:       newLease(g.now, g.options.Lease, sent, lapsed),
		coordinator: g.coordinator,
		now:         g.now,
		timeout:     min(answerTimeout, g.options.Lease/2), // a later answer would hardly renew anything
		metrics:     g.metrics,
		turn:        make(chan struct{}, 1),
		over:        make(chan struct{}),
	}
	p.turn <- struct{}{}
	g.owned = ownership{generation: m.generation, partitions: owned}
	return p, nil
}

// live is the life of one generation, from its first heartbeat until all that was sent in it has returned. Its error is
// fatal.
func (g *Group) live(ctx context.Context, p *period) error {
	var senders sync.WaitGroup
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	committed, changed := make(chan []Assigned), make(chan string)
	senders.Go(func() { g.heartbeat(work, p) })
	senders.Go(func() { g.fetchCommitted(work, p, committed) })
	senders.Go(func() { g.watch(work, p.shapes, changed) })
	g.metrics.began(g.now(), len(p.owned))

	kind := g.stable(ctx, p, committed, changed)
	g.log.Info("the generation ends", "member", p.MemberID, "generation", p.ID, "why", kind)
	switch {
	case !p.assigned:
	case kind == kindLost:
		g.handler.Lost(p.Generation)
	default:
		g.revoke(ctx, p, kind == kindShutdown)
	}
	p.close()
	stop()
	senders.Wait()
	g.metrics.ended(kind)
	if errors.Is(p.cause, kafka.UnknownMemberId) {
		g.memberID = ""
	}
	if fatal(p.cause) != nil {
		return g.fatalError(p.cause)
	}
	return nil
}

// stable waits until something ends the generation, and says what.
func (g *Group) stable(ctx context.Context, p *period, committed <-chan []Assigned, changed <-chan string) (kind string) {
	for {
		select {
		case <-ctx.Done():
			return kindShutdown
		case <-p.over: // an answer to a commit said so
			return kindLost
		case topic := <-changed:
			g.log.Info("a topic has changed: asking for a rebalance", "topic", topic)
			return kindTopics
		case b := <-p.beats:
			p.Lease.account()
			if kind := g.heard(p, b); kind != "" {
				return kind
			}
		case p.Partitions = <-committed:
			p.assigned = true
			g.log.Info("a generation begins", "member", p.MemberID, "generation", p.ID, "partitions", len(p.Partitions))
			g.handler.Assigned(p.Generation)
			g.setStatus(Stable, p.Generation)
		}
	}
}

// heard draws the consequences of a heartbeat: how the generation ends, or nothing. A heartbeat renews no lease: a
// coordinator cut off from the others may go on answering from memory.
func (g *Group) heard(p *period, b beat) (kind string) {
	switch {
	case b.err == nil:
		p.answered = b.sent
		g.outage.over("the coordinator answers again")
		return ""
	case errors.Is(b.err, kafka.RebalanceInProgress):
		return kindRebalance
	case endsGeneration(b.err), fatal(b.err) != nil:
		p.end(b.err)
		return kindLost
	default:
		g.metrics.retries.WithLabelValues(requestHeartbeat).Inc()
		g.outage.trouble("the coordinator does not answer heartbeats", b.err)
		return ""
	}
}

// heartbeat sends heartbeats until ctx is done, during a rebalance too.
func (g *Group) heartbeat(ctx context.Context, p *period) {
	ticker := time.NewTicker(g.options.HeartbeatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		b := beat{sent: g.now()}
		b.err = g.heartbeatOnce(ctx, membership{p.ID, p.MemberID})
		select {
		case p.beats <- b:
		case <-ctx.Done():
			return
		}
	}
}

func (g *Group) heartbeatOnce(ctx context.Context, m membership) error {
	// A heartbeat that hangs must leave time for another two in the session.
	ctx, cancel := context.WithTimeout(ctx, min(answerTimeout, g.options.SessionTimeout/3))
	defer cancel()
	return g.coordinator.Heartbeat(ctx, m)
}
