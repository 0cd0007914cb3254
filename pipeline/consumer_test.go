package pipeline

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/record"
	"waterwheel/timeseries"
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

// TestNothingIsCommittedOfATenureThatIsOver: the next generation's commits are its own, even where it has none.
func TestNothingIsCommittedOfATenureThatIsOver(t *testing.T) {
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
		if first.committed[0] != 100 {
			t.Errorf("committed to %d of 100", first.committed[0])
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

// lapsedGeneration is one whose commits are answered, though its lease does not hold.
type lapsedGeneration struct{ fakeGeneration }

// Held implements Generation.
func (*lapsedGeneration) Held() bool { return false }

// Commit takes its time: the worker asks for a commit again as soon as one has not renewed the lease.
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
