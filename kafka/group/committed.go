package group

import (
	"context"

	"waterwheel/kafka"
)

// fetchCommitted looks up from where the generation's partitions go on, until that succeeds or ctx is done.
func (g *Group) fetchCommitted(ctx context.Context, p *period, committed chan<- []Assigned) {
	var assigned []Assigned
	err := g.persist(ctx, requestCommitted, &outage{log: g.log, now: g.now}, "looking committed offsets up", func() (err error) {
		assigned, err = g.committedOnce(ctx, p)
		return err
	})
	if err != nil {
		return
	}
	select {
	case committed <- assigned:
	case <-ctx.Done():
	}
}

// committedOnce returns every owned partition, in order, or an error if one of them must be asked again.
func (g *Group) committedOnce(ctx context.Context, p *period) ([]Assigned, error) {
	if len(p.owned) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, kafka.AnswerTimeout)
	defer cancel()
	answers, err := g.cluster.Committed(ctx, g.options.GroupID, p.owned)
	if err != nil {
		return nil, err
	}
	assigned := make([]Assigned, len(answers))
	for i, a := range answers {
		if kafka.Classify(a.Err) == kafka.Retry {
			return nil, a.Err
		}
		assigned[i] = Assigned{Committed: a, TopicID: p.shapes[a.Topic].id, Beside: p.beside}
	}
	return assigned, nil
}
