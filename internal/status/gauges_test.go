package status

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"waterwheel/bucketer"
	"waterwheel/internal/record"
	"waterwheel/pipeline"
)

// showing collects the gauges of partitions.
type showing struct {
	*View
	statuses []*pipeline.Status
	now      time.Time
}

func (s showing) Collect(out chan<- prometheus.Metric) { s.collect(out, s.statuses, s.now) }

// twoPartitions returns a partition that is read, and one that stopped before it was read.
func twoPartitions(now time.Time) []*pipeline.Status {
	return []*pipeline.Status{
		{
			Partition: record.Partition{Topic: "a"}, Position: 90, Undurable: 40, Committed: 40, End: 100, UndurableTime: now.UnixMilli() - 9000, Newest: now.UnixMilli() - 1000,
			ClaimWait: 3 * time.Second, PendingFor: time.Second, BucketBytes: 1, PendingBytes: 2, StoredBytes: 3, DeadLetterBytes: 4, TrackingBytes: 5,
			ReservedBytes: 6, Unknown: 7, Buckets: bucketer.Stats{
				Series: 8, OpenBuckets: 9, ArchivedBuckets: 10, MeasurementsCommitted: 1400, MeasurementsInSegments: 300, BucketInserts: 2, BucketsReopened: 3,
			},
		},
		{
			Partition: record.Partition{Topic: "b"}, Paused: "memory", Stopped: &record.StopError{Reason: "kafka"}, Undurable: -1, Committed: -1, End: -1,
			Buckets: bucketer.Stats{Series: 80, OpenBuckets: 90},
		},
	}
}

func TestGaugesAreOfPartitionsAndOfAll(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	const want = `
# HELP waterwheel_active_buckets Open and archived buckets in memory.
# TYPE waterwheel_active_buckets gauge
waterwheel_active_buckets 109
# HELP waterwheel_bucket_fill_ratio Measurements stored per bucket written, as a fraction of BUCKET_MAX_COUNT.
# TYPE waterwheel_bucket_fill_ratio gauge
waterwheel_bucket_fill_ratio 0.22
# HELP waterwheel_fetch_paused 1 while fetching is paused because too much data waits to be processed.
# TYPE waterwheel_fetch_paused gauge
waterwheel_fetch_paused{partition="0",topic="a"} 0
waterwheel_fetch_paused{partition="0",topic="b"} 1
# HELP waterwheel_freshness_seconds Age of the oldest record that is not durable, 0 when every record is durable.
# TYPE waterwheel_freshness_seconds gauge
waterwheel_freshness_seconds{partition="0",topic="a"} 9
# HELP waterwheel_lag_records Records that are not committed yet: the high watermark minus the committed offset.
# TYPE waterwheel_lag_records gauge
waterwheel_lag_records{partition="0",topic="a"} 60
# HELP waterwheel_lag_seconds Time between the oldest record read that is not durable and the newest record read.
# TYPE waterwheel_lag_seconds gauge
waterwheel_lag_seconds{partition="0",topic="a"} 8
waterwheel_lag_seconds{partition="0",topic="b"} 0
# HELP waterwheel_memory_bytes Memory that counts towards the budget, by kind.
# TYPE waterwheel_memory_bytes gauge
waterwheel_memory_bytes{kind="buckets"} 1
waterwheel_memory_bytes{kind="fetch"} 0
waterwheel_memory_bytes{kind="tracking"} 5
waterwheel_memory_bytes{kind="dead_letters"} 4
waterwheel_memory_bytes{kind="pending"} 2
waterwheel_memory_bytes{kind="reserved"} 6
waterwheel_memory_bytes{kind="stored_positions"} 3
# HELP waterwheel_partitions_stopped Stopped partitions, which wait for an operator to act, by reason.
# TYPE waterwheel_partitions_stopped gauge
waterwheel_partitions_stopped{reason="kafka"} 1
# HELP waterwheel_series Series in memory.
# TYPE waterwheel_series gauge
waterwheel_series 88
`
	names := []string{
		"waterwheel_active_buckets", "waterwheel_bucket_fill_ratio", "waterwheel_fetch_paused", "waterwheel_freshness_seconds",
		"waterwheel_lag_records", "waterwheel_lag_seconds", "waterwheel_memory_bytes", "waterwheel_partitions_stopped", "waterwheel_series",
	}
	if err := testutil.CollectAndCompare(showing{idle(), twoPartitions(now), now}, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// TestGaugesAreDescribed checks that the collector describes all its metrics. A registry refuses other metrics.
func TestGaugesAreDescribed(t *testing.T) {
	registry, v := prometheus.NewRegistry(), idle()
	registry.MustRegister(showing{v, twoPartitions(time.Now()), time.Now()})
	families, err := registry.Gather()
	if err != nil || len(families) != len(gauges) {
		t.Errorf("%d gauges of %d were sent: %v", len(families), len(gauges), err)
	}
}
