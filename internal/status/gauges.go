package status

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/pipeline"
)

// gauges are the metrics taken from the snapshots, by their names without the prefix.
var gauges = func() map[string]*prometheus.Desc {
	all := map[string]*prometheus.Desc{}
	describe := func(name, help string, labels ...string) {
		all[name] = prometheus.NewDesc("waterwheel_"+name, help, labels, nil)
	}
	ofPartition := func(name, help string) { describe(name, help, "topic", "partition") }
	ofPartition("lag_records", "Records that are not committed yet: the high watermark minus the committed offset.")
	ofPartition("freshness_seconds", "Age of the oldest record that is not durable, 0 when every record is durable.")
	ofPartition("lag_seconds", "Time between the oldest record read that is not durable and the newest record read.")
	ofPartition("claim_wait_seconds", "Remaining wait until writes of the previous owner can no longer arrive.")
	ofPartition("schema_wait_seconds", "How long the next record has waited for its schema, 0 if it does not wait.")
	ofPartition("send_limit_bytes", "Maximum bytes of writes sent to MongoDB at a time, adjusted to its recent response times.")
	ofPartition("oldest_pending_seconds", "How long the oldest measurement has waited for a flush.")
	ofPartition("open_segments", "Open segments, which are not compacted into buckets yet.")
	ofPartition("open_segment_measurements", "Measurements in open segments.")
	ofPartition("oldest_open_segment_seconds", "Time since this consumer wrote or found the oldest open segment.")
	ofPartition("fetch_paused", "1 while fetching is paused because too much data waits to be processed.")
	describe("partitions_stopped", "Stopped partitions, which wait for an operator to act, by reason.", "reason")
	describe("memory_bytes", "Memory that counts towards the budget, by kind.", "kind")
	describe("memory_limit_bytes", "The memory budget for all kinds together.")
	describe("series", "Series in memory.")
	describe("open_buckets", "Open buckets in memory.")
	describe("archived_buckets", "Archived buckets in memory.")
	describe("active_buckets", "Open and archived buckets in memory.")
	describe("unknown_writes", "Writes that were sent to MongoDB and whose outcome is unknown.")
	describe("bucket_fill_ratio", "Measurements stored per bucket written, as a fraction of BUCKET_MAX_COUNT.")
	return all
}()

// Describe sends the descriptions of all metrics that Collect may send. The label values depend on the assignment.
func (v *View) Describe(out chan<- *prometheus.Desc) {
	v.outages.Describe(out)
	v.overSeries.Describe(out)
	for _, desc := range gauges {
		out <- desc
	}
}

// Collect sends the counters of the view, and gauges taken from the snapshots. The gauges of a partition vanish with the
// partition.
func (v *View) Collect(out chan<- prometheus.Metric) {
	v.outages.Collect(out)
	v.overSeries.Collect(out)
	now := time.Now()
	v.collect(out, v.statuses(now), now)
}

func (v *View) collect(out chan<- prometheus.Metric, statuses []*pipeline.Status, now time.Time) {
	send := func(name string, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(gauges[name], prometheus.GaugeValue, value, labels...)
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
		send("partitions_stopped", float64(n), reason)
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
		send("memory_bytes", bytes, kind)
	}
	send("memory_limit_bytes", float64(v.o.Budget.Limit()))
	open := sum(func(s *pipeline.Status) int64 { return s.Buckets.OpenBuckets })
	archived := sum(func(s *pipeline.Status) int64 { return s.Buckets.ArchivedBuckets })
	send("series", sum(func(s *pipeline.Status) int64 { return s.Buckets.Series }))
	send("open_buckets", open)
	send("archived_buckets", archived)
	send("active_buckets", open+archived)
	send("unknown_writes", sum(func(s *pipeline.Status) int64 { return int64(s.Unknown) }))
	stored := sum(func(s *pipeline.Status) int64 { return s.Buckets.MeasurementsCommitted - s.Buckets.MeasurementsStaged })
	written := sum(func(s *pipeline.Status) int64 { return s.Buckets.BucketInserts + s.Buckets.BucketsReopened })
	if written > 0 && v.o.MaxCount > 0 {
		send("bucket_fill_ratio", stored/written/float64(v.o.MaxCount))
	}
}

// ofPartition sends the gauges of one partition.
func ofPartition(s *pipeline.Status, now time.Time, send func(name string, value float64, labels ...string)) {
	number := strconv.Itoa(int(s.Number))
	one := func(name string, value float64) { send(name, value, s.Topic, number) }
	if lag, known := s.Lag(); known {
		one("lag_records", float64(lag))
	}
	if age, known := s.Freshness(now); known {
		one("freshness_seconds", age.Seconds())
	}
	behind := int64(0)
	if s.Undurable < s.Position && s.UndurableTime > 0 {
		behind = max(0, s.Newest-s.UndurableTime)
	}
	one("lag_seconds", float64(behind)/1000)
	one("claim_wait_seconds", s.ClaimWait.Seconds())
	one("schema_wait_seconds", s.SchemaWait.Seconds())
	one("send_limit_bytes", float64(s.SendBytes))
	one("oldest_pending_seconds", s.PendingFor.Seconds())
	one("open_segments", float64(s.OpenSegments))
	one("open_segment_measurements", float64(s.InSegments))
	one("oldest_open_segment_seconds", s.SegmentAge.Seconds())
	one("fetch_paused", map[bool]float64{true: 1}[s.Paused != ""])
}
