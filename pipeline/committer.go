package pipeline

import (
	"context"
	"time"

	"waterwheel/record"
)

// committer commits the offsets of one generation, all partitions in one request, every commit interval and when a worker
// asks for it; the plan says which.
type committer struct {
	gen     Generation
	runners []*runner
	clock   func() Instant
	tick    time.Duration
	wake    chan struct{}
	plan    *commitPlan
}

func newCommitter(gen Generation, o ConsumerOptions) *committer {
	plan := newCommitPlan(o.Lease, o.Clock())
	return &committer{
		gen: gen, clock: o.Clock, tick: min(o.CommitInterval, plan.renewal), wake: make(chan struct{}, 1), plan: plan,
	}
}

// kick asks for a commit soon. It never blocks.
func (c *committer) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *committer) run(ctx context.Context) {
	tick := time.NewTicker(c.tick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.wake:
		case <-ctx.Done():
			return
		}
		c.commit(ctx)
	}
}

// commit sends what is due and tells each worker the answer.
func (c *committer) commit(ctx context.Context) {
	sentAt := c.clock()
	var wanted []record.Commit
	runners := map[record.Partition]*runner{}
	for _, r := range c.runners {
		want := r.want.Load()
		if want == nil {
			continue
		}
		if r.urgent.Swap(false) {
			c.plan.hurry(want.Partition)
		}
		wanted, runners[want.Partition] = append(wanted, *want), r
	}
	due := c.plan.due(sentAt, wanted)
	if len(due) == 0 {
		return
	}
	errs, err := c.gen.Commit(ctx, due)
	for i, heard := range c.plan.answered(sentAt, due, errs, err) {
		runners[due[i].Partition].post(heard)
	}
}
