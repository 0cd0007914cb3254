package redrive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"waterwheel/dlq"
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

// Group returns the consumer group that keeps the progress of a selection, for a given consumer group.
func Group(consumer string, s Selection) string {
	if text := s.String(); text != "" {
		return base(consumer) + "." + text
	}
	return base(consumer)
}

// base returns the common prefix of the names of all groups of re-drives.
func base(consumer string) string { return consumer + ".redrive" }

// selectionOf returns the selection of a group. False means that the group does not belong to a re-drive.
func selectionOf(consumer, group string) (Selection, bool) {
	text, ok := strings.CutPrefix(group, base(consumer))
	if !ok || text != "" && text[0] != '.' {
		return Selection{}, false
	}
	s, err := parseSelection(strings.TrimPrefix(text, "."))
	return s, err == nil
}

// past is what the group of a selection has committed, by partition of the dead-letter topics.
type past struct {
	selection Selection
	committed map[record.Partition]record.Commit
}

// isCutOff reports whether the last run ended, in some partition, without knowing which of its letters have arrived.
func (p past) isCutOff() bool {
	for _, c := range p.committed {
		if strings.HasPrefix(c.Metadata, markerPrefix) {
			return true
		}
	}
	return false
}

// passed reports whether a re-drive has handled the letter: it went back, or was refused. No re-drive takes it again.
func passed(pasts []past, f *dlq.Found) bool {
	return slices.ContainsFunc(pasts, func(p past) bool {
		return f.Err == nil && f.Offset < p.committed[f.Partition].Offset && p.selection.drives(f)
	})
}

// groups gives access to the consumer groups of the re-drives of one consumer group.
type groups struct {
	log      *kafka.Scanner
	consumer string
}

// all returns the groups of all selections, by name.
func (g groups) all(ctx context.Context) (map[string]Selection, error) {
	names, err := kafka.Answer(ctx, func() ([]string, error) { return g.log.Groups(ctx, base(g.consumer)) })
	if err != nil {
		return nil, fmt.Errorf("listing the consumer groups of other redrives: %w", err)
	}
	all := map[string]Selection{}
	for _, name := range names {
		if s, ok := selectionOf(g.consumer, name); ok {
			all[name] = s
		}
	}
	return all, nil
}

// pasts returns all partitions of the dead-letter topics, and the commits of the groups of all selections for them.
func (g groups) pasts(ctx context.Context, topics []string) (spans []dlq.Span, pasts []past, err error) {
	if spans, err = dlq.Spans(ctx, g.log, topics); err != nil {
		return nil, nil, err
	}
	all, err := g.all(ctx)
	if err != nil {
		return nil, nil, err
	}
	for group, s := range all {
		p, err := g.past(ctx, group, s, spans)
		if err != nil {
			return nil, nil, err
		}
		pasts = append(pasts, p)
	}
	slices.SortFunc(pasts, func(a, b past) int { return cmp.Compare(a.selection.String(), b.selection.String()) })
	return spans, pasts, nil
}

// past returns the commits of the group of a selection for these partitions.
func (g groups) past(ctx context.Context, group string, s Selection, spans []dlq.Span) (past, error) {
	partitions := make([]record.Partition, len(spans))
	for i, s := range spans {
		partitions[i] = s.Partition
	}
	answers, err := g.log.Committed(ctx, group, partitions)
	if err != nil {
		return past{}, fmt.Errorf("reading the committed offsets of the group %s: %w", group, err)
	}
	p := past{s, map[record.Partition]record.Commit{}}
	for _, c := range answers {
		if c.Offset >= 0 {
			p.committed[c.Partition] = record.Commit{Place: c.Place, Metadata: c.Metadata}
		}
	}
	return p, nil
}

// busy reports whether groups of re-drives have members. Up to own members of the given group do not count.
func (g groups) busy(ctx context.Context, group string, own int) (bool, error) {
	all, err := g.all(ctx)
	for name := range all {
		members, err := kafka.Answer(ctx, func() ([]kafka.Member, error) { return g.log.Members(ctx, name) })
		if err != nil {
			return false, fmt.Errorf("reading the members of the group %s: %w", name, err)
		}
		if len(members) > own || name != group && len(members) > 0 {
			return true, nil
		}
	}
	return false, err
}
