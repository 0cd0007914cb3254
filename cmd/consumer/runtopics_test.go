package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"waterwheel/config"
	"waterwheel/internal/connect"
)

// TestTopicsThatComeLater checks that each new topic is set up once and then read. A topic that cannot be set up is logged once
// and tried each time. A topic that two looks did not find, and that does not exist, is no longer read.
func TestTopicsThatComeLater(t *testing.T) {
	var log strings.Builder
	var there, set, read []string
	refusedNames, failing, deleted := map[string]error{}, map[string]error{}, map[string]bool{}
	var lookErr error
	var asked connect.Precedence
	w := topicWatch{
		log: slog.New(slog.NewTextHandler(&log, nil)), topics: []string{"a"},
		look: func(_ context.Context, order connect.Precedence) (c config.Config, refused map[string]error, err error) {
			c.Kafka.Topics, refused, asked = there, map[string]error{}, order
			for name, why := range refusedNames {
				refused[name] = why
			}
			return c, refused, lookErr
		},
		deleted: newTopicsDeleted(prometheus.NewRegistry()),
		missing: func(_ context.Context, topics ...string) (missing []string, err error) {
			if topic := topics[0]; deleted[topic] {
				return topics, nil
			}
			return nil, errors.New("Topic Authorization Failed")
		},
		add: func(_ context.Context, topic string) error {
			set = append(set, topic)
			return failing[topic]
		},
		read: func(topics, added []string) {
			if read = append(slices.Clone(topics), added...); len(read) == 0 {
				read = []string{"none"}
			}
		},
	}
	if topicsInterval > time.Minute {
		t.Errorf("a new topic is found after up to %v", topicsInterval)
	}
	w.note(nil)
	step := func(wantSet, wantRead string) {
		t.Helper()
		set, read = nil, nil
		w.once(t.Context())
		if got := strings.Join(set, " "); got != wantSet {
			t.Errorf("set up: %q, want %q", got, wantSet)
		}
		if got := strings.Join(read, " "); got != wantRead {
			t.Errorf("read: %q, want %q", got, wantRead)
		}
	}
	there = []string{"a"}
	step("", "")
	there, failing["b"] = []string{"a", "b", "c"}, errors.New("MongoDB is away")
	refusedNames["d"] = errors.New("grant READ on it")
	step("b c", "a c c")
	step("b", "")
	if n := strings.Count(log.String(), "is not read"); n != 2 || !strings.Contains(log.String(), "MongoDB is away") {
		t.Errorf("told %d times: %s", n, log.String())
	}
	if slices.Sort(asked.Last); !slices.Equal(asked.First, []string{"a", "c"}) || !slices.Equal(asked.Last, []string{"b", "d"}) {
		t.Errorf("topics that are read come first, and refused ones last: %+v", asked)
	}
	delete(failing, "b")
	step("b", "a c b b")
	lookErr = errors.New("Kafka is away")
	step("", "")
	lookErr, there = nil, []string{"a", "c"} // a look that lacks a topic proves nothing
	step("", "")
	there = []string{"a", "b", "c"}
	step("", "")
	there = []string{"a", "c"}
	step("", "")
	lookErr = errors.New("Kafka is away") // and neither does a look that failed
	step("", "")
	if s := w.state.Load(); s.None || s.Failed == nil || s.Since == 0 {
		t.Errorf("Kafka is away: %+v", s)
	}
	lookErr = nil
	step("", "") // b is there, but this user may no longer see it
	deleted["b"] = true
	refusedNames["c"], there = errors.New("grant READ on it"), []string{"a"} // c is there
	step("", "a c")
	if s := w.state.Load(); s.Failed != nil || strings.Join(s.Unread, "; ") != "c (grant READ on it); d (grant READ on it)" {
		t.Errorf("c is refused: %+v", s)
	}
	if !strings.Contains(log.String(), `are lost" topics=b`) {
		t.Errorf("b is gone, but the log does not say so: %s", log.String())
	}
	if n := testutil.ToFloat64(w.deleted.WithLabelValues("b")); n != 1 {
		t.Errorf("b is gone, but its metric is %v", n)
	}
	step("", "")
	delete(refusedNames, "c")
	there = []string{"a", "b", "c"} // b was created again
	step("b", "a c b b")
	if n := testutil.ToFloat64(w.deleted.WithLabelValues("b")); n != 0 || testutil.CollectAndCount(w.deleted) != 1 {
		t.Errorf("b is read again, but its metric is %v", n)
	}
	there, deleted["a"], deleted["c"] = nil, true, true
	step("", "")
	step("", "none")
	if s := w.state.Load(); !s.None {
		t.Errorf("no topic is left: %+v", s)
	}
}
