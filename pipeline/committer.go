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

// add takes the commits of one more worker. Only before run.
func (c *committer) add(r *runner) {
	c.runners, c.plan.workers = append(c.runners, r), append(c.plan.workers, &r.hands)
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
	c.plan.commit(c.clock(),
		func(due []record.Commit) ([]error, error) { return c.gen.Commit(ctx, due) },
		func(worker int, answer Committed) { c.runners[worker].post(answer) })
}
