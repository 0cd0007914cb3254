package pipeline

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

func TestMetasComeFromEachPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		database, gen := newFakeDatabase(), &fakeGeneration{committed: map[int32]int64{}}
		ports := fakePorts{database: database}
		var assignments []Assignment
		for i, series := range []int64{1, 50, 50} {
			l := &fakeLog{partition: int32(i), begin: time.Now(), rate: 50, total: 1 << 40, most: 100, series: series}
			ports.logs, database.logs[l.partition] = append(ports.logs, l), l
			assignments = append(assignments, Assignment{events(l.partition), Assigned{TopicID: thisTopic}})
		}
		consumer := newFakeConsumer(t, ports, NewBudget(1<<30), definedBy(timeseries.Seconds))
		consumer.Assigned(gen, assignments, false)
		_ = wait(t.Context(), 10*time.Second)
		seen := map[byte]int{}
		for _, meta := range consumer.Metas(31) {
			seen[meta.StringValue()[1]]++ // of "p1/s7"
		}
		if seen['0'] != 1 || seen['1'] != 15 || seen['2'] != 15 {
			t.Errorf("by partition: %v, want 1, 15 and 15", seen)
		}
		consumer.Revoke(context.Background(), true)
		if metas := consumer.Metas(31); metas != nil {
			t.Errorf("%d metas after all was handed over", len(metas))
		}
	})
}

// TestNothingIsCommittedOfATermThatIsOver checks that the next generation commits only its own offsets, even if it has none.
func TestNothingIsCommittedOfATermThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		database := newFakeDatabase()
		l := &fakeLog{begin: time.Now(), rate: 50, total: 100, most: 100, series: 1}
		database.logs[0] = l
		ports := &fakePorts{database: database, logs: []*fakeLog{l}}
		consumer := newFakeConsumer(t, ports, NewBudget(1<<30), definedBy(timeseries.Seconds))
		first, second := &fakeGeneration{committed: map[int32]int64{}}, &fakeGeneration{committed: map[int32]int64{}}
		consumer.Assigned(first, []Assignment{{events(0), Assigned{TopicID: thisTopic}}}, false)
		_ = wait(t.Context(), 20*time.Second)
		consumer.Revoke(context.Background(), false)
		if got := first.at(0); got != 100 {
			t.Errorf("committed to %d of 100", got)
		}
		ports.unread = &record.StopError{Reason: "kafka", Detail: "not authorized"}
		consumer.Assigned(second, []Assignment{{events(0), Assigned{TopicID: thisTopic}}}, true)
		_ = wait(t.Context(), 20*time.Second)
		consumer.Revoke(context.Background(), true)
		if len(second.committed) > 0 {
			t.Errorf("the second generation commits %v", second.committed)
		}
	})
}

// lapsedGeneration answers commits although its lease does not hold.
type lapsedGeneration struct{ fakeGeneration }

// Held implements Generation.
func (*lapsedGeneration) Held() bool { return false }

// Commit takes some time, because the worker asks for another commit as soon as one has not renewed the lease.
func (g *lapsedGeneration) Commit(ctx context.Context, commits []record.Commit) ([]error, error) {
	_ = wait(ctx, 100*time.Millisecond)
	return g.fakeGeneration.Commit(ctx, commits)
}

func TestNothingIsClaimedWithoutTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		database, gen := newFakeDatabase(), &lapsedGeneration{fakeGeneration{committed: map[int32]int64{}}}
		l := &fakeLog{begin: time.Now(), rate: 50, total: 100, most: 100, series: 1}
		database.logs[0] = l
		consumer := newFakeConsumer(t, fakePorts{database: database, logs: []*fakeLog{l}}, NewBudget(1<<30), definedBy(timeseries.Seconds))
		consumer.Assigned(gen, []Assignment{{events(0), Assigned{TopicID: thisTopic}}}, false)
		_ = wait(t.Context(), 20*time.Second)
		consumer.Revoke(context.Background(), true)
		if len(database.claims) > 0 || len(gen.committed) == 0 {
			t.Errorf("claims %v, commits %v", database.claims, gen.committed)
		}
	})
}

// limitedGeneration has a lease that a test can end.
type limitedGeneration struct {
	fakeGeneration
	lapsed atomic.Bool
}

// Held implements Generation.
func (g *limitedGeneration) Held() bool { return !g.lapsed.Load() }

func newLimited() *limitedGeneration {
	return &limitedGeneration{fakeGeneration: fakeGeneration{committed: map[int32]int64{}}}
}

// pass advances the time, and lets everything due happen.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	_ = wait(t.Context(), d)
	synctest.Wait()
}

// rebalanced starts a consumer with partitions 0 and 1 of a topic that gets records all the time.
func rebalanced(t *testing.T) (*Consumer, *fakeDatabase, *limitedGeneration) {
	t.Helper()
	database, first := newFakeDatabase(), newLimited()
	logs := make([]*fakeLog, 2)
	for i := range logs {
		logs[i] = &fakeLog{partition: int32(i), begin: time.Now(), rate: 50, total: 1 << 20, most: 100, series: 1}
		database.logs[int32(i)] = logs[i]
	}
	c := newFakeConsumer(t, fakePorts{database: database, logs: logs}, NewBudget(1<<30), definedBy(timeseries.Seconds))
	c.Assigned(first, both(), false)
	pass(t, 20*time.Second)
	return c, database, first
}

func both() []Assignment {
	return []Assignment{{events(0), Assigned{TopicID: thisTopic}}, {events(1), Assigned{TopicID: thisTopic}}}
}

func TestPartitionThatStaysGoesOnAndTheOtherIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, database, first := rebalanced(t)
		claims := database.claimed()
		second := newLimited()
		c.Assigned(second, both()[:1], true)
		if !c.Held() {
			t.Error("nothing may be written while a partition is handed over")
		}
		pass(t, 2*time.Second)
		if kept := database.claimed()[0]; kept.Claim != claims[0].Claim || kept.Released {
			t.Errorf("the claim of the partition that stays is %+v, it was %+v", kept, claims[0])
		}
		if gone := database.claimed()[1]; gone.Claim != claims[1].Claim || !gone.Released {
			t.Errorf("the claim of the partition that goes is %+v, it was %+v", gone, claims[1])
		}
		if n := len(c.Statuses()); n != 1 {
			t.Errorf("%d partitions are shown", n)
		}
		if second.at(1) <= first.at(1) || int64(database.count(1)) != second.at(1) {
			t.Errorf("the last commit of the partition that goes is %d after %d, with %d stored", second.at(1), first.at(1), database.count(1))
		}
		first.lapsed.Store(true)
		before := second.at(0)
		pass(t, 20*time.Second)
		if second.at(0) <= before || !c.Held() {
			t.Errorf("the partition that stays is committed to %d, as before; held %v", second.at(0), c.Held())
		}
		c.Revoke(context.Background(), true)
		if second.at(1) != int64(database.count(1)) {
			t.Errorf("%d of the partition that went are stored after its last commit, %d", database.count(1), second.at(1))
		}
	})
}

// TestHandOverEndsWithTheLeaseOfWhenThePartitionWasOurs checks this because the next owner waits no longer.
func TestHandOverEndsWithTheLeaseOfWhenThePartitionWasOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, database, first := rebalanced(t)
		database.standStill(true)
		pass(t, 5*time.Second)
		second := newLimited()
		c.Assigned(second, both()[:1], true)
		pass(t, time.Second)
		first.lapsed.Store(true)
		if c.Held() {
			t.Error("writes may be sent, though one of them may be for a partition that another owner waits for")
		}
		pass(t, time.Second)
		if !c.Held() || len(c.Statuses()) != 1 {
			t.Errorf("held %v, %d partitions are shown", c.Held(), len(c.Statuses()))
		}
		database.standStill(false)
		pass(t, time.Minute)
		if database.claimed()[1].Released {
			t.Error("the partition was released after its lease")
		}
		c.Revoke(context.Background(), true)
		if second.at(0) != int64(database.count(0)) {
			t.Errorf("of the partition that stays %d are stored, %d committed", database.count(0), second.at(0))
		}
	})
}

func TestPartitionThatComesBackIsClaimedAnew(t *testing.T) {
	for name, test := range map[string]struct {
		assigned    []Assignment
		consecutive bool
		claimed     int // of both
	}{
		"after a generation that was skipped": {both(), false, 2},
		"of a topic created again":            {[]Assignment{both()[0], {events(1), Assigned{TopicID: otherTopic}}}, true, 1},
		"at once":                             {both(), true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, database, _ := rebalanced(t)
				before := database.claimed()
				second := newLimited()
				c.Assigned(second, test.assigned, test.consecutive)
				pass(t, 20*time.Second)
				claimed := 0
				for partition, now := range database.claimed() {
					if now.Claim != before[partition].Claim {
						claimed++
					}
				}
				if claimed != test.claimed || len(c.Statuses()) != 2 {
					t.Errorf("%d partitions were claimed anew, %d are shown", claimed, len(c.Statuses()))
				}
				c.Revoke(context.Background(), true)
				for partition := range int32(2) {
					if stored := int64(database.count(partition)); second.at(partition) != stored {
						t.Errorf("partition %d: %d stored, %d committed", partition, stored, second.at(partition))
					}
					for position, times := range database.stored[partition] {
						if times != 1 {
							t.Fatalf("%v is stored %d times", position, times)
						}
					}
				}
			})
		})
	}
}
