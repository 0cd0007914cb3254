package pipeline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// commits returns wanted commits of partitions 0, 1, … at these offsets.
func commits(offsets ...int64) (wanted []record.Commit) {
	for i, offset := range offsets {
		wanted = append(wanted, record.Commit{Place: record.Place{Partition: events(int32(i)), Offset: offset}})
	}
	return wanted
}

// dueOffsets checks which offsets are due by the plan, by partition, and returns the commits.
func dueOffsets(t *testing.T, p *commitPlan, now Instant, wanted []record.Commit, want map[int32]int64) []record.Commit {
	t.Helper()
	due := p.due(now, wanted)
	for _, c := range due {
		if offset, ok := want[c.Number]; !ok || offset != c.Offset {
			t.Errorf("at %v %d of partition %d is due", now, c.Offset, c.Number)
		}
	}
	if len(due) != len(want) {
		t.Errorf("at %v %d commits are due, want %v", now, len(due), want)
	}
	return due
}

func TestCommitPlanSendsWhatChangedAndRenews(t *testing.T) {
	p := newCommitPlan(15*time.Second, time.Hour)
	at := func(s time.Duration) Instant { return time.Hour + s*time.Second }
	first := dueOffsets(t, p, at(1), commits(5, 7), map[int32]int64{0: 5, 1: 7})
	p.answered(at(1), first, make([]error, 2), nil)
	dueOffsets(t, p, at(2), commits(5, 7), nil)
	changed := dueOffsets(t, p, at(2), commits(5, 8), map[int32]int64{1: 8})
	p.answered(at(2), changed, make([]error, 1), nil)
	dueOffsets(t, p, at(4), commits(5, 8), nil)
	dueOffsets(t, p, at(5), commits(5, 8), map[int32]int64{0: 5, 1: 8}) // a fifth of the lease after the last answered commit
	p.hurry(events(0))
	urgent := dueOffsets(t, p, at(4), commits(5, 8), map[int32]int64{0: 5})
	p.answered(at(4), urgent, make([]error, 1), nil)
	dueOffsets(t, p, at(4), commits(5, 8), nil)
}

// TestCommitPlanSendsWhatChangedInMetadataAlone covers the first commit of offset 0, and a commit that becomes ours.
func TestCommitPlanSendsWhatChangedInMetadataAlone(t *testing.T) {
	p := newCommitPlan(time.Hour, 0)
	p.answered(1, dueOffsets(t, p, 1, commits(0), map[int32]int64{0: 0}), make([]error, 1), nil)
	ours := commits(0)
	ours[0].Metadata = "ww1"
	p.answered(2, dueOffsets(t, p, 2, ours, map[int32]int64{0: 0}), make([]error, 1), nil)
	dueOffsets(t, p, 3, ours, nil)
}

// TestFailedCommitIsUrgentAgain checks this even for a commit that was answered before, because its worker waits for it.
func TestFailedCommitIsUrgentAgain(t *testing.T) {
	p := newCommitPlan(time.Hour, 0)
	p.answered(1, commits(5, 7), make([]error, 2), nil)
	for name, fail := range map[string]func(sent []record.Commit) []Committed{
		"all":      func(sent []record.Commit) []Committed { return p.answered(2, sent, nil, errDown) },
		"this one": func(sent []record.Commit) []Committed { return p.answered(2, sent, []error{errDown}, nil) },
	} {
		p.hurry(events(0))
		heard := fail(dueOffsets(t, p, 2, commits(5, 7), map[int32]int64{0: 5}))
		if len(heard) != 1 || heard[0] != (Committed{Offset: 5, SentAt: 2, Err: errDown}) {
			t.Errorf("%s failed: the worker hears %+v", name, heard)
		}
		again := dueOffsets(t, p, 3, commits(5, 7), map[int32]int64{0: 5})
		p.answered(3, again, make([]error, 1), nil)
		dueOffsets(t, p, 4, commits(5, 7), nil)
	}
}

// failingCommits is a generation with failing commits.
type failingCommits struct {
	fakeGeneration
	fail int
}

func (g *failingCommits) Commit(ctx context.Context, sent []record.Commit) ([]error, error) {
	if g.fail--; g.fail >= 0 {
		return nil, errors.New("the coordinator is away")
	}
	return g.fakeGeneration.Commit(ctx, sent)
}

// TestClaimWaitsForACommitThatFailsAtFirst checks that the commit of the start is repeated before the claim. Nothing else repeats
// it.
func TestClaimWaitsForACommitThatFailsAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		database, gen := newFakeDatabase(), &failingCommits{fakeGeneration{committed: map[int32]int64{}}, 3}
		l := &fakeLog{begin: time.Now(), rate: 50, total: 100, most: 100, series: 1}
		database.logs[0] = l
		consumer := newFakeConsumer(t, fakePorts{database: database, logs: []*fakeLog{l}}, NewBudget(1<<30), definedBy(timeseries.Seconds))
		consumer.Assigned(gen, []Assignment{{events(0), Assigned{TopicID: thisTopic}}}, false)
		_ = wait(t.Context(), 20*time.Second)
		if got := gen.at(0); got != 100 {
			t.Errorf("committed to %d of 100", got)
		}
		consumer.Revoke(context.Background(), true)
	})
}

// slowCommits is a generation with late answers to commits.
type slowCommits struct {
	fakeGeneration
	now Instant
}

func (g *slowCommits) Commit(ctx context.Context, sent []record.Commit) ([]error, error) {
	g.now += time.Second
	return g.fakeGeneration.Commit(ctx, sent)
}

// TestCommitCountsFromItsSending checks that a commit sent before the end of a wait proves nothing about the time after it.
func TestCommitCountsFromItsSending(t *testing.T) {
	gen := &slowCommits{fakeGeneration: fakeGeneration{committed: map[int32]int64{}}, now: time.Hour}
	c := newCommitter(ConsumerOptions{Clock: func() Instant { return gen.now }, CommitInterval: time.Second, Lease: 9 * time.Second})
	r := newRunningTerm(&runner{}, &usedLease{Generation: gen})
	r.events = make(chan Event, 1)
	r.runner.want.Store(&commits(5)[0])
	c.follow(gen, []*runningTerm{r})
	c.commit(t.Context())
	if heard := <-r.events; heard != (Committed{Offset: 5, SentAt: time.Hour}) {
		t.Errorf("the worker hears %+v", heard)
	}
}

// TestAnsweredCommitOfAPartitionHandedOverIsNotRenewed checks this because the next owner may have committed since, and the lease
// gains nothing.
func TestAnsweredCommitOfAPartitionHandedOverIsNotRenewed(t *testing.T) {
	gen := &slowCommits{fakeGeneration: fakeGeneration{committed: map[int32]int64{}}, now: time.Hour}
	c := newCommitter(ConsumerOptions{Clock: func() Instant { return gen.now }, CommitInterval: time.Second, Lease: 9 * time.Second})
	kept, given := newRunningTerm(&runner{}, &usedLease{Generation: gen}), newRunningTerm(&runner{}, &usedLease{Generation: gen})
	kept.events, given.events = make(chan Event, 2), make(chan Event, 3)
	kept.runner.want.Store(&commits(5, 7)[0])
	given.runner.want.Store(&commits(5, 7)[1])
	c.follow(gen, []*runningTerm{kept, given})
	c.commit(t.Context())
	given.leaving.Store(true)
	gen.now += time.Minute // a renewal is due
	c.commit(t.Context())
	if len(kept.events) != 2 || len(given.events) != 1 {
		t.Errorf("the one that is kept is committed %d times, the other %d times", len(kept.events), len(given.events))
	}
	given.runner.want.Store(&commits(5, 8)[1])
	if c.commit(t.Context()); len(given.events) != 2 {
		t.Errorf("what was written for its hand-over is committed %d times", len(given.events)-1)
	}
}
