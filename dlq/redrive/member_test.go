package redrive

import (
	"context"
	"errors"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/dlq"
	"waterwheel/internal/record"
)

func TestGroupNamesItsSelection(t *testing.T) {
	s := Selection{MaxAttempts: 5, Filter: dlq.Filter{Reasons: []string{"bad_time", "not_json"}, From: time.Unix(1_700_000_000, 0).UTC()}}
	got, ok := selectionOf("ww", Group("ww", s))
	if !ok || got.String() != s.String() {
		t.Errorf("%q came back as %q, %v", s, got, ok)
	}
	if Group("ww", Selection{MaxAttempts: DefaultMaxAttempts}) != "ww.redrive" {
		t.Error("the group of all letters has a longer name")
	}
	for _, group := range []string{"ww", "ww.redrive2", "ww.redrive.x=y", "other.redrive"} {
		if _, ok := selectionOf("ww", group); ok {
			t.Errorf("the group %q was taken for one of a re-drive", group)
		}
	}
}

// TestLapsedRedriveAsksWhetherTheGroupIsStillItsOwn checks that an expired lease is renewed only by sending the last commit
// again.
func TestLapsedRedriveAsksWhetherTheGroupIsStillItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		held    []bool // the results of the checks whether the lease is held
		answer  error
		commits int
		want    error
	}{
		"held":              {held: []bool{true}},
		"renewed":           {held: []bool{false, true}, commits: 1},
		"taken over":        {held: []bool{false}, answer: kafkago.IllegalGeneration, commits: 1, want: kafkago.IllegalGeneration},
		"answered too late": {held: []bool{false, false}, commits: 1, want: errEnds},
		"unknown by now":    {held: []bool{false}, answer: kafkago.UnknownMemberId, commits: 1, want: kafkago.UnknownMemberId},
	} {
		var commits []record.Commit
		m := &member{
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
		if err := m.Commit(t.Context(), record.Commit{Place: record.Place{Partition: dead, Offset: 7}, Metadata: "redrive until=9"}); err != nil {
			t.Fatal(err)
		}
		if err := m.hold(t.Context()); !errors.Is(err, c.want) || len(commits) != 1+c.commits || commits[len(commits)-1] != commits[0] {
			t.Errorf("%s: %v, commits %+v", name, err, commits)
		}
	}
}
