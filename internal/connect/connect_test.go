package connect

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// TestATopicThatMayNotBeSeenIsNotToBeCreated checks that each error has its own advice, once.
func TestATopicThatMayNotBeSeenIsNotToBeCreated(t *testing.T) {
	refused := func(code kafkago.Error) error {
		return &kafka.Error{API: "Metadata", Of: record.Partition{Topic: "events", Number: -1}, Err: code}
	}
	errs := unreadable([]kafka.Topic{
		{Name: "a", Err: refused(kafkago.TopicAuthorizationFailed)},
		{Name: "b", Err: refused(kafkago.UnknownTopicOrPartition)},
		{Name: "c", Err: refused(kafkago.LeaderNotAvailable)},
		{Name: "d"},
	})
	if len(errs) != 2 || strings.Contains(errs[0].Error(), "create") || !strings.Contains(errs[0].Error(), "grant READ and DESCRIBE") ||
		strings.Count(errs[1].Error(), "create") != 1 {
		t.Errorf("%q", errs)
	}
}

// TestATopicOfAMomentAgoIsFound checks that a new topic is asked for again, because a broker may not know it yet. A topic that
// stays unknown is a mistake, and is reported soon.
func TestATopicOfAMomentAgoIsFound(t *testing.T) {
	unknown := func() []kafka.Topic {
		return []kafka.Topic{{Name: "old"}, {Name: "new", Err: kafkago.UnknownTopicOrPartition}}
	}
	known := func() []kafka.Topic { return []kafka.Topic{{Name: "old"}, {Name: "new"}} }
	for name, c := range map[string]struct {
		looks []func() []kafka.Topic // the last look repeats
		want  error
		asked int
	}{
		"there":      {[]func() []kafka.Topic{known}, nil, 1},
		"soon":       {[]func() []kafka.Topic{unknown, unknown, known}, nil, 3},
		"never":      {[]func() []kafka.Topic{unknown}, kafkago.UnknownTopicOrPartition, newTopicTries},
		"may not be": {[]func() []kafka.Topic{func() []kafka.Topic { return []kafka.Topic{{Err: kafkago.TopicAuthorizationFailed}} }}, kafkago.TopicAuthorizationFailed, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			err := checkTopics(t.Context(), func() ([]kafka.Topic, error) {
				asked++
				return c.looks[min(asked, len(c.looks))-1](), nil
			})
			if !errors.Is(err, c.want) || asked != c.asked {
				t.Errorf("%s: %v after %d looks", name, err, asked)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := checkTopics(ctx, func() ([]kafka.Topic, error) { cancel(); return unknown(), nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
