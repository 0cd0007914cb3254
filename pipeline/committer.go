package pipeline

import (
	"context"
	"sync"
	"time"

	"waterwheel/internal/record"
)

// committer commits the offsets of this process, all partitions in one request. It does so every commit interval, and when a
// worker asks for it. The plan says which offsets. A committer outlives generations, because each request is made in the newest
// generation.
type committer struct {
	clock func() Instant
	tick  time.Duration
	wake  chan struct{}

	mu    sync.Mutex
	gen   Generation
	terms []*runningTerm
	began bool // the generation is new
	plan  *commitPlan
}

func newCommitter(o ConsumerOptions) *committer {
	plan := newCommitPlan(o.Lease, o.Clock())
	return &committer{clock: o.Clock, tick: min(o.CommitInterval, plan.renewal), wake: make(chan struct{}, 1), plan: plan}
}

// follow makes the committer commit in a generation, for these terms.
func (c *committer) follow(gen Generation, terms []*runningTerm) {
	c.mu.Lock()
	c.began = c.began || c.gen != gen
	c.gen, c.terms = gen, terms
	c.mu.Unlock()
	c.kick()
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

// commit sends the due commits and tells each worker the answer. A partition that is being handed over is committed while its
// lease holds, because its next owner reads the committed offset only after that.
func (c *committer) commit(ctx context.Context) {
	c.mu.Lock()
	gen, began := c.gen, c.began
	c.began = false
	var terms []*runningTerm
	var workers []candidate
	for _, t := range c.terms {
		if theirs := t.leaving.Load(); !theirs || t.held() {
			terms, workers = append(terms, t), append(workers, candidate{&t.runner.executor, theirs})
		}
	}
	c.mu.Unlock()
	if began {
		c.plan.begin(c.clock())
	}
	c.plan.commit(c.clock(), workers,
		func(due []record.Commit) ([]error, error) { return gen.Commit(ctx, due) },
		func(worker int, answer Committed) { terms[worker].post(answer) })
}
