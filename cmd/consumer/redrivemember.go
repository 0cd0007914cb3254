package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/kafka"
	"waterwheel/kafka/group"
	"waterwheel/record"
)

const (
	// redriveSession is the longest session of a re-drive's member: a run after a kill waits for its end.
	redriveSession = 10 * time.Second
	// redriveLeave is the time to finish a parcel and to leave the group.
	redriveLeave = 20 * time.Second
)

var (
	errOtherRedrive = errors.New("another re-drive is running (or was killed a moment ago): try again when it is done")
	errRedriveEnds  = errors.New("the group of the re-drive was taken over, by another run of the same command")
)

// redriveMembership is the work of the only member of a re-drive's group, and where it commits.
type redriveMembership struct {
	partitions []group.Assigned
	held       func() bool // of the lease, which each commit renews
	send       func(context.Context, []record.Commit) ([]error, error)
	last       []record.Commit
}

func newRedriveMembership(g *group.Generation) *redriveMembership {
	return &redriveMembership{partitions: g.Partitions, held: g.Held, send: g.Commit}
}

// committed is what the group has committed so far.
func (m *redriveMembership) committed() map[dlq.Place]dlq.Committed {
	out := map[dlq.Place]dlq.Committed{}
	for _, a := range m.partitions {
		if a.Offset >= 0 {
			out[dlq.Place{Topic: a.Topic, Partition: a.Number}] = dlq.Committed{Offset: a.Offset, Metadata: a.Metadata}
		}
	}
	return out
}

// Commit implements dlq.Progress.
func (m *redriveMembership) Commit(ctx context.Context, place dlq.Place, offset int64, metadata string) error {
	m.last = []record.Commit{{Place: record.Place{Partition: record.Partition{Topic: place.Topic, Number: place.Partition}, Offset: offset}, Metadata: metadata}}
	return m.commit(ctx)
}

// commit repeats a commit of which nothing was heard.
func (m *redriveMembership) commit(ctx context.Context) error {
	return kafka.Patiently(ctx, func() error {
		results, err := m.send(ctx, m.last)
		if err != nil {
			return err
		}
		return results[0]
	})
}

// hold makes sure that the group is still this run's, before a request that brings letters back: a process that was stopped
// goes on in the middle of a parcel, which another run may have finished meanwhile. When the lease has lapsed, the parcel's
// commit is made again: no other run has been a member if it is taken.
func (m *redriveMembership) hold(ctx context.Context) error {
	if m.held() {
		return nil
	}
	if err := m.commit(ctx); err != nil {
		return fmt.Errorf("asking whether the group is still this run's: %w", err)
	}
	if !m.held() {
		return errRedriveEnds
	}
	return nil
}

// withRedriveGroup runs work as the only member of a group, and of all re-drives. The context of work ends when the group
// passes to another member.
func withRedriveGroup(ctx context.Context, c config.Config, log *slog.Logger, reader *letterReader, name string, work func(context.Context, *redriveMembership) error) error {
	if err := waitAlone(ctx, c, reader, name, 0); err != nil {
		return err
	}
	o := kafkaOptions(c, log)
	o.Topics = reader.topics
	m := groupOptions(c, log)
	m.Topics, m.GroupID, m.InstanceID, m.Shutdown = reader.topics, name, "", redriveLeave
	m.SessionTimeout = min(m.SessionTimeout, redriveSession)
	m.HeartbeatInterval = min(m.HeartbeatInterval, m.SessionTimeout/3)
	m.Lease = min(m.SessionTimeout, m.RebalanceTimeout) // no other can be the member so soon after a commit
	client, err := kafka.Open(ctx, o, prometheus.NewRegistry())
	if err != nil {
		return err
	}
	defer client.Close()
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	member := &redriveMember{first: make(chan *group.Generation, 1), stop: stop, done: make(chan struct{})}
	membership, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	var g errgroup.Group
	g.Go(func() error {
		err := group.New(client, m, member, prometheus.NewRegistry()).Run(membership)
		stop(err)
		return err
	})
	g.Go(func() error {
		defer leave()
		defer close(member.done)
		select {
		case generation := <-member.first:
			if err := checkAlone(working, c, reader, name, generation); err != nil {
				return err
			}
			return work(working, newRedriveMembership(generation))
		case <-working.Done():
			return context.Cause(working)
		}
	})
	return g.Wait()
}

// checkAlone refuses to work beside another re-drive that began at the same time.
func checkAlone(ctx context.Context, c config.Config, reader *letterReader, name string, generation *group.Generation) error {
	spans, err := dlq.Spans(ctx, reader, reader.topics)
	if err != nil {
		return err
	}
	if len(generation.Partitions) != len(spans) {
		return errOtherRedrive
	}
	for _, a := range generation.Partitions {
		if a.Err != nil {
			return fmt.Errorf("reading what the group %s has committed: %w", name, a.Err)
		}
	}
	return waitAlone(ctx, c, reader, name, 1)
}

// waitAlone waits until the re-drives' groups have no members but those of this one, which has own: a member that was
// killed stays for its session.
func waitAlone(ctx context.Context, c config.Config, reader *letterReader, group string, own int) error {
	deadline := time.Now().Add(min(c.Kafka.SessionTimeout, redriveSession) + 2*time.Second)
	for {
		busy, err := redriveMembers(ctx, c, reader, group, own)
		if err != nil || !busy {
			return err
		}
		if own > 0 || time.Now().After(deadline) {
			return errOtherRedrive
		}
		select {
		case <-time.After(scanPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// redriveMembers tells whether re-drives have members, but for own of this group.
func redriveMembers(ctx context.Context, c config.Config, reader *letterReader, group string, own int) (bool, error) {
	var groups []string
	err := kafka.Patiently(ctx, func() (err error) {
		groups, err = reader.Groups(ctx, redriveBase(c))
		return err
	})
	if err != nil {
		return false, fmt.Errorf("looking for other re-drives: %w", err)
	}
	for _, name := range groups {
		if _, ok := redriveSelection(c, name); !ok {
			continue
		}
		members := 0
		err := kafka.Patiently(ctx, func() error {
			list, err := reader.Members(ctx, name)
			members = len(list)
			return err
		})
		if err != nil {
			return false, fmt.Errorf("looking for the members of the group %s: %w", name, err)
		}
		if name == group {
			members -= own
		}
		if members > 0 {
			return true, nil
		}
	}
	return false, nil
}

// redriveMember hands the first generation to the work, and ends the work with it.
type redriveMember struct {
	first chan *group.Generation
	stop  context.CancelCauseFunc
	done  chan struct{} // closed when the work has returned
}

// Assigned begins the work. After a later generation it has ended.
func (m *redriveMember) Assigned(g *group.Generation) {
	select {
	case m.first <- g:
	default:
	}
}

// Revoke lets the work finish what it has begun.
func (m *redriveMember) Revoke(ctx context.Context, _ *group.Generation) {
	m.stop(errRedriveEnds)
	select {
	case <-m.done:
	case <-ctx.Done():
	}
}

// Lost waits for the work: it commits nothing more.
func (m *redriveMember) Lost(*group.Generation) {
	m.stop(errRedriveEnds)
	<-m.done
}
