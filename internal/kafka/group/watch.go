package group

import (
	"context"
	"slices"
	"time"
)

// watch looks at the topics every watchInterval. It reports a topic that grew, appeared or was created again since the
// assignment, or that is assigned here but not read, or no longer. Every member watches, not only the leader, because a restarted static leader
// does not learn that it leads. Errors are ignored, and a topic that cannot be seen counts as unchanged.
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
