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

// enter joins the group until that succeeds or cannot: then its error is ctx's or fatal, or, from a period in which the handler
// goes on meanwhile, says that the coordinator does not know this member any more.
func (g *Group) enter(ctx context.Context, from *period) (*period, error) {
	asked := g.now()
	g.owned.holding = from != nil
	for try := 1; ; try++ {
		p, request, err := g.attempt(ctx, from, try)
		switch {
		case err == nil:
			g.outage.over("in the group again")
			p.joined = g.now() - asked
			return p, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case fatal(err) != nil:
			return nil, g.fatalError(g.named(ctx, err))
		case errors.Is(err, kafkago.UnknownMemberId) && from != nil:
			return nil, err
		case errors.Is(err, kafkago.UnknownMemberId):
			// The coordinator has given this member up. Only now is its id forgotten: a coordinator that died or moved
			// still knows it, and a new id would leave a ghost behind for a whole session.
			g.memberID = ""
		case errors.Is(err, kafkago.RebalanceInProgress):
			// Usual when members start together.
		case try <= unreadyTries && unready(err):
			// Usual of a coordinator that is new in office, in a fresh cluster or after its predecessor's end.
		default:
			g.outage.trouble("joining the group is not possible yet", err)
		}
		g.metrics.retries.WithLabelValues(request).Inc()
		if !kafka.Pause(ctx) {
			return nil, context.Cause(ctx)
		}
	}
}

// unreadyTries is how often a coordinator's answer that it is not ready is no trouble yet: some one and a half seconds.
const unreadyTries = 5

// unready reports whether an error is such an answer: the broker is not the coordinator any more or not yet, or loads.
func unready(err error) bool {
	return errors.Is(err, kafkago.NotCoordinatorForGroup) || errors.Is(err, kafkago.GroupLoadInProgress) ||
		errors.Is(err, kafkago.GroupCoordinatorNotAvailable)
}

// attempt goes once through JoinGroup and SyncGroup; tries are counted from 1. With its error it names the request that failed.
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

// join asks for the next generation and waits until it begins.
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

// assign is the leader's work: who gets what, encoded, by member.
func (g *Group) assign(ctx context.Context, members []groupMember) (map[string][]byte, error) {
	var claimants []claimant
	var names []string
	cooperative := true
	for _, m := range members {
		topics, claim, err := decodeClaim(m.subscription)
		if err != nil {
			// What it would commit is not stored: it gets nothing, and the others go on.
			g.log.Error("a member of the group belongs to another program: it gets no partitions", "member", m.id, "err", err)
		}
		claimants = append(claimants, claimant{m.id, topics, claim})
		names = append(names, topics...)
		cooperative = cooperative && (err != nil || claim.cooperative)
	}
	dismiss(claimants)
	slices.Sort(names)
	partitions, shapes, err := g.lookUntilSeen(ctx, slices.Compact(names))
	if err != nil {
		return nil, err
	}
	assignments := map[string][]byte{}
	userData := encodeShapes(shapes, cooperative)
	for member, topics := range sticky(claimants, partitions, cooperative) {
		assignments[member] = encodeAssignment(topics, userData)
	}
	return assignments, nil
}

// dismiss takes members that are about to leave out of the distribution, as long as another is left.
func dismiss(claimants []claimant) {
	if slices.ContainsFunc(claimants, func(c claimant) bool { return len(c.subscribed) > 0 && !c.claim.leaving }) {
		for i := range claimants {
			if claimants[i].claim.leaving {
				claimants[i].subscribed = nil
			}
		}
	}
}

// lookUntilSeen looks until that succeeds: the others wait for the assignment, and to join again would make them begin
// anew. Its error is ctx's.
func (g *Group) lookUntilSeen(ctx context.Context, names []string) (partitions []record.Partition, shapes map[string]topicShape, err error) {
	err = g.persist(ctx, requestTopics, &g.outage, "the topics' partitions are not known yet", func() (err error) {
		partitions, shapes, err = g.look(ctx, names)
		return err
	})
	return partitions, shapes, err
}

// look asks which partitions there are. A topic that is not there has the zero shape.
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

// sync hands the assignments in and waits for this member's own. An answer that got lost, or a coordinator on the move, is
// asked again in the same generation; anything else is for a new attempt to join. With the assignment comes the send time
// of the request that was answered.
func (g *Group) sync(ctx context.Context, m membership, assignments map[string][]byte) (assignment []byte, sent time.Duration, err error) {
	var refused error
	err = g.persist(ctx, requestSync, &g.outage, "no assignment from the coordinator", func() (err error) {
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
