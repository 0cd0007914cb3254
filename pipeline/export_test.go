package pipeline

import (
	"context"
	"time"

	"waterwheel/internal/record"
)

// What the simulation shares with the program, beside the Worker: what carries actions out, and what decides about commits.

// Hands are what carries out the actions of a worker.
type Hands struct{ hands }

// NewHands returns those of a worker.
func NewHands(w *Worker, ports Ports, letters Letters, budget *Budget) *Hands {
	return &Hands{hands: hands{worker: w, ports: ports, letters: letters, budget: budget}}
}

// Give is hands.give.
func (h *Hands) Give(m Moment, e Event) []Action { return h.give(m, e) }

// Forget is hands.forget.
func (h *Hands) Forget(now Instant) { h.forget(now) }

// Hurry lets the next commit not wait for a change of offset.
func (h *Hands) Hurry() { h.urgent.Store(true) }

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

// Begin is commitPlan.begin.
func (p *CommitPlan) Begin(now Instant) { p.begin(now) }

// Commit is commitPlan.commit, for the workers that these carry out the actions of; theirs are those that are handed over.
func (p *CommitPlan) Commit(now Instant, of []*Hands, theirs []bool, send func([]record.Commit) ([]error, error), tell func(worker int, answer Committed)) {
	workers := make([]candidate, len(of))
	for i, h := range of {
		workers[i] = candidate{&h.hands, theirs[i]}
	}
	p.commit(now, workers, send, tell)
}

// AssignmentSet is which partitions a process has.
type AssignmentSet struct{ assignment }

// Follow is assignment.follow.
func (r *AssignmentSet) Follow(assignments []Assignment, consecutive bool) (stay map[record.Partition]bool) {
	return r.follow(assignments, consecutive)
}
