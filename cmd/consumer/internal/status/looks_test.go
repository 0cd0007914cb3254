package status

import (
	"context"
	"errors"
	"testing"
	"time"

	"waterwheel/pipeline"
	"waterwheel/record"
)

// fakeLooker answers with what a log is said to be.
type fakeLooker struct {
	end, timestamp    int64
	committed         int64
	err               error
	asked, timestamps int
}

func (f *fakeLooker) Bounds(context.Context, record.Partition) (first, end int64, err error) {
	f.asked++
	return 0, f.end, f.err
}

func (f *fakeLooker) Committed(context.Context, record.Partition) (int64, error) {
	return f.committed, f.err
}

func (f *fakeLooker) Timestamp(context.Context, record.Partition, [16]byte, int64) (int64, error) {
	f.timestamps++
	return f.timestamp, f.err
}

// TestPartitionThatIsNotReadIsLookedAt: its lag and freshness go on.
func TestPartitionThatIsNotReadIsLookedAt(t *testing.T) {
	clock := time.Hour
	l := newLooks(func() pipeline.Instant { return clock })
	now := time.Now()
	unread := []*pipeline.Status{{Partition: record.Partition{Topic: "events"}, Running: true, Position: 5, Undurable: 5, Committed: 5, End: 6, EndAt: clock}}
	kafka := &fakeLooker{end: 9, timestamp: now.Add(-10 * time.Minute).UnixMilli()}
	signs := func() (int64, time.Duration) {
		s := l.completed(unread, now)[0]
		lag, _ := s.Lag()
		age, ok := s.Freshness(now)
		if !ok {
			t.Error("the freshness is not known")
		}
		return lag, age.Round(time.Second)
	}
	l.refresh(t.Context(), kafka, unread)
	if lag, age := signs(); kafka.asked != 0 || lag != 1 || age != 0 {
		t.Errorf("just after the worker knew: asked %d times, lag %d, freshness %v", kafka.asked, lag, age)
	}
	clock += lookAfter
	l.refresh(t.Context(), kafka, unread)
	if lag, age := signs(); lag != 4 || age != 10*time.Minute {
		t.Errorf("after a look: lag %d, freshness %v", lag, age)
	}
	clock += lookAfter
	l.refresh(t.Context(), kafka, unread)
	if kafka.asked != 2 || kafka.timestamps != 1 {
		t.Errorf("the end was asked %d times, the record's time %d times", kafka.asked, kafka.timestamps)
	}
	l.refresh(t.Context(), kafka, nil)
	if len(l.by) != 0 {
		t.Error("a partition that went away is remembered")
	}
}

// TestStoppedPartitionLagsBehindTheGroupsOffset, also when that could not be read when it was assigned.
func TestStoppedPartitionLagsBehindTheGroupsOffset(t *testing.T) {
	l := newLooks(func() pipeline.Instant { return time.Hour })
	stopped := []*pipeline.Status{{Partition: record.Partition{Topic: "events"}, Position: -1, Undurable: -1, Committed: -1, End: -1, Stopped: &record.StopError{}}}
	l.refresh(t.Context(), &fakeLooker{end: 9, committed: 3}, stopped)
	if lag, known := l.completed(stopped, time.Now())[0].Lag(); !known || lag != 6 {
		t.Errorf("lag %d, known %v, want 6", lag, known)
	}
}

// TestUnreachableKafkaIsNotAskedForEachPartition: with many partitions the round would never end.
func TestUnreachableKafkaIsNotAskedForEachPartition(t *testing.T) {
	l := newLooks(func() pipeline.Instant { return time.Hour })
	kafka := &fakeLooker{err: errors.New("down")}
	statuses := make([]*pipeline.Status, 50)
	for i := range statuses {
		statuses[i] = &pipeline.Status{Partition: record.Partition{Topic: "events", Number: int32(i)}, Undurable: 3, Position: 3, End: 4}
	}
	l.refresh(t.Context(), kafka, statuses)
	if kafka.asked+kafka.timestamps != 1 {
		t.Errorf("asked %d times", kafka.asked+kafka.timestamps)
	}
}

// TestRecordThatCannotBeLookedAtAges: it is as old as it is known to be there.
func TestRecordThatCannotBeLookedAtAges(t *testing.T) {
	clock := time.Hour
	l := newLooks(func() pipeline.Instant { return clock })
	statuses := []*pipeline.Status{{Partition: record.Partition{Topic: "events"}, Position: 5, Undurable: 5, End: 6, EndAt: clock}}
	l.refresh(t.Context(), &fakeLooker{end: 6, err: errors.New("corrupt")}, statuses)
	later := time.Now().Add(time.Minute)
	if age, ok := l.completed(statuses, later)[0].Freshness(later); !ok || age.Round(time.Second) != time.Minute {
		t.Errorf("freshness %v, %v", age, ok)
	}
}
