package pipeline

import (
	"context"
	"time"

	"waterwheel/internal/record"
)

// These are the parts that the simulation shares with the program besides the Worker. They carry out actions and decide about
// commits.

// Executor carries out the actions of a worker.
type Executor struct{ executor }

// NewExecutor returns the executor of a worker.
func NewExecutor(w *Worker, ports Ports, letters DeadLetters, budget *Budget) *Executor {
	return &Executor{executor: executor{worker: w, ports: ports, deadLetters: letters, budget: budget}}
}

// Give is executor.give.
func (x *Executor) Give(m Moment, e Event) []Action { return x.give(m, e) }

// Forget is executor.forget.
func (x *Executor) Forget(now Instant) { x.forget(now) }

// Hurry makes the next commit due without a change of the offset.
func (x *Executor) Hurry() { x.urgent.Store(true) }

// Leave is executor.leave.
func (x *Executor) Leave() { x.leave() }

// Open is executor.open.
func (x *Executor) Open(a Open) { x.open(a) }

// Perform carries an action out.
func (x *Executor) Perform(ctx context.Context, action Action) Event {
	return action.perform(ctx, &x.executor)
}

// CommitPlan decides about the commits of a generation.
type CommitPlan struct{ commitPlan }

// NewCommitPlan is newCommitPlan.
func NewCommitPlan(lease time.Duration, now Instant) *CommitPlan {
	return &CommitPlan{*newCommitPlan(lease, now)}
}

// Begin is commitPlan.begin.
func (p *CommitPlan) Begin(now Instant) { p.begin(now) }

// Commit is commitPlan.commit for the workers of these executors. theirs marks those that are handed over.
func (p *CommitPlan) Commit(now Instant, of []*Executor, theirs []bool, send func([]record.Commit) ([]error, error), tell func(worker int, answer Committed)) {
	workers := make([]candidate, len(of))
	for i, x := range of {
		workers[i] = candidate{&x.executor, theirs[i]}
	}
	p.commit(now, workers, send, tell)
}

// AssignmentSet is the set of a process's partitions.
type AssignmentSet struct{ assignment }

// Follow is assignment.follow.
func (r *AssignmentSet) Follow(assignments []Assignment, consecutive bool) (stay map[record.Partition]bool) {
	return r.follow(assignments, consecutive)
}
