package pipeline

import (
	"context"
	"time"

	"waterwheel/record"
)

// committer commits the offsets of one generation, all partitions in one request: every commit interval what has changed,
// at once what a worker waits for, and when nothing changes the same again every third of the lease, because only an
// answered commit renews it.
type committer struct {
	gen      Generation
	runners  []*runner
	clock    func() Instant
	interval time.Duration
	renewal  time.Duration
	wake     chan struct{}
	renewed  Instant
	done     map[*runner]record.Commit // what was answered
}

func newCommitter(gen Generation, o ConsumerOptions) *committer {
	return &committer{
		gen: gen, clock: o.Clock, interval: o.CommitInterval, renewal: o.Lease / 3,
		wake: make(chan struct{}, 1), done: map[*runner]record.Commit{}, renewed: o.Clock(),
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
	tick := time.NewTicker(min(c.interval, c.renewal))
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
	due, commits := c.due(sentAt-c.renewed >= c.renewal)
	if len(commits) == 0 {
		return
	}
	errs, err := c.gen.Commit(ctx, commits)
	for i, r := range due {
		failed := err
		if failed == nil {
			failed = errs[i]
		}
		if failed == nil {
			c.done[r], c.renewed = commits[i], sentAt
		} else {
			r.urgent.Store(true) // keep it for the next try
		}
		r.post(Committed{Offset: commits[i].Offset, SentAt: sentAt, Err: failed})
	}
}

// due lists the partitions to commit now; all of them when the lease must be renewed.
func (c *committer) due(renew bool) ([]*runner, []record.Commit) {
	var due []*runner
	var commits []record.Commit
	for _, r := range c.runners {
		want := r.want.Load()
		if want == nil {
			continue
		}
		if urgent := r.urgent.Swap(false); urgent || renew || c.done[r] != *want {
			due, commits = append(due, r), append(commits, *want)
		}
	}
	return due, commits
}
