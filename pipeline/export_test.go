package pipeline

import (
	"context"
	"time"

	"waterwheel/record"
)

// What the simulation shares with the program, beside the Worker: what carries actions out, and what decides about commits.

// Hands are what carries out the actions of a worker.
type Hands struct{ hands }

// NewHands returns those of a worker.
func NewHands(w *Worker, ports Ports, letters Letters, budget *Budget) *Hands {
	return &Hands{hands{worker: w, ports: ports, letters: letters, budget: budget}}
}

// Give is hands.give.
func (h *Hands) Give(m Moment, e Event) []Action { return h.give(m, e) }

// Leave is hands.leave.
func (h *Hands) Leave() { h.leave() }

// Open is hands.open.
func (h *Hands) Open(a Open) { h.open(a) }

// Perform is hands.perform.
func (h *Hands) Perform(ctx context.Context, action Action) Event { return h.perform(ctx, action) }

// CommitPlan is what decides about the commits of a generation.
type CommitPlan struct{ commitPlan }

// NewCommitPlan is newCommitPlan.
func NewCommitPlan(lease time.Duration, now Instant) *CommitPlan {
	return &CommitPlan{*newCommitPlan(lease, now)}
}

// Hurry is commitPlan.hurry.
func (p *CommitPlan) Hurry(partition record.Partition) { p.hurry(partition) }

// Due is commitPlan.due.
func (p *CommitPlan) Due(now Instant, wanted []record.Commit) []record.Commit {
	return p.due(now, wanted)
}

// Answered is commitPlan.answered.
func (p *CommitPlan) Answered(sentAt Instant, sent []record.Commit, errs []error, err error) []Committed {
	return p.answered(sentAt, sent, errs, err)
}
