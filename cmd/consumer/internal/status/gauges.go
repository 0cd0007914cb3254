package status

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/pipeline"
)

// Describe sends nothing: which series there are depends on the assignment.
func (v *View) Describe(chan<- *prometheus.Desc) {}

// Collect sends the counters of the view, and gauges taken from the snapshots: those of a partition vanish with it.
func (v *View) Collect(out chan<- prometheus.Metric) {
	v.outages.Collect(out)
	v.overSeries.Collect(out)
	now := time.Now()
	v.collect(out, v.statuses(now), now)
}

func (v *View) collect(out chan<- prometheus.Metric, statuses []*pipeline.Status, now time.Time) {
	send := func(name, help string, value float64, labels prometheus.Labels) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("waterwheel_"+name, help, nil, labels), prometheus.GaugeValue, value)
	}
	sum := func(value func(*pipeline.Status) int64) float64 {
		var sum int64
		for _, s := range statuses {
			sum += value(s)
		}
		return float64(sum)
	}
	stops := map[string]int{}
	for _, s := range statuses {
		ofPartition(s, now, send)
		if s.Stopped != nil {
			stops[s.Stopped.Reason]++
		}
	}
	for reason, n := range stops {
		send("partitions_stopped", "Partitions that wait for somebody to act.", float64(n), prometheus.Labels{"reason": reason})
	}
	for kind, bytes := range map[string]float64{
		"fetch":            float64(v.o.Budget.Fetching()),
		"buckets":          sum(func(s *pipeline.Status) int64 { return s.BucketBytes }),
		"pending":          sum(func(s *pipeline.Status) int64 { return s.PendingBytes }),
		"stored_positions": sum(func(s *pipeline.Status) int64 { return s.StoredBytes }),
		"letters":          sum(func(s *pipeline.Status) int64 { return s.LetterBytes }),
		"ledger":           sum(func(s *pipeline.Status) int64 { return s.LedgerBytes }),
		"reserved":         sum(func(s *pipeline.Status) int64 { return s.ReservedBytes }),
	} {
		send("memory_bytes", "Memory that counts towards the budget.", bytes, prometheus.Labels{"kind": kind})
	}
	send("memory_limit_bytes", "The memory budget.", float64(v.o.Budget.Limit()), nil)
	open := sum(func(s *pipeline.Status) int64 { return s.Buckets.OpenBuckets })
	archived := sum(func(s *pipeline.Status) int64 { return s.Buckets.ArchivedBuckets })
	send("series", "Series in memory.", sum(func(s *pipeline.Status) int64 { return s.Buckets.Series }), nil)
	send("open_buckets", "Open buckets in memory.", open, nil)
	send("archived_buckets", "Archived buckets in memory.", archived, nil)
	send("active_buckets", "Open and archived buckets in memory.", open+archived, nil)
	send("unknown_writes", "Writes that were sent and whose outcome is not known.", sum(func(s *pipeline.Status) int64 { return int64(s.Unknown) }), nil)
	stored := sum(func(s *pipeline.Status) int64 { return s.Buckets.MeasurementsCommitted })
	written := sum(func(s *pipeline.Status) int64 { return s.Buckets.BucketInserts + s.Buckets.BucketsReopened })
	if written > 0 && v.o.MaxCount > 0 {
		send("bucket_fill_ratio", "Measurements stored by the catalogs in memory for each bucket they wrote to, of BUCKET_MAX_COUNT.",
			stored/written/float64(v.o.MaxCount), nil)
	}
}

// ofPartition sends the gauges that each partition has.
func ofPartition(s *pipeline.Status, now time.Time, send func(name, help string, value float64, labels prometheus.Labels)) {
	at := prometheus.Labels{"topic": s.Topic, "partition": strconv.Itoa(int(s.Number))}
	if lag, known := s.Lag(); known {
		send("lag_records", "Records of the log not committed yet.", float64(lag), at)
	}
	if age, known := s.Freshness(now); known {
		send("freshness_seconds", "Age of the oldest record that is not durable, 0 when there is none.", age.Seconds(), at)
	}
	behind := int64(0)
	if s.Undurable < s.Position && s.UndurableTime > 0 {
		behind = max(0, s.Newest-s.UndurableTime)
	}
	send("lag_seconds", "Time between the oldest record read that is not durable and the newest one read.", float64(behind)/1000, at)
	send("claim_wait_seconds", "How much of the wait for a former owner's writes is left.", s.ClaimWait.Seconds(), at)
	send("send_bytes", "How many bytes of writes are sent to MongoDB at a time, at most, by how quickly it answered lately.", float64(s.SendBytes), at)
	send("oldest_pending_seconds", "How long the oldest pending measurement has waited.", s.PendingFor.Seconds(), at)
	send("open_segments", "Segments that have not ended.", float64(s.OpenSegments), at)
	send("open_segment_measurements", "Measurements in segments that have not ended.", float64(s.InSegments), at)
	send("oldest_open_segment_seconds", "How long the oldest segment that has not ended is known to this owner.", s.SegmentAge.Seconds(), at)
	send("fetch_paused", "1 while nothing is fetched because too much waits already.", map[bool]float64{true: 1}[s.Paused != ""], at)
}
