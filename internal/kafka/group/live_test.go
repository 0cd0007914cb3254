package group

import (
	"context"
	"io"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
)

// untilDone is a flush that ends only with its context. It notes how long it was allowed to run.
func untilDone(allowed *time.Duration) func(context.Context, *Generation) {
	return func(ctx context.Context, _ *Generation) {
		began := time.Now()
		<-ctx.Done()
		*allowed = time.Since(began)
	}
}

func TestFlushMayTakeHalfTheRebalanceTimeoutFromTheLastGoodHeartbeat(t *testing.T) {
	play(t, eager, func(t *testing.T, s *scene) {
		var allowed time.Duration
		s.onRevoke(untilDone(&allowed))
		s.start(7 * time.Second) // heartbeats at 3 and 6 s
		s.answer(requestHeartbeat, kafkago.RebalanceInProgress)
		s.pass(40 * time.Second)
		if want := 27 * time.Second; allowed != want { // from 9 s to 6 + 30 s
			t.Errorf("the flush had %v, want %v", allowed, want)
		}
	})
}

func TestFlushHasNoTimeAfterALongSilence(t *testing.T) {
	play(t, eager, func(t *testing.T, s *scene) {
		allowed := time.Hour
		s.onRevoke(untilDone(&allowed))
		s.start(4 * time.Second)
		s.answer(requestHeartbeat, io.ErrUnexpectedEOF)
		s.pass(40 * time.Second)
		s.answerOnce(requestHeartbeat, kafkago.RebalanceInProgress)
		s.answer(requestHeartbeat, nil)
		s.pass(4 * time.Second)
		s.told(t, "assigned 1", "revoked 1", "assigned 2")
		if allowed != 0 {
			t.Errorf("the flush had %v: the rebalance may be as old as the silence", allowed)
		}
	})
}

func TestFlushEndsWithItsGeneration(t *testing.T) {
	play(t, eager, func(t *testing.T, s *scene) {
		var allowed time.Duration
		s.onRevoke(untilDone(&allowed))
		s.start(4 * time.Second)
		s.answerOnce(requestHeartbeat, kafkago.RebalanceInProgress, kafkago.UnknownMemberId)
		s.pass(10 * time.Second)
		if allowed != 3*time.Second {
			t.Errorf("the flush had %v, want one heartbeat interval", allowed)
		}
		s.told(t, "assigned 1", "revoked 1", "assigned 2")
		if member := s.asks(requestJoin)[2].membership.member; member != "" {
			t.Errorf("joined again as %q after [25]", member)
		}
	})
}

func TestShutdownLetsTheHandlerFinishAndLeaves(t *testing.T) {
	play(t, eager, func(t *testing.T, s *scene) {
		s.onRevoke(func(context.Context, *Generation) { time.Sleep(5500 * time.Millisecond) })
		s.start(4 * time.Second)
		s.answerOnce(requestLeave, kafkago.NotCoordinatorForGroup, io.ErrUnexpectedEOF)
		took := s.stopped()
		s.told(t, "assigned 1", "revoked 1")
		if s.err != nil || took < 5500*time.Millisecond || took > 7*time.Second {
			t.Errorf("Run took %v and returned %v", took, s.err)
		}
		if n := len(s.asks(requestHeartbeat)); n != 2 { // one before and one during the flush
			t.Errorf("%d heartbeats", n)
		}
		leaves := s.asks(requestLeave)
		if len(leaves) != 3 || leaves[2].membership.member != "member-1" {
			t.Errorf("left with %+v: it must be confirmed", leaves)
		}
		if state := s.group.Status().State; state != Left {
			t.Errorf("the member is %s", state)
		}
		s.counts(t, s.group.metrics.assigned, 0)
	})
}

func TestShutdownIsBounded(t *testing.T) {
	play(t, eager, func(t *testing.T, s *scene) {
		var allowed time.Duration
		s.onRevoke(untilDone(&allowed))
		s.start(4 * time.Second)
		s.cut(errHang)
		if took := s.stopped(); took > 25*time.Second {
			t.Errorf("Run took %v, 25 s are allowed", took)
		}
		if allowed != 24*time.Second {
			t.Errorf("the flush had %v, want all but the second for leaving", allowed)
		}
	})
}

func TestShutdownDuringARebalanceTakesTheEarlierEnd(t *testing.T) {
	for _, test := range []struct {
		name      string
		rebalance time.Duration // the rebalance timeout
		after     time.Duration // from the rebalance to the shutdown; negative means that the shutdown comes first
		allowed   time.Duration // the time for the flush
	}{
		// Heartbeats are sent every 3 s. The heartbeat at 6 s is the first whose answer reports the rebalance.
		{"the rebalance ends first", time.Minute, 15 * time.Second, 27 * time.Second},
		{"the shutdown ends first", time.Minute, time.Second, 25 * time.Second},
		{"the shutdown comes and the rebalance ends first", 20 * time.Second, -time.Second, 8 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, func(o *Options) { o.RebalanceTimeout, o.Eager = test.rebalance, true }, func(t *testing.T, s *scene) {
				var allowed time.Duration
				s.onRevoke(untilDone(&allowed))
				s.answerOnce(requestHeartbeat, nil)
				s.answer(requestHeartbeat, kafkago.RebalanceInProgress)
				s.start(6*time.Second + test.after)
				s.stopped()
				if allowed != test.allowed {
					t.Errorf("the flush had %v, want %v", allowed, test.allowed)
				}
			})
		})
	}
}

func TestShutdownDoesNotWaitForAPendingJoin(t *testing.T) {
	for _, request := range []string{requestJoin, requestSync} {
		t.Run(request, func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				if request == requestJoin {
					s.answerOnce(request, nil) // this answer contains the member id
				}
				s.answer(request, errHang)
				s.start(10 * time.Second)
				if took := s.stopped(); took != 0 || s.err != nil {
					t.Errorf("Run took %v and returned %v", took, s.err)
				}
				if leaves := s.asks(requestLeave); len(leaves) != 1 || leaves[0].membership.member != "member-1" {
					t.Errorf("left with %+v", leaves)
				}
			})
		})
	}
}

func TestStaticMemberDoesNotLeave(t *testing.T) {
	play(t, func(o *Options) { o.InstanceID = "one" }, func(t *testing.T, s *scene) {
		s.start(4 * time.Second)
		s.stopped()
		s.told(t, "assigned 1", "revoked 1")
		if n := len(s.asks(requestLeave)); n != 0 {
			t.Errorf("left %d times", n)
		}
	})
}

func TestGrownTopicAsksForARebalance(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.start(25 * time.Second)
		s.answer(requestTopics, io.ErrUnexpectedEOF)
		s.pass(25 * time.Second)
		s.told(t, "assigned 1") // an error does not end the generation
		s.setTopic(1, 6)
		s.answer(requestTopics, nil)
		s.pass(11 * time.Second)
		s.told(t, "assigned 1", "assigned 2")
		if n := len(s.generation().Partitions); n != 6 {
			t.Errorf("%d partitions are assigned", n)
		}
		s.setTopic(1, 4) // a broker with older metadata
		s.pass(25 * time.Second)
		s.setTopic(2, 6) // the topic was deleted and created again
		s.pass(11 * time.Second)
		s.told(t, "assigned 1", "assigned 2", "assigned 3")
		if id := s.generation().Partitions[0].TopicID; id != [16]byte{2} {
			t.Errorf("assigned with topic id %v", id)
		}
		s.counts(t, s.group.metrics.rebalances.WithLabelValues(kindTopics), 2)
	})
}

// TestASubscriptionThatChanges checks that the member joins again with the new topic, and keeps its partitions. It joins again
// without the topic when it no longer reads it.
func TestASubscriptionThatChanges(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.start(25 * time.Second)
		s.told(t, "assigned 1")
		s.group.Subscribe([]string{"events", "more"})
		s.pass(25 * time.Second)
		s.told(t, "assigned 1") // the topic does not exist yet
		s.script.mu.Lock()
		s.topics = append(s.topics, kafka.Topic{Name: "more", ID: [16]byte{2}, Partitions: []kafka.Partition{{ID: 0}, {ID: 1}}})
		s.script.mu.Unlock()
		s.pass(11 * time.Second)
		s.told(t, "assigned 1", "assigned 2")
		if n := len(s.generation().Partitions); n != 6 {
			t.Errorf("%d partitions are assigned", n)
		}
		s.counts(t, s.group.metrics.rebalances.WithLabelValues(kindTopics), 1)
		s.group.Subscribe([]string{"more"})
		s.pass(11 * time.Second)
		s.told(t, "assigned 1", "assigned 2", "assigned 3")
		if p := s.generation().Partitions; len(p) != 2 || p[0].Topic != "more" {
			t.Errorf("assigned: %v", p)
		}
		s.pass(25 * time.Second)
		s.counts(t, s.group.metrics.rebalances.WithLabelValues(kindTopics), 2)
	})
}
