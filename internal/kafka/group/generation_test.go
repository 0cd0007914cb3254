package group

import (
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

func TestCommitRenewsTheLease(t *testing.T) {
	for _, test := range []struct {
		name    string
		request error           // answer to the whole request
		results map[int32]error // of partitions 0 and 1
		renews  bool
		outcome string
	}{
		{"all committed", nil, nil, true, outcomeCommitted},
		{"one topic is gone", nil, map[int32]error{1: kafkago.UnknownTopicOrPartition}, true, outcomeRefused},
		{"both are gone", nil, map[int32]error{0: kafkago.UnknownTopicOrPartition, 1: kafkago.UnknownTopicOrPartition}, false, outcomeRefused},
		{"rebalancing", nil, map[int32]error{0: kafkago.RebalanceInProgress, 1: kafkago.RebalanceInProgress}, false, outcomeRefused},
		{"coordinator moves", nil, map[int32]error{0: kafkago.NotCoordinatorForGroup, 1: kafkago.NotCoordinatorForGroup}, false, outcomeRefused},
		{"connection lost", io.ErrUnexpectedEOF, nil, false, outcomeUnanswered},
		{"no answer in time", errHang, nil, false, outcomeUnanswered},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.start(3500 * time.Millisecond)
				g := s.generation()
				before, sent := g.lease.until(), s.now()
				s.answer("commit", test.request)
				for p, err := range test.results {
					s.refuse(p, err)
				}
				results, err := g.Commit(t.Context(), []record.Commit{commit("events", 0, 5, ""), commit("events", 1, 6, "")})
				if (err != nil) != (test.request != nil) {
					t.Errorf("Commit returns %v", err)
				}
				for p, result := range results {
					if !errors.Is(result, test.results[int32(p)]) {
						t.Errorf("partition %d: %v", p, result)
					}
				}
				want := before
				if test.renews {
					want = sent + 10*time.Second
				}
				if g.lease.until() != want {
					t.Errorf("the lease ends %v later than before", g.lease.until()-before)
				}
				if took := s.now() - sent; took > 5*time.Second {
					t.Errorf("Commit took %v: no answer may take longer than half the lease", took)
				}
				sends := 1.0
				if test.renews {
					sends = 2 // the first does not prove anything yet
				}
				s.counts(t, s.group.metrics.commits.WithLabelValues(test.outcome), sends)
				s.told(t, "assigned 1")
			})
		})
	}
}

// TestLostCommitThatIsAnswered checks that a deposed coordinator answers pending requests and accepts no other.
func TestLostCommitThatIsAnswered(t *testing.T) {
	for name, second := range map[string]error{
		"the next coordinator is not found yet": kafkago.NotCoordinatorForGroup,
		"another generation stands":             kafkago.IllegalGeneration,
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.start(time.Second)
				g := s.generation()
				if s.renew(t, g); !g.Held() {
					t.Fatal("two commits that are taken give no lease")
				}
				s.pass(30 * time.Second)
				sent := len(s.asks("commit"))
				s.answerOnce("commit", nil)
				s.answer("commit", second)
				if _, err := g.Commit(t.Context(), []record.Commit{commit("events", 0, 7, "")}); !errors.Is(err, second) || g.Held() {
					t.Errorf("the second answer is %v, the lease is held: %v", err, g.Held())
				}
				if n := len(s.asks("commit")) - sent; n != 2 {
					t.Errorf("%d commits were sent", n)
				}
				s.answer("commit", nil)
				s.pass(0)
			})
		})
	}
}

func TestCommitThatMeetsALaterGenerationEndsThisOne(t *testing.T) {
	for _, code := range []kafkago.Error{kafkago.IllegalGeneration, kafkago.UnknownMemberId, kafkago.FencedInstanceID} {
		t.Run(code.Title(), func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.start(time.Second)
				g := s.generation()
				s.refuse(1, code)
				results, err := g.Commit(t.Context(), []record.Commit{commit("events", 0, 5, ""), commit("events", 1, 6, "")})
				if err != nil || !errors.Is(results[1], code) {
					t.Fatalf("Commit returns %v, %v", results, err)
				}
				if g.Held() {
					t.Error("the lease is held")
				}
				s.refuse(1, nil)
				if _, err := g.Commit(t.Context(), []record.Commit{commit("events", 0, 5, "")}); !errors.Is(err, kafka.ErrGenerationOver) || kafka.Classify(err) != kafka.GenerationOver {
					t.Errorf("the next commit: %v", err)
				}
				s.pass(2 * time.Second)
				if code == kafkago.FencedInstanceID {
					s.told(t, "assigned 1", "lost 1")
				} else {
					s.told(t, "assigned 1", "lost 1", "assigned 2")
				}
				s.counts(t, s.group.metrics.commits.WithLabelValues(outcomeOver), 1)
			})
		})
	}
}

func TestCommitsFollowOneAnother(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.start(time.Second)
		g := s.generation()
		s.renew(t, g)
		before := len(s.asks("commit"))
		s.answerOnce("commit", errHang)
		var wg sync.WaitGroup
		for offset := range int64(3) {
			wg.Go(func() {
				_, err := g.Commit(t.Context(), []record.Commit{commit("events", 0, offset, "")})
				if (err != nil) != (offset == 0) {
					t.Errorf("committing %d: %v", offset, err)
				}
			})
			s.pass(0)
		}
		if n := len(s.asks("commit")) - before; n != 1 {
			t.Errorf("%d commits are on their way", n)
		}
		wg.Wait()
		if n := len(s.asks("commit")) - before; n != 3 {
			t.Errorf("%d commits were sent", n)
		}
	})
}

func TestNothingToCommitAsksNobody(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.start(time.Second)
		if results, err := s.generation().Commit(t.Context(), nil); results != nil || err != nil || len(s.asks("commit")) != 0 {
			t.Errorf("Commit returns %v, %v", results, err)
		}
	})
}

func TestGenerationWithoutPartitionsCountsNoLapse(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.setTopic(1, 0)
		s.start(time.Minute)
		s.told(t, "assigned 1")
		s.counts(t, s.group.metrics.lapsed, 0)
	})
}
