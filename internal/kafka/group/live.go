package group

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// period is a generation during this member's life in it. It belongs to Run's goroutine.
type period struct {
	*Generation
	owned    []record.Partition
	shapes   map[string]topicShape // the topics that the assignment was made from; nil when the leader did not say
	joined   time.Duration         // how long joining took
	answered time.Duration         // send time of the last heartbeat, or of the SyncGroup, that was answered with 0
	refused  error                 // why nothing of the assignment is taken; nil when it is taken
	// unread is an assigned topic that this member does not read. Other members must learn of it. Empty means none.
	unread string
	beats  chan beat
}

// present returns the generation of a period. It is nil for a nil period.
func (p *period) present() *Generation {
	if p == nil {
		return nil
	}
	return p.Generation
}

// beat is the outcome of one heartbeat.
type beat struct {
	sent time.Duration
	err  error
}

// newPeriod begins a generation with the answer to a SyncGroup that was sent at sent. from is the period before, or nil if this
// member was outside the group. direct says that the member went on and its first attempt to join succeeded. If no leader of this
// program made the assignment, the member takes nothing of it. It stays in the group, to learn when the other program has left.
func (g *Group) newPeriod(m membership, sent time.Duration, assignment []byte, from *period, direct bool) *period {
	p := &period{answered: sent, beats: make(chan beat)}
	p.owned, p.shapes, p.refused = readAssignment(assignment)
	if g.refused = p.refused; p.refused != nil {
		g.metrics.refused.Inc()
		g.beside = m.member
	} else {
		g.ignoreUnread(p)
		g.owned.generation, g.owned.partitions = m.generation, p.owned
	}
	follows := g.follows(m, direct)
	lapsed := g.metrics.lapsed
	if len(p.owned) == 0 {
		lapsed = nil // nothing to commit, so such a lease always lapses
	}
	lease := newLease(g.now, g.options.Lease, sent, sent, sent+g.options.Lease, lapsed)
	if from != nil && follows {
		lease = from.lease.successor(sent, lapsed)
	}
	g.former, g.known = m, lease
	p.Generation = &Generation{
		ID:          m.generation,
		MemberID:    m.member,
		Follows:     follows,
		lease:       lease,
		coordinator: g.coordinator,
		now:         g.now,
		timeout:     min(kafka.AnswerTimeout, g.options.Lease/2), // a later answer would hardly renew anything
		metrics:     g.metrics,
		turn:        make(chan struct{}, 1),
		over:        make(chan struct{}),
	}
	p.turn <- struct{}{}
	for _, o := range p.owned {
		p.Partitions = append(p.Partitions, Assigned{Partition: o, TopicID: p.shapes[o.Topic].id, Beside: g.beside == m.member})
	}
	return p
}

// follows reports whether a generation is this member's last one or the next after it. Generations are numbered without gaps. So
// no other member can have owned, in between, a partition that this member had in the last one and has now.
//
// But the last generation may not be the group's. A coordinator that is cut off may complete a join that its successor does not
// know, and the group may then have another generation with that number. On three brokers of 4.3.0 the SyncGroup of such a join
// was answered with an error 20 times out of 20, but follows does not rely on that. It needs one of two proofs. Either commits
// prove the last generation (lease.exists). Or this member went on, and the first JoinGroup that it sent was answered with the
// next number. Then it was in no other generation in between, because a coordinator forgets members that do not join. It keeps
// static members, so for those only commits count.
func (g *Group) follows(m membership, direct bool) bool {
	if g.former.member != m.member {
		return false
	}
	switch m.generation - g.former.generation {
	case 0:
		return g.known.exists()
	case 1:
		return g.known.exists() || direct && g.options.InstanceID == ""
	}
	return false
}

// ignoreUnread removes partitions of topics that this member does not read from the assignment. A static member that returns with
// fewer topics gets its former assignment. It then asks for a rebalance once, so that members that still read those topics get
// their partitions.
func (g *Group) ignoreUnread(p *period) {
	all := len(p.owned)
	unread := ""
	p.owned = slices.DeleteFunc(p.owned, func(o record.Partition) bool {
		ours := slices.Contains(g.subscribed(), o.Topic)
		if !ours {
			unread = o.Topic
			g.metrics.ignore(o)
		}
		return !ours
	})
	if unread != "" && !g.ignoring {
		g.log.Warn("assigned partitions of topics that are not in KAFKA_TOPICS are ignored", "partitions", all-len(p.owned), "topic", unread)
		p.unread = unread
	}
	g.ignoring = unread != ""
}

// live runs one generation. It returns the next generation if that replaces this one, or nil if this member is in none any more.
// Its error is fatal.
func (g *Group) live(ctx context.Context, p *period) (*period, error) {
	g.metrics.began(g.now(), len(p.owned))
	g.log.Info("a generation begins", "member", p.MemberID, "generation", p.ID, "partitions", len(p.Partitions), "follows", p.Follows, "joining_took", p.joined.Round(time.Millisecond))
	g.handler.Assigned(p.Generation)
	g.setStatus(Stable, p.Generation)
	kind := g.stable(ctx, p)
	var next *period
	if p.refused == nil && !g.options.Eager && (kind == kindRebalance || kind == kindTopics || kind == kindShutdown && g.announces(p)) {
		g.log.Info("rejoining group; processing continues", "member", p.MemberID, "generation", p.ID, "why", kind)
		var end string
		if next, end = g.rejoin(ctx, p); next == nil {
			kind = end
		}
	}
	g.metrics.ended(kind)
	if next == nil {
		g.log.Info("the generation ends", "member", p.MemberID, "generation", p.ID, "why", kind)
	}
	switch {
	case next != nil:
		p.supersede()
		g.leases = append(slices.DeleteFunc(g.leases, func(l *lease) bool { return !l.Held() }), p.lease)
		return next, nil
	case kind == kindLost:
		g.handler.Lost(p.Generation)
	default:
		g.revoke(ctx, p, kind == kindShutdown)
	}
	p.close()
	for _, l := range g.leases {
		l.finish()
	}
	g.leases = nil
	if errors.Is(p.cause, kafkago.UnknownMemberId) {
		g.memberID = ""
	}
	if fatal(p.cause) != nil {
		return nil, g.fatalError(p.cause)
	}
	return nil, nil
}

// announces reports whether to announce a shutdown to the group. Then others get this member's partitions while it still works,
// and no partition waits until the others learn that it left. A static member keeps its partitions for its next process.
func (g *Group) announces(p *period) bool {
	if g.options.InstanceID != "" || len(p.owned) == 0 || g.owned.leaving {
		return false
	}
	g.owned.leaving = true
	return true
}

// stable waits until something ends the generation and returns the kind of the end.
func (g *Group) stable(ctx context.Context, p *period) (kind string) {
	var senders sync.WaitGroup
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer senders.Wait()
	defer stop()
	changed, strangers := make(chan string), make(chan *ForeignError)
	senders.Go(func() { g.heartbeat(work, p) })
	senders.Go(func() { g.watch(work, p, changed) })
	senders.Go(func() { g.identify(work, p, strangers) })
	for {
		select {
		case <-ctx.Done():
			return kindShutdown
		case <-p.over: // an answer to a commit ended the generation
			return kindLost
		case topic := <-changed:
			g.log.Info("requesting a rebalance: the topic has changed, or is not in KAFKA_TOPICS of this consumer", "topic", topic)
			return kindTopics
		case e := <-strangers:
			g.log.Error("consumption suspended: foreign members in group", "member", p.MemberID, "generation", p.ID, "err", e)
			g.refused = e
			g.setStatus(g.Status().State, g.Status().Generation)
		case b := <-p.beats:
			p.lease.account()
			if kind := g.heard(p, b); kind != "" {
				return kind
			}
		}
	}
}

// heard handles the outcome of a heartbeat. It returns the kind of the generation's end, or nothing. A heartbeat renews no lease,
// because a coordinator that is cut off may still answer from memory.
func (g *Group) heard(p *period, b beat) (kind string) {
	switch {
	case b.err == nil:
		p.answered = b.sent
		g.outage.over("the coordinator answers again")
		return ""
	case errors.Is(b.err, kafkago.RebalanceInProgress):
		return kindRebalance
	case endsGeneration(b.err), fatal(b.err) != nil:
		p.end(b.err)
		return kindLost
	default:
		g.metrics.retries.WithLabelValues(requestHeartbeat).Inc()
		g.outage.failure("the coordinator does not answer heartbeats", b.err)
		return ""
	}
}

// heartbeat sends heartbeats until ctx is done.
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
	ctx, cancel := context.WithTimeout(ctx, min(kafka.AnswerTimeout, g.options.SessionTimeout/3))
	defer cancel()
	return g.coordinator.Heartbeat(ctx, m)
}

// watch looks at the topics every watchInterval. It reports a topic that grew, appeared or was created again since the
// assignment, or that is assigned here but not read, or no longer. Every member watches, not only the leader, because a restarted
// static leader does not learn that it leads. Errors are ignored, and a topic that cannot be seen counts as unchanged.
func (g *Group) watch(ctx context.Context, p *period, changed chan<- string) {
	if p.refused != nil {
		return
	}
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		topics := g.subscribed()
		_, seen, err := g.look(ctx, topics)
		if err != nil && ctx.Err() == nil {
			g.metrics.retries.WithLabelValues(requestTopics).Inc()
			g.log.Debug("cannot read metadata of the topics", "err", err)
		}
		topic := p.unread
		for _, a := range p.Partitions {
			if !slices.Contains(topics, a.Topic) {
				topic = a.Topic
			}
		}
		for _, name := range topics {
			if hasChanged(p.shapes[name], seen[name]) {
				topic = name
			}
		}
		if topic == "" {
			continue
		}
		select {
		case changed <- topic:
		case <-ctx.Done():
		}
		return
	}
}

// hasChanged reports whether a rebalance would make a difference. It is false for a topic that shrank or vanished, whose
// partitions wait for it to come back.
func hasChanged(was, seen topicShape) bool {
	return seen.partitions > was.partitions || seen.partitions > 0 && seen.id != was.id
}

// revoke lets the handler finish and returns when it has. Heartbeats go on meanwhile. They keep the session, and their answers
// may shorten the remaining time.
func (g *Group) revoke(ctx context.Context, p *period, leaving bool) {
	g.setStatus(Rebalancing, p.Generation)
	var beating sync.WaitGroup
	defer beating.Wait()
	alive, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	beating.Go(func() { g.heartbeat(alive, p) })
	end := g.rebalanceEnd(p)
	if leaving {
		end = g.revokeEnd()
	}
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), end-g.now())
	defer cancel()
	timer := time.AfterFunc(end-g.now(), cancel) // for an end that moves closer
	defer timer.Stop()
	shorten := func(to time.Duration) {
		if to < end {
			end = to
			timer.Reset(to - g.now())
		}
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		g.handler.Revoke(work, p.Generation)
	}()
	shutdown, over := ctx.Done(), p.over
	for {
		select {
		case <-done:
			return
		case <-shutdown:
			shutdown = nil
			shorten(g.revokeEnd())
		case <-over: // no more can be committed
			over = nil
			cancel()
		case b := <-p.beats:
			p.lease.account()
			if g.heard(p, b) == kindRebalance {
				shorten(g.rebalanceEnd(p))
			}
		}
	}
}

// rebalanceEnd returns when a flush must end because of a rebalance. The rebalance may have begun right after the last heartbeat
// with the answer 0. Half of the rebalance timeout is for the flush, the other half for joining.
func (g *Group) rebalanceEnd(p *period) time.Duration {
	return p.answered + g.options.RebalanceTimeout/2
}

// revokeEnd returns when a flush must end because this process stops.
func (g *Group) revokeEnd() time.Duration {
	return g.shutdownEnd() - g.leaveTime()
}
