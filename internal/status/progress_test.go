package status

import (
	"testing"
	"time"

	"waterwheel/internal/record"
	"waterwheel/pipeline"
)

// TestEverySignShowsTheSameLag checks that the sum in the log line is the sum over the partitions of the page and of the metrics.
func TestEverySignShowsTheSameLag(t *testing.T) {
	now := time.Now()
	old := now.Add(-9 * time.Second).UnixMilli()
	statuses := []*pipeline.Status{
		{Partition: record.Partition{Topic: "a"}, Position: 90, Undurable: 40, Committed: 40, End: 100, UndurableTime: old}, // read, and not written
		{Partition: record.Partition{Topic: "b"}, Position: 7, Undurable: 7, Committed: 7, End: 9, UndurableTime: old},      // stopped
		{Partition: record.Partition{Topic: "c"}, Position: 3, Undurable: 3, Committed: -1, End: 3},                         // nothing was committed
		{Partition: record.Partition{Topic: "d"}, Position: -1, Undurable: -1, Committed: -1, End: -1},
	}
	sum := summed(statuses, now)
	if sum.lag != 62 || sum.unknown != 1 || sum.freshness.Round(time.Second) != 9*time.Second {
		t.Errorf("the log says lag %d, unknown %d, freshness %v", sum.lag, sum.unknown, sum.freshness)
	}
	page := int64(0)
	for _, s := range statuses {
		if view := newPartition(s, now); view.Lag != nil {
			page += *view.Lag
		}
	}
	if page != sum.lag {
		t.Errorf("the page says %d", page)
	}
}

func TestUnwrittenRecordsAreNamed(t *testing.T) {
	got := unwritten([]*pipeline.Status{
		{Partition: record.Partition{Topic: "a", Number: 1}, Committed: 10, ReadTo: 25},
		{Partition: record.Partition{Topic: "a", Number: 2}, Committed: 30, ReadTo: 30},
		{Partition: record.Partition{Topic: "a", Number: 3}, Committed: -1, ReadTo: 2},
	})
	if want := "a/1 from 10 to 24, a/3 from 0 to 1"; got != want {
		t.Errorf("read again: %q, want %q", got, want)
	}
}
