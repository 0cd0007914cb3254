package kafka

import (
	"context"

	"github.com/segmentio/kafka-go/protocol"
)

// fetchCommitted looks up from where the generation's partitions go on, until that succeeds or ctx is done.
func (g *Group) fetchCommitted(ctx context.Context, p *period, committed chan<- []Assigned) {
	trouble := outage{log: g.log, now: g.now}
	for {
		assigned, err := g.committedOnce(ctx, p)
		if err == nil {
			select {
			case committed <- assigned:
			case <-ctx.Done():
			}
			return
		}
		if ctx.Err() != nil {
			return
		}
		g.metrics.retries.WithLabelValues(requestCommitted).Inc()
		trouble.trouble("looking committed offsets up", err)
		if !pause(ctx) {
			return
		}
	}
}

// committedOnce returns every owned partition, in order, or an error if one of them must be asked again.
func (g *Group) committedOnce(ctx context.Context, p *period) ([]Assigned, error) {
	if len(p.owned) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	answers, err := g.coordinator.Committed(ctx, p.owned)
	if err != nil {
		return nil, err
	}
	found := map[topicPartition]Assigned{}
	for _, a := range answers {
		if Classify(a.Err) == Retry {
			return nil, a.Err
		}
		found[topicPartition{a.Topic, a.Partition}] = a
	}
	assigned := make([]Assigned, len(p.owned))
	for i, owned := range p.owned {
		a, ok := found[owned]
		if !ok {
			return nil, unanswered(protocol.OffsetFetch, owned.topic, owned.partition, errNotAnswered)
		}
		a.TopicID, a.Beside = p.shapes[owned.topic].id, p.beside
		assigned[i] = a
	}
	return assigned, nil
}
