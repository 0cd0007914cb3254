package pipeline

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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
