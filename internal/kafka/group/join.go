package group

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// enter joins the group and retries until that succeeds. Its error is ctx's or fatal. While the handler goes on in the period
// from, enter also returns the error UNKNOWN_MEMBER_ID.
func (g *Group) enter(ctx context.Context, from *period) (*period, error) {
	asked := g.now()
	for try := 1; ; try++ {
		p, request, err := g.attempt(ctx, from, try)
		switch {
		case err == nil:
			g.outage.over("joined the group again")
			p.joined = g.now() - asked
			return p, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case fatal(err) != nil:
			return nil, g.fatalError(g.named(ctx, err))
		case errors.Is(err, kafkago.UnknownMemberId) && from != nil:
			return nil, err
		case errors.Is(err, kafkago.UnknownMemberId):
			// The coordinator has given this member up. No other error drops the member id. A coordinator that died or moved still
			// knows it, so a new id would leave a dead member behind for a whole session.
			g.memberID = ""
		case errors.Is(err, kafkago.RebalanceInProgress):
			// This is usual when members start together.
		case try <= unreadyTries && unready(err):
			// This is usual for a new coordinator, in a fresh cluster or after its predecessor's end.
		default:
			g.outage.failure("joining the group is not possible yet", err)
		}
		g.metrics.retries.WithLabelValues(request).Inc()
		if !kafka.Pause(ctx) {
			return nil, context.Cause(ctx)
		}
	}
}

// unreadyTries is how many unready answers of a coordinator are not logged yet. They take some one and a half seconds.
const unreadyTries = 5

// unready reports whether the broker is not, or not yet, the coordinator, or is still loading.
func unready(err error) bool {
	return errors.Is(err, kafkago.NotCoordinatorForGroup) || errors.Is(err, kafkago.GroupLoadInProgress) ||
		errors.Is(err, kafkago.GroupCoordinatorNotAvailable)
}

// attempt sends JoinGroup and SyncGroup once. try counts from 1. With an error it returns the name of the failed request.
func (g *Group) attempt(ctx context.Context, from *period, try int) (*period, string, error) {
	g.setStatus(Joining, from.present())
	j, err := g.join(ctx)
	if err != nil {
		return nil, requestJoin, err
	}
	g.setStatus(Syncing, from.present())
	var assignments map[string][]byte
	if j.leader {
		if assignments, err = g.assign(ctx, j.members); err != nil {
			return nil, requestTopics, err
		}
	}
	assignment, sent, err := g.sync(ctx, j.membership, assignments)
	if err != nil {
		return nil, requestSync, err
	}
	return g.newPeriod(j.membership, sent, assignment, from, from != nil && try == 1), requestSync, nil
}

// join asks for the next generation and waits until that begins.
func (g *Group) join(ctx context.Context) (joined, error) {
	subscription := encodeSubscription(g.subscribed(), encodeOwnership(g.owned))
	j, err := g.joinOnce(ctx, subscription)
	if errors.Is(err, kafkago.MemberIDRequired) && j.member != "" {
		g.memberID = j.member
		j, err = g.joinOnce(ctx, subscription)
	}
	if err == nil {
		g.memberID = j.member
	}
	return j, err
}

func (g *Group) joinOnce(ctx context.Context, subscription []byte) (joined, error) {
	ctx, cancel := context.WithTimeout(ctx, g.options.RebalanceTimeout+kafka.AnswerTimeout)
	defer cancel()
	return g.coordinator.Join(ctx, g.memberID, subscription)
}

// assign makes the leader's assignments, encoded, by member.
func (g *Group) assign(ctx context.Context, members []groupMember) (map[string][]byte, error) {
	var claimants []claimant
	var names []string
	for _, m := range members {
		topics, claim, err := decodeClaim(m.subscription)
		if err != nil {
			// Records that the member commits would never be stored. So it gets nothing, and the others go on.
			g.log.Error("a group member belongs to another program and gets no partitions: give each program its own group id", "member", m.id, "err", err)
		}
		claimants = append(claimants, claimant{m.id, topics, claim})
		names = append(names, topics...)
	}
	dismiss(claimants)
	slices.Sort(names)
	partitions, shapes, err := g.lookUntilSeen(ctx, slices.Compact(names))
	if err != nil {
		return nil, err
	}
	assignments := map[string][]byte{}
	userData := encodeShapes(shapes)
	for member, topics := range sticky(claimants, partitions) {
		assignments[member] = encodeAssignment(topics, userData)
	}
	return assignments, nil
}

// dismiss gives no partitions to members that are about to leave, if another member remains.
func dismiss(claimants []claimant) {
	if slices.ContainsFunc(claimants, func(c claimant) bool { return len(c.subscribed) > 0 && !c.claim.leaving }) {
		for i := range claimants {
			if claimants[i].claim.leaving {
				claimants[i].subscribed = nil
			}
		}
	}
}

// lookUntilSeen looks at the topics until that succeeds, because all members wait for the assignment and joining again would
// start over. Its error is ctx's.
func (g *Group) lookUntilSeen(ctx context.Context, names []string) (partitions []record.Partition, shapes map[string]topicShape, err error) {
	err = g.persist(ctx, requestTopics, "the topics' partitions are not known yet", func() (err error) {
		partitions, shapes, err = g.look(ctx, names)
		return err
	})
	return partitions, shapes, err
}

// look asks for the partitions of topics. A missing topic has the zero shape.
func (g *Group) look(ctx context.Context, names []string) ([]record.Partition, map[string]topicShape, error) {
	ctx, cancel := context.WithTimeout(ctx, kafka.AnswerTimeout)
	defer cancel()
	topics, err := g.cluster.Topics(ctx, names...)
	if err != nil {
		return nil, nil, err
	}
	var partitions []record.Partition
	shapes := map[string]topicShape{}
	for _, topic := range topics {
		shapes[topic.Name] = topicShape{id: topic.ID, partitions: int32(len(topic.Partitions))}
		for _, p := range topic.Partitions {
			partitions = append(partitions, record.Partition{Topic: topic.Name, Number: p.ID})
		}
	}
	return partitions, shapes, nil
}

// sync hands in the assignments and waits for this member's own. It repeats the request in the same generation when the answer is
// lost or the coordinator moves. Other errors need a new attempt to join. sent is the send time of the answered request.
func (g *Group) sync(ctx context.Context, m membership, assignments map[string][]byte) (assignment []byte, sent time.Duration, err error) {
	var refused error
	err = g.persist(ctx, requestSync, "no assignment from the coordinator", func() (err error) {
		sent = g.now()
		if assignment, err = g.syncOnce(ctx, m, assignments); kafka.Classify(err) != kafka.Retry {
			refused, err = err, nil
		}
		return err
	})
	return assignment, sent, cmp.Or(err, refused)
}

func (g *Group) syncOnce(ctx context.Context, m membership, assignments map[string][]byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, g.options.RebalanceTimeout+kafka.AnswerTimeout)
	defer cancel()
	return g.coordinator.Sync(ctx, m, assignments)
}

// leastPatience divides the time of a shutdown. The quotient is the least time to wait for a generation that is about to begin.
const leastPatience = 4

// rejoinPatience returns how long a shutdown waits for a generation that is about to begin. In that generation other members own
// the partitions and take each over when it is released. A dead member delays the generation until its session is over. Nobody
// else may read the partitions before then, released or not. So this member works on them as long as enough time is left to hand
// them over.
func (g *Group) rejoinPatience() time.Duration {
	left := g.revokeEnd() - g.now()
	return max(left-g.options.HandOver, left/leastPatience)
}

// rejoin joins the next generation while the handler goes on under the present one. Until all members have sent JoinGroup, the
// coordinator accepts commits of the present generation, and they renew the lease. After that it refuses them, and only the rest
// of the lease holds. rejoin returns the next period, or else the kind of the present generation's end.
func (g *Group) rejoin(ctx context.Context, p *period) (next *period, kind string) {
	p.joining.Store(true)
	joining, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	type outcome struct {
		*period
		err error
	}
	entered := make(chan outcome, 1)
	go func() {
		next, err := g.enter(joining, p)
		entered <- outcome{next, err}
	}()
	accounting := time.NewTicker(g.options.HeartbeatInterval)
	defer accounting.Stop()
	shutdown, patience := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case o := <-entered:
			if o.err == nil {
				return o.period, ""
			}
			if joining.Err() != nil {
				return nil, kindShutdown
			}
			p.end(o.err)
			return nil, kindLost
		case <-p.over: // an answer to a commit ended the generation
			cancel()
			<-entered
			return nil, kindLost
		case <-shutdown:
			shutdown = nil
			patience = time.After(g.rejoinPatience())
		case <-patience:
			patience = nil
			p.joining.Store(false) // no generation follows this one any more
			cancel()
		case <-accounting.C:
			p.lease.account()
		}
	}
}
