package status

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"waterwheel/internal/record"
	"waterwheel/pipeline"
)

// fakeLooker answers with given values of a log.
type fakeLooker struct {
	end, timestamp    int64
	committed         int64
	err               error
	asked, timestamps int
	transaction       *record.Transaction
	transactions      int
}

func (f *fakeLooker) HighWatermark(context.Context, record.Partition) (end int64, err error) {
	f.asked++
	return f.end, f.err
}

func (f *fakeLooker) OpenTransaction(context.Context, record.Partition) (*record.Transaction, error) {
	f.transactions++
	return f.transaction, f.err
}

func (f *fakeLooker) Committed(context.Context, record.Partition) (int64, error) {
	return f.committed, f.err
}

func (f *fakeLooker) Timestamp(context.Context, record.Partition, [16]byte, int64) (int64, error) {
	f.timestamps++
	return f.timestamp, f.err
}

// TestPartitionThatIsNotReadIsLookedAt checks that the lag and freshness of such a partition are still updated.
func TestPartitionThatIsNotReadIsLookedAt(t *testing.T) {
	clock := time.Hour
	l := newLooks(func() pipeline.Instant { return clock }, slog.New(slog.DiscardHandler))
	now := time.Now()
	unread := []*pipeline.Status{{Partition: record.Partition{Topic: "events"}, Running: true, Position: 5, Undurable: 5, Committed: 5, End: 6, Readable: 6, EndAt: clock}}
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

// TestOpenTransactionIsSeen checks that the records of the transaction and those after it count as lag, and that the freshness is
// the age of its first record. If the transaction lasts, Kafka is asked once which producer it belongs to.
func TestOpenTransactionIsSeen(t *testing.T) {
	clock := time.Hour
	var log bytes.Buffer
	l := newLooks(func() pipeline.Instant { return clock }, slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Now()
	began := now.Add(-10 * time.Minute).UTC()
	s := &pipeline.Status{
		Partition: record.Partition{Topic: "events"}, Running: true, Position: 5, Undurable: 5, Committed: 5, Readable: 5, End: 1006, EndAt: clock,
	}
	kafka := &fakeLooker{end: 1006, timestamp: began.Add(time.Second).UnixMilli(), transaction: &record.Transaction{Producer: 4000, First: 5, ID: "job-7", Since: began}}
	look := func(after time.Duration) *pipeline.Status {
		clock += after
		s.EndAt = clock // it is fetched, without new records
		l.refresh(t.Context(), kafka, []*pipeline.Status{s})
		return l.completed([]*pipeline.Status{s}, now)[0]
	}
	if known := look(0); known.Transaction != nil || kafka.transactions != 0 {
		t.Errorf("at once: %+v", known.Transaction)
	}
	known := look(lookAfter)
	lag, _ := known.Lag()
	age, _ := known.Freshness(now)
	if known.Transaction == nil || *known.Transaction != *kafka.transaction || lag != 1001 || age.Round(time.Minute) != 10*time.Minute {
		t.Errorf("after a while: %+v, lag %d, freshness %v", known.Transaction, lag, age)
	}
	look(lookAgain)
	if look(lookAgain); kafka.transactions != 1 || kafka.timestamps != 1 {
		t.Errorf("asked %d times for the transaction, %d times for the record's time", kafka.transactions, kafka.timestamps)
	}
	if says := log.String(); strings.Count(says, "level=WARN") != 1 || !strings.Contains(says, "of producer 4000") || !strings.Contains(says, "job-7") {
		t.Errorf("the log says:\n%s", says)
	}
	s.Position, s.Undurable, s.Readable = 1006, 1006, 1006 // the transaction has ended
	if known := look(lookAgain); known.Transaction != nil {
		t.Errorf("after its end: %+v", known.Transaction)
	}
}

// TestTransactionThatMayNotBeKnownIsSeen checks that the freshness starts at the time of the first record, or at the time since
// which the record is known to exist.
func TestTransactionThatMayNotBeKnownIsSeen(t *testing.T) {
	for _, timestamp := range []int64{0, time.Now().Add(-time.Hour).UnixMilli()} {
		clock := time.Hour
		l := newLooks(func() pipeline.Instant { return clock }, slog.New(slog.DiscardHandler))
		s := []*pipeline.Status{{Partition: record.Partition{Topic: "events"}, Running: true, Readable: 0, Committed: -1, End: 9, EndAt: clock}}
		kafka := &fakeLooker{end: 9, timestamp: timestamp} // Kafka does not tell which producer it is
		l.refresh(t.Context(), kafka, s)
		clock += lookAfter
		l.refresh(t.Context(), kafka, s)
		since := time.UnixMilli(timestamp)
		if timestamp == 0 {
			since = time.Now()
		}
		got := l.completed(s, time.Now())[0].Transaction
		if got == nil || got.Producer != -1 || got.ID != "" || got.Since.Sub(since).Abs() > time.Minute {
			t.Errorf("the first record's time is %d: %+v", timestamp, got)
		}
	}
}

// TestStoppedPartitionLagsBehindTheGroupsOffset checks this also if the offset could not be read at the assignment.
func TestStoppedPartitionLagsBehindTheGroupsOffset(t *testing.T) {
	l := newLooks(func() pipeline.Instant { return time.Hour }, slog.New(slog.DiscardHandler))
	stopped := []*pipeline.Status{{Partition: record.Partition{Topic: "events"}, Position: -1, Undurable: -1, Committed: -1, End: -1, Stopped: &record.StopError{}}}
	l.refresh(t.Context(), &fakeLooker{end: 9, committed: 3}, stopped)
	if lag, known := l.completed(stopped, time.Now())[0].Lag(); !known || lag != 6 {
		t.Errorf("lag %d, known %v, want 6", lag, known)
	}
}

// TestUnreachableKafkaIsNotAskedForEachPartition checks that a round ends early, because with many partitions it would never end.
func TestUnreachableKafkaIsNotAskedForEachPartition(t *testing.T) {
	l := newLooks(func() pipeline.Instant { return time.Hour }, slog.New(slog.DiscardHandler))
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

// TestRecordThatCannotBeLookedAtAges checks that the age counts from the time since which the record is known to exist.
func TestRecordThatCannotBeLookedAtAges(t *testing.T) {
	clock := time.Hour
	l := newLooks(func() pipeline.Instant { return clock }, slog.New(slog.DiscardHandler))
	statuses := []*pipeline.Status{{Partition: record.Partition{Topic: "events"}, Position: 5, Undurable: 5, End: 6, EndAt: clock}}
	l.refresh(t.Context(), &fakeLooker{end: 6, err: errors.New("corrupt")}, statuses)
	later := time.Now().Add(time.Minute)
	if age, ok := l.completed(statuses, later)[0].Freshness(later); !ok || age.Round(time.Second) != time.Minute {
		t.Errorf("freshness %v, %v", age, ok)
	}
}
