package main

import (
	"context"
	"errors"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/dlq"
	"waterwheel/record"
)

// A lapsed lease is renewed by the commit that was made last, and by nothing else.
func TestLapsedRedriveAsksWhetherTheGroupIsStillItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		held    []bool // the answers to the question whether the lease is held
		answer  error
		commits int
		want    error
	}{
		"held":              {held: []bool{true}},
		"renewed":           {held: []bool{false, true}, commits: 1},
		"taken over":        {held: []bool{false}, answer: kafkago.IllegalGeneration, commits: 1, want: kafkago.IllegalGeneration},
		"answered too late": {held: []bool{false, false}, commits: 1, want: errRedriveEnds},
		"unknown by now":    {held: []bool{false}, answer: kafkago.UnknownMemberId, commits: 1, want: kafkago.UnknownMemberId},
	} {
		var commits []record.Commit
		m := &redriveMembership{
			held: func() bool {
				held := c.held[0]
				c.held = c.held[1:]
				return held
			},
			send: func(_ context.Context, list []record.Commit) ([]error, error) {
				commits = append(commits, list...)
				if len(commits) > 1 {
					return []error{c.answer}, nil
				}
				return []error{nil}, nil
			},
		}
		if err := m.Commit(t.Context(), dlq.Place{Topic: "events.dlq"}, 7, "redrive until=9"); err != nil {
			t.Fatal(err)
		}
		if err := m.hold(t.Context()); !errors.Is(err, c.want) || len(commits) != 1+c.commits || commits[len(commits)-1] != commits[0] {
			t.Errorf("%s: %v, commits %+v", name, err, commits)
		}
	}
}

// A run that loses its group in the middle of a parcel, as one does that was stopped for longer than its session, sends
// nothing more: the next run has finished the parcel.
func TestRedriveTakenOverInAParcelSendsNothingMore(t *testing.T) {
	const n = 1200
	r := newRedriving(t)
	r.fill(t, n)
	var next RedriveView
	_, err := r.redriveIn(t, func(m *redriveMembership) (func(context.Context) error, dlq.Progress) {
		requests := 0
		return func(ctx context.Context) error {
			if requests++; requests == 3 {
				r.removeMembers(t, redriveGroup(r.config, allLetters()))
				next = r.redrive(t)
			}
			return m.hold(ctx)
		}, m
	})
	if err == nil || next.Arrived == 0 || next.Arrived+next.Driven != n {
		t.Errorf("%v; the next run: %+v", err, next)
	}
	t.Logf("ended by: %v", err)
	r.isOnce(t, n)
}

// removeMembers is what the coordinator does to members whose session has ended.
func (r *redriving) removeMembers(t *testing.T, group string) {
	t.Helper()
	described, err := r.client.DescribeGroups(t.Context(), &kafkago.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil || len(described.Groups[0].Members) != 1 {
		t.Fatalf("describing the group: %v, %+v", err, described)
	}
	request := &kafkago.LeaveGroupRequest{GroupID: group}
	request.Members = append(request.Members, kafkago.LeaveGroupRequestMember{ID: described.Groups[0].Members[0].MemberID})
	if response, err := r.client.LeaveGroup(t.Context(), request); err != nil || response.Error != nil {
		t.Fatalf("removing the member: %v, %+v", err, response)
	}
}
