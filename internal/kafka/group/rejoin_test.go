package group

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// joiningAgain starts a member that has committed once, and lets it request the next generation. That generation does not begin
// while the join hangs.
func joiningAgain(t *testing.T, s *scene) *Generation {
	t.Helper()
	s.start(2 * time.Second)
	g := s.generation()
	s.answer(requestJoin, errHang)
	s.answerOnce(requestHeartbeat, kafkago.RebalanceInProgress)
	s.pass(2 * time.Second)
	s.renew(t, g)
	return g
}

func TestWorkGoesOnWhileTheGroupJoins(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		first := joiningAgain(t, s)
		for range 8 {
			s.pass(5 * time.Second)
			if s.renew(t, first); !first.Held() {
				t.Error("the lease does not hold")
			}
		}
		s.told(t, "assigned 1")
		if status := s.group.Status(); status.State != Joining || status.Generation != first {
			t.Errorf("the status is %+v", status)
		}
		renewed := s.now()
		s.renew(t, first) // it proves the one before
		s.answer(requestJoin, nil)
		s.pass(30 * time.Second) // the hanging request ends at its timeout
		s.told(t, "assigned 1", "assigned 2")
		second := s.generation()
		if !second.Follows || len(second.Partitions) != 4 {
			t.Errorf("the next generation is %+v", second)
		}
		if second.lease.until() != renewed+10*time.Second || second.Renewed() != renewed {
			t.Errorf("its lease ends at %v, %v after the last commit", second.lease.until(), second.lease.until()-renewed)
		}
		if _, err := first.Commit(t.Context(), []record.Commit{commit("events", 0, 6, "")}); !errors.Is(err, kafka.ErrGenerationOver) {
			t.Errorf("committing in the former generation: %v", err)
		}
		s.renew(t, second)
		if !second.Held() || first.Held() {
			t.Errorf("the lease of the first holds: %v, of the second: %v", first.Held(), second.Held())
		}
		s.counts(t, s.group.metrics.rebalances.WithLabelValues(kindRebalance), 1)
	})
}

func TestGenerationThatIsOverIsNoNewsWhileTheGroupJoins(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		g := joiningAgain(t, s)
		s.refuse(0, kafkago.IllegalGeneration)
		results, err := g.Commit(t.Context(), []record.Commit{commit("events", 0, 6, "")})
		if err != nil || !errors.Is(results[0], kafkago.IllegalGeneration) || !g.Held() {
			t.Errorf("committing: %v, %v, held %v", results, err, g.Held())
		}
		s.told(t, "assigned 1")
		s.pass(10 * time.Second)
		if g.Held() {
			t.Error("the lease holds although no commit was taken")
		}
	})
}

func TestMemberThatIsGivenUpWhileItJoinsLosesEverything(t *testing.T) {
	for name, give := range map[string]func(*testing.T, *scene, *Generation){
		"told when it joins": func(_ *testing.T, s *scene, _ *Generation) {
			s.answerOnce(requestJoin, kafkago.UnknownMemberId)
			s.answer(requestJoin, nil)
			s.pass(65 * time.Second)
		},
		"told when it commits": func(t *testing.T, s *scene, g *Generation) {
			s.refuse(0, kafkago.UnknownMemberId)
			_, _ = g.Commit(t.Context(), []record.Commit{commit("events", 0, 6, "")})
			s.refuse(0, nil)
			s.answer(requestJoin, nil)
			s.pass(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				g := joiningAgain(t, s)
				give(t, s, g)
				s.told(t, "assigned 1", "lost 1", "assigned 2")
				if next := s.generation(); g.Held() || next.Held() || next.Follows || next.MemberID == g.MemberID {
					t.Errorf("held %v, then %+v", g.Held(), next)
				}
			})
		})
	}
}

// TestSkippedGenerationIsNotFollowed checks this because the member does not know the assignments in a skipped generation.
func TestSkippedGenerationIsNotFollowed(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.start(2 * time.Second)
		first := s.generation()
		s.renew(t, first)
		s.answerOnce(requestHeartbeat, kafkago.RebalanceInProgress)
		s.answerOnce(requestSync, kafkago.RebalanceInProgress)
		s.pass(3 * time.Second)
		s.told(t, "assigned 1", "assigned 3")
		if third := s.generation(); third.Follows || third.Held() || !first.Held() {
			t.Errorf("follows %v, the lease of the third holds: %v, of the first, for what is handed over: %v", third.Follows, third.Held(), first.Held())
		}
	})
}

// TestGenerationThatNothingProvesIsNotFollowed checks this because a deposed coordinator may have made up the generation, and the
// group may have had another one with the same number.
func TestGenerationThatNothingProvesIsNotFollowed(t *testing.T) {
	rebalance := func(s *scene) { s.answerOnce(requestHeartbeat, kafkago.RebalanceInProgress) }
	for name, test := range map[string]struct {
		static bool
		ends   func(*scene)
		ahead  int32 // the difference of their numbers
		bare   bool  // followed if nothing was committed in it
		proven bool  // followed if something was committed in it
	}{
		"the next one":                       {false, rebalance, 1, true, true},
		"the next one, of a static member":   {true, rebalance, 1, false, true},
		"the next one, at the second try":    {false, func(s *scene) { s.answerOnce(requestJoin, kafkago.NotCoordinatorForGroup); rebalance(s) }, 1, false, true},
		"the next one, from outside":         {false, func(s *scene) { s.answerOnce(requestHeartbeat, kafkago.IllegalGeneration) }, 1, false, true},
		"the same":                           {false, rebalance, 0, false, true},
		"the one after the next":             {false, rebalance, 2, false, false},
		"the one before, of another history": {false, rebalance, -1, false, false},
	} {
		for _, committed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, committed %v", name, committed), func(t *testing.T) {
				change := func(o *Options) {
					if test.static {
						o.InstanceID = "static"
					}
				}
				play(t, change, func(t *testing.T, s *scene) {
					s.start(2 * time.Second)
					first := s.generation()
					want := test.bare
					if committed {
						s.renew(t, first)
						want = test.proven
					}
					s.script.mu.Lock()
					s.begun += test.ahead - 1
					s.script.mu.Unlock()
					test.ends(s)
					s.pass(5 * time.Second)
					if second := s.generation(); second == first || second.ID != first.ID+test.ahead || second.Follows != want {
						t.Errorf("after %d comes %d, follows: %v", first.ID, second.ID, second.Follows)
					}
				})
			})
		}
	}
}

// TestGenerationThatFollowsIsProvenAnew checks that a commit of the earlier generation proves nothing about the next.
func TestGenerationThatFollowsIsProvenAnew(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.start(2 * time.Second)
		first := s.generation()
		s.renew(t, first)
		s.answerOnce(requestHeartbeat, kafkago.RebalanceInProgress)
		s.pass(3 * time.Second)
		second := s.generation()
		if s.renew(t, second); !second.Follows || !first.lease.exists() || second.lease.exists() {
			t.Errorf("follows %v; the first exists: %v, the second: %v", second.Follows, first.lease.exists(), second.lease.exists())
		}
		if s.renew(t, second); !second.lease.exists() {
			t.Error("two commits do not prove it")
		}
	})
}

func TestShutdownWhileTheGroupJoinsTakesTheOrderlyWay(t *testing.T) {
	for _, test := range []struct {
		name string
		join error
		want []string
	}{
		{"the generation begins in time", nil, []string{"assigned 1", "assigned 2", "assigned 3", "revoked 3"}},
		{"it does not", errHang, []string{"assigned 1", "revoked 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.start(2 * time.Second)
				s.answer(requestJoin, errHang)
				s.answerOnce(requestJoin, kafkago.GroupCoordinatorNotAvailable)
				s.answerOnce(requestHeartbeat, kafkago.RebalanceInProgress)
				s.pass(time.Second)
				s.answer(requestJoin, test.join)
				left := time.Duration(0)
				s.onRevoke(func(ctx context.Context, _ *Generation) {
					end, _ := ctx.Deadline()
					left = time.Until(end)
				})
				took := s.stopped()
				s.told(t, test.want...)
				if s.err != nil || took > 25*time.Second {
					t.Errorf("Run took %v and returned %v", took, s.err)
				}
				if left < 10*time.Second {
					t.Errorf("%v are left to hand everything over", left)
				}
				if n := len(s.asks(requestLeave)); n != 1 {
					t.Errorf("left %d times", n)
				}
			})
		})
	}
}

// TestLeaverWorksOnWhileADeadMemberHoldsTheJoin checks that the member releases its partitions in the next generation and not
// before. That generation begins when the session of the dead member ends, and no other member may read the partitions before it.
func TestLeaverWorksOnWhileADeadMemberHoldsTheJoin(t *testing.T) {
	for _, test := range []struct {
		session time.Duration // the remaining session time of the dead member
		want    []string
	}{
		{10 * time.Second, []string{"assigned 1", "assigned 2", "revoked 2"}},
		{20 * time.Second, []string{"assigned 1", "revoked 1"}}, // there would be no time for a handover
	} {
		play(t, nil, func(t *testing.T, s *scene) {
			s.start(2 * time.Second)
			first := s.generation()
			s.renew(t, first)
			s.answerOnce(requestJoin, late(test.session))
			s.stop()
			s.pass(9 * time.Second)
			if s.renew(t, first); !first.Held() {
				t.Error("it may not write while it waits")
			}
			<-s.done
			s.told(t, test.want...)
		})
	}
}

// TestShutdownWaitsAQuarterForTheNextGeneration checks this also where the handover could need the whole time.
func TestShutdownWaitsAQuarterForTheNextGeneration(t *testing.T) {
	play(t, func(o *Options) { o.Shutdown, o.HandOver = 8*time.Second, time.Minute }, func(t *testing.T, s *scene) {
		s.start(2 * time.Second)
		s.answer(requestJoin, errHang)
		if took := s.stopped(); took < 1800*time.Millisecond || took > 2*time.Second {
			t.Errorf("Run took %v", took)
		}
		s.told(t, "assigned 1", "revoked 1")
	})
}

// TestLeavingAnUnreachableCoordinatorEndsInTime checks this also for a very short time.
func TestLeavingAnUnreachableCoordinatorEndsInTime(t *testing.T) {
	play(t, func(o *Options) { o.Shutdown = 2 * time.Second }, func(t *testing.T, s *scene) {
		s.start(2 * time.Second)
		s.onRevoke(func(ctx context.Context, _ *Generation) { <-ctx.Done() })
		s.answer(requestJoin, errHang)
		s.answer(requestLeave, errHang)
		if took := s.stopped(); took > 2*time.Second {
			t.Errorf("Run took %v", took)
		}
	})
}

// TestShutdownIsAnnounced checks that the other members get the partitions of this member while it still works.
func TestShutdownIsAnnounced(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.start(2 * time.Second)
		took := s.stopped()
		s.told(t, "assigned 1", "assigned 2", "revoked 2")
		joins := s.asks(requestJoin)
		_, claim, err := decodeClaim([]byte(joins[len(joins)-1].subscription))
		if err != nil || !claim.leaving || len(claim.partitions) != 4 {
			t.Errorf("it joins with %+v, %v", claim, err)
		}
		if n := len(s.asks(requestLeave)); n != 1 || took > time.Second {
			t.Errorf("left %d times after %v", n, took)
		}
	})
}

func TestMemberThatLeavesIsGivenNothingIfOthersCan(t *testing.T) {
	leaving := claimant{"a", []string{"t"}, ownership{generation: 3, leaving: true}}
	staying := claimant{"b", []string{"t"}, ownership{generation: 3}}
	stranger := claimant{"c", nil, ownership{}}
	for _, test := range []struct {
		members []claimant
		given   bool
	}{{[]claimant{leaving, staying}, false}, {[]claimant{leaving, leaving}, true}, {[]claimant{leaving, stranger}, true}} {
		if dismiss(test.members); (test.members[0].subscribed != nil) != test.given {
			t.Errorf("%+v", test.members)
		}
	}
}
