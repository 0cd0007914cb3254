package group

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/logtest"
	"waterwheel/internal/record"
)

func TestFreshGroupIsAwaitedWithoutFailure(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.answerOnce(requestJoin, kafkago.GroupCoordinatorNotAvailable, kafkago.GroupCoordinatorNotAvailable, io.ErrUnexpectedEOF, kafkago.GroupLoadInProgress, kafkago.NotCoordinatorForGroup)
		s.start(5 * time.Second)
		s.told(t, "assigned 1")
		joins := s.asks(requestJoin)
		if len(joins) != 7 { // five were refused, one got the member id, and one counts
			t.Fatalf("%d requests to join", len(joins))
		}
		for i, a := range joins[1:6] {
			if gap := a.at - joins[i].at; gap < 100*time.Millisecond || gap > 500*time.Millisecond {
				t.Errorf("retried after %v", gap)
			}
		}
		if joins[5].membership.member != "" || joins[6].membership.member != "member-1" {
			t.Errorf("joined as %q, then %q", joins[5].membership.member, joins[6].membership.member)
		}
		if d := joins[6].deadline; d != 65*time.Second {
			t.Errorf("joining may take %v, want the rebalance timeout and 5 s", d)
		}
	})
}

// TestCoordinatorThatIsNotReadyIsNoTrouble uses the answer of a newly elected coordinator until it has loaded. It must not be
// logged as a failure unless it lasts.
func TestCoordinatorThatIsNotReadyIsNoTrouble(t *testing.T) {
	for refusals, want := range map[int]int{unreadyTries: 0, unreadyTries + 2: 1} {
		var logged strings.Builder
		play(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&logged, nil)) }, func(t *testing.T, s *scene) {
			s.answerOnce(requestJoin, slices.Repeat([]error{kafkago.NotCoordinatorForGroup}, refusals)...)
			s.start(5 * time.Second)
			s.told(t, "assigned 1")
		})
		if n := strings.Count(logged.String(), "joining the group is not possible yet"); n != want {
			t.Errorf("after %d refusals %d lines, want %d:\n%s", refusals, n, want, &logged)
		}
	}
}

// TestLastingTroubleIsAnError checks that the absence of a coordinator for a long time is not regarded as an election.
func TestLastingTroubleIsAnError(t *testing.T) {
	var logged logtest.Lines
	change := func(o *Options) {
		o.Logger, o.ErrorAfter = slog.New(slog.NewTextHandler(&logged, nil)), time.Minute
	}
	play(t, change, func(t *testing.T, s *scene) {
		s.cut(io.ErrUnexpectedEOF)
		s.start(59 * time.Second)
		if strings.Contains(logged.String(), "level=ERROR") || strings.Count(logged.String(), "level=WARN") < 5 {
			t.Errorf("after a minute's troubles:\n%s", logged.String())
		}
		s.pass(8 * time.Second)
		if n := strings.Count(logged.String(), `level=ERROR msg="joining the group is not possible yet"`); n != 1 {
			t.Errorf("%d errors after more than a minute:\n%s", n, logged.String())
		}
		s.cut(nil)
		s.pass(5 * time.Second)
		s.told(t, "assigned 1")
	})
}

func TestMemberIDOutlivesALostCoordinator(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.answerOnce(requestJoin, nil, io.ErrUnexpectedEOF, kafkago.NotCoordinatorForGroup, kafkago.UnknownMemberId)
		s.start(5 * time.Second)
		s.told(t, "assigned 1")
		var members []string
		for _, a := range s.asks(requestJoin) {
			members = append(members, a.membership.member)
		}
		want := []string{"", "member-1", "member-1", "member-1", "", "member-2"}
		if !slices.Equal(members, want) {
			t.Errorf("joined as %q, want %q", members, want)
		}
	})
}

// eager releases the partitions before each later generation.
func eager(o *Options) { o.Eager = true }

func TestRebalanceFlushesCommitsAndRejoins(t *testing.T) {
	play(t, eager, func(t *testing.T, s *scene) {
		s.start(4 * time.Second)
		s.onRevoke(func(ctx context.Context, g *Generation) {
			time.Sleep(10 * time.Second)
			if results, err := g.Commit(ctx, []record.Commit{commit("events", 0, 5, "")}); err != nil || results[0] != nil {
				t.Errorf("committing while the group rebalances: %v, %v", results, err)
			}
		})
		s.answer(requestHeartbeat, kafkago.RebalanceInProgress)
		s.pass(11 * time.Second)
		if status := s.group.Status(); status.State != Rebalancing {
			t.Errorf("the member is %s", status.State)
		}
		beats := len(s.asks(requestHeartbeat))
		if beats != 5 { // after 3, 6 (the rebalance), 9, 12, 15 s
			t.Errorf("%d heartbeats: they must go on during the flush", beats)
		}
		s.answer(requestHeartbeat, nil)
		s.pass(3 * time.Second)
		s.told(t, "assigned 1", "revoked 1", "assigned 2")
		rejoined := s.asks(requestJoin)[2]
		if rejoined.membership.member != "member-1" {
			t.Errorf("rejoined as %q", rejoined.membership.member)
		}
		_, userData, err := decodeSubscription([]byte(rejoined.subscription))
		claim, claimErr := decodeOwnership(userData)
		if err = errors.Join(err, claimErr); err != nil || claim.generation != 1 || len(claim.partitions) != 4 {
			t.Errorf("rejoined with the claim %+v (%v)", claim, err)
		}
		s.counts(t, s.group.metrics.rebalances.WithLabelValues(kindRebalance), 1)
	})
}

func TestNothingIsSentUnderAnOldGenerationAfterJoining(t *testing.T) {
	play(t, eager, func(t *testing.T, s *scene) {
		s.start(4 * time.Second)
		old := s.generation()
		s.answerOnce(requestHeartbeat, kafkago.RebalanceInProgress)
		s.pass(10 * time.Second)
		if _, err := old.Commit(t.Context(), []record.Commit{commit("events", 0, 5, "")}); !errors.Is(err, kafka.ErrGenerationOver) {
			t.Errorf("committing in the old generation: %v", err)
		}
		joinedAgain := s.asks(requestJoin)[2].at
		for _, request := range []string{requestHeartbeat, "commit"} {
			for _, a := range s.asks(request) {
				if a.at > joinedAgain && a.membership.generation == old.ID {
					t.Errorf("%s sent in generation %d after joining again", request, old.ID)
				}
			}
		}
		if old.Held() {
			t.Error("the old lease is held")
		}
	})
}

func TestUnreachableCoordinatorEndsNothing(t *testing.T) {
	for _, err := range []error{io.ErrUnexpectedEOF, errHang, kafkago.NotCoordinatorForGroup, kafkago.GroupLoadInProgress, kafkago.GroupCoordinatorNotAvailable} {
		t.Run(err.Error(), func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.start(time.Second)
				g := s.generation()
				s.cut(err)
				s.pass(40 * time.Second)
				if g.Held() {
					t.Error("the lease is held without an answered commit")
				}
				s.cut(nil)
				s.pass(10 * time.Second)
				if results, err := g.Commit(t.Context(), []record.Commit{commit("events", 0, 5, "")}); err != nil || results[0] != nil {
					t.Fatalf("committing in the same generation: %v, %v", results, err)
				}
				if !g.Held() {
					t.Error("the lease is not held again")
				}
				s.told(t, "assigned 1")
				if n := len(s.asks(requestJoin)); n != 2 {
					t.Errorf("%d requests to join: the member id was forgotten", n)
				}
				// It had 10 s for the first commit, and was renewed after 51 s (an answer takes no time here).
				s.counts(t, s.group.metrics.lapsed, 41)
			})
		})
	}
}

func TestHeartbeatsRenewNoLease(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.start(9 * time.Second)
		g := s.generation()
		if g.Held() {
			t.Error("the lease holds after SyncGroup")
		}
		s.renew(t, g)
		if !g.Held() {
			t.Error("the lease does not hold after a commit")
		}
		s.pass(10 * time.Second)
		if n := len(s.asks(requestHeartbeat)); n != 6 || g.Held() {
			t.Errorf("after %d answered heartbeats the lease is held: %v", n, g.Held())
		}
	})
}

func TestLostGenerationIsJoinedAgain(t *testing.T) {
	for _, test := range []struct {
		answer error
		member string // the member id with which it joins again
	}{
		{kafkago.IllegalGeneration, "member-1"},
		{kafkago.UnknownMemberId, ""},
	} {
		t.Run(test.answer.Error(), func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.start(time.Second)
				g := s.generation()
				s.answerOnce(requestHeartbeat, test.answer)
				s.pass(4 * time.Second)
				if g.Held() {
					t.Error("the lease of a lost generation is held")
				}
				s.told(t, "assigned 1", "lost 1", "assigned 2")
				if member := s.asks(requestJoin)[2].membership.member; member != test.member {
					t.Errorf("joined again as %q, want %q", member, test.member)
				}
				s.counts(t, s.group.metrics.rebalances.WithLabelValues(kindLost), 1)
			})
		})
	}
}

func TestFencedInstanceStopsTheProgram(t *testing.T) {
	play(t, func(o *Options) { o.InstanceID = "one" }, func(t *testing.T, s *scene) {
		s.start(time.Second)
		s.answer(requestHeartbeat, kafka.CodeError(12, none, int16(kafkago.FencedInstanceID)))
		<-s.done
		s.told(t, "assigned 1", "lost 1")
		if s.err == nil || !strings.Contains(s.err.Error(), "KAFKA_INSTANCE_ID") {
			t.Errorf("the member ends with %v", s.err)
		}
		if n := len(s.asks(requestLeave)); n != 0 {
			t.Errorf("a static member left %d times", n)
		}
	})
}

// TestStaticMemberThatIsReplacedWhileItStopsHasStopped checks that Run returns no error, because the member was asked to stop.
func TestStaticMemberThatIsReplacedWhileItStopsHasStopped(t *testing.T) {
	play(t, func(o *Options) { o.InstanceID = "one" }, func(t *testing.T, s *scene) {
		s.start(time.Second)
		s.recorder.onRevoke(func(ctx context.Context, g *Generation) {
			s.refuse(0, kafkago.FencedInstanceID)
			_, _ = g.Commit(ctx, []record.Commit{commit("events", 0, 6, "")})
		})
		s.stop()
		<-s.done
		s.told(t, "assigned 1", "revoked 1")
		if s.err != nil {
			t.Errorf("the member ends with %v", s.err)
		}
	})
}

func TestSettingsTheCoordinatorRefusesAreNamed(t *testing.T) {
	for code, setting := range map[kafkago.Error]string{
		kafkago.InvalidSessionTimeout:     "KAFKA_SESSION_TIMEOUT",
		kafkago.InconsistentGroupProtocol: "KAFKA_GROUP_ID",
		kafkago.GroupAuthorizationFailed:  "KAFKA_GROUP_ID",
		kafkago.SASLAuthenticationFailed:  "KAFKA_SASL_PASSWORD",
	} {
		t.Run(setting, func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.answer(requestJoin, kafka.CodeError(11, none, int16(code)))
				s.start(0)
				<-s.done
				s.told(t)
				if s.err == nil || !strings.Contains(s.err.Error(), setting) {
					t.Errorf("the member ends with %v", s.err)
				}
			})
		})
	}
}

func TestFullGroupIsWaitedFor(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.answer(requestJoin, kafkago.GroupMaxSizeReached)
		s.start(time.Minute)
		s.answer(requestJoin, nil)
		s.pass(2 * time.Second)
		s.told(t, "assigned 1")
	})
}

func TestLostAssignmentIsAskedForAgain(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.answerOnce(requestSync, io.ErrUnexpectedEOF, kafkago.NotCoordinatorForGroup)
		s.start(3 * time.Second)
		s.told(t, "assigned 1")
		syncs := s.asks(requestSync)
		if len(syncs) != 3 || syncs[2].membership != syncs[0].membership {
			t.Fatalf("asked %+v", syncs)
		}
	})
}

func TestLeaderWaitsForTheTopicsWithoutJoiningAgain(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.answer(requestTopics, io.ErrUnexpectedEOF)
		s.start(10 * time.Second)
		s.answer(requestTopics, nil)
		s.pass(time.Second)
		s.told(t, "assigned 1")
	})
}

func TestMembersStartingTogetherJoinAgain(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.answerOnce(requestSync, kafkago.RebalanceInProgress)
		s.start(3 * time.Second)
		s.told(t, "assigned 2")
		joins := s.asks(requestJoin)
		if len(joins) != 3 || joins[2].membership.member != "member-1" {
			t.Errorf("asked %+v", joins)
		}
		if joins[1].subscription != joins[2].subscription {
			t.Error("the subscription changed although nothing was assigned")
		}
	})
}
