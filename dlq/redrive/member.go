package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/record"
)

const (
	// longestSession is the longest session timeout of a re-drive's member. A run after a kill waits until the session ends.
	longestSession = 10 * time.Second
	// leaveTime is the time to finish a batch and to leave the group.
	leaveTime = 20 * time.Second
	// lookPause is the time between two checks whether other re-drives have ended.
	lookPause = 250 * time.Millisecond
)

var (
	errOther = errors.New("another redrive is running, or was killed a moment ago: try again when it has ended")
	errEnds  = errors.New("another run of the same command has taken over the consumer group of this redrive")
)

// progress commits offsets of dead-letter topics for the consumer group of a re-drive. Calls do not overlap.
type progress interface {
	// Commit fails if the group has passed to another member. The same commit may be repeated.
	Commit(ctx context.Context, c record.Commit) error
}

// member is the only member of a re-drive's group while it works. It commits the progress.
type member struct {
	held func() bool // whether the lease holds, which each commit renews
	send func(context.Context, []record.Commit) ([]error, error)
	last []record.Commit
}

// Commit implements progress.
func (m *member) Commit(ctx context.Context, c record.Commit) error {
	m.last = []record.Commit{c}
	return m.commit(ctx)
}

// commit sends the last commit, and retries if nothing was heard of it.
func (m *member) commit(ctx context.Context) error {
	return kafka.Patiently(ctx, func() error {
		results, err := m.send(ctx, m.last)
		if err != nil {
			return err
		}
		return results[0]
	})
}

// hold verifies that the group is still this run's, before a request that sends letters back. A process that was suspended
// resumes in the middle of a batch, which another run may have finished meanwhile. If the lease has expired, hold repeats the
// batch's commit. If the commit succeeds, no other run has been a member.
func (m *member) hold(ctx context.Context) error {
	if m.held() {
		return nil
	}
	if err := m.commit(ctx); err != nil {
		return fmt.Errorf("checking that the consumer group still belongs to this run: %w", err)
	}
	if !m.held() {
		return errEnds
	}
	return nil
}

// alone runs work as the only member of a group, and of all re-drives. partitions is the number of all dead-letter partitions.
// The context of work ends when the group passes to another member.
func (g groups) alone(ctx context.Context, o Options, name string, partitions int, work func(context.Context, *group.Generation) error) error {
	m := o.Member
	m.Topics, m.GroupID, m.InstanceID, m.Shutdown, m.Eager = o.Topics, name, "", leaveTime, true
	m.SessionTimeout = min(m.SessionTimeout, longestSession)
	m.HeartbeatInterval = min(m.HeartbeatInterval, m.SessionTimeout/3)
	m.Lease = min(m.SessionTimeout, m.RebalanceTimeout) // no other run can become the member so soon after a commit
	// A member that was killed stays in the group until its session ends.
	if err := g.wait(ctx, name, m.SessionTimeout+2*time.Second); err != nil {
		return err
	}
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	first := &firstGeneration{generation: make(chan *group.Generation, 1), stop: stop, done: make(chan struct{})}
	membership, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	var both errgroup.Group
	both.Go(func() error {
		err := group.New(g.log.Client, m, first, prometheus.NewRegistry()).Run(membership)
		stop(err)
		return err
	})
	both.Go(func() error {
		defer leave()
		defer close(first.done)
		select {
		case generation := <-first.generation:
			if err := g.check(working, name, partitions, generation); err != nil {
				return err
			}
			return work(working, generation)
		case <-working.Done():
			return context.Cause(working)
		}
	})
	return both.Wait()
}

// wait waits until the re-drives' groups have no members, for at most patience.
func (g groups) wait(ctx context.Context, name string, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		busy, err := g.busy(ctx, name, 0)
		switch {
		case err != nil || !busy:
			return err
		case time.Now().After(deadline):
			return errOther
		case !kafka.Sleep(ctx, lookPause):
			return context.Cause(ctx)
		}
	}
}

// check returns an error if another re-drive began at the same time.
func (g groups) check(ctx context.Context, name string, partitions int, generation *group.Generation) error {
	if len(generation.Partitions) != partitions {
		return errOther
	}
	busy, err := g.busy(ctx, name, 1)
	if err == nil && busy {
		err = errOther
	}
	return err
}

// firstGeneration passes the first generation to the work, and ends the work with it.
type firstGeneration struct {
	generation chan *group.Generation
	stop       context.CancelCauseFunc
	done       chan struct{} // closed when the work has returned
}

// Assigned starts the work. When a later generation comes, the work has ended.
func (f *firstGeneration) Assigned(g *group.Generation) {
	select {
	case f.generation <- g:
	default:
	}
}

// Revoke lets the work finish what it has begun.
func (f *firstGeneration) Revoke(ctx context.Context, _ *group.Generation) {
	f.stop(errEnds)
	select {
	case <-f.done:
	case <-ctx.Done():
	}
}

// Lost waits until the work has ended. The work commits nothing more.
func (f *firstGeneration) Lost(*group.Generation) {
	f.stop(errEnds)
	<-f.done
}
