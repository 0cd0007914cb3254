package main

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/pipeline"
)

// gauges are the metrics taken from the snapshots: they vanish with their partition.
var gauges = struct {
	claimWait, lag, lagSeconds, freshness, pending, paused, stopped, memory, memoryLimit, series, open, archived, active, fill, unknown *prometheus.Desc
}{
	claimWait:   describe("claim_wait_seconds", "How much of the wait for a former owner's writes is left.", "topic", "partition"),
	lag:         describe("lag_records", "Records of the log not committed yet.", "topic", "partition"),
	lagSeconds:  describe("lag_seconds", "Time between the oldest record read that is not durable and the newest one read.", "topic", "partition"),
	freshness:   describe("freshness_seconds", "Age of the oldest record that is not durable, 0 when there is none.", "topic", "partition"),
	pending:     describe("oldest_pending_seconds", "How long the oldest pending measurement has waited.", "topic", "partition"),
	paused:      describe("fetch_paused", "1 while nothing is fetched because too much waits already.", "topic", "partition"),
	stopped:     describe("partitions_stopped", "Partitions that wait for somebody to act.", "reason"),
	memory:      describe("memory_bytes", "Memory that counts towards the budget.", "kind"),
	memoryLimit: describe("memory_limit_bytes", "The memory budget."),
	series:      describe("series", "Series in memory."),
	open:        describe("open_buckets", "Open buckets in memory."),
	archived:    describe("archived_buckets", "Archived buckets in memory."),
	active:      describe("active_buckets", "Open and archived buckets in memory."),
	fill:        describe("bucket_fill_ratio", "Measurements stored by the catalogs in memory for each bucket they wrote to, of BUCKET_MAX_COUNT."),
	unknown:     describe("unknown_writes", "Writes that were sent and whose outcome is not known."),
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("waterwheel_"+name, help, labels, nil)
}

// Describe sends nothing: which series there are depends on the assignment.
func (v *view) Describe(chan<- *prometheus.Desc) {}

// Collect sends the gauges.
func (v *view) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	v.collect(out, v.statuses(now), now)
}

func (v *view) collect(out chan<- prometheus.Metric, statuses []*pipeline.Status, now time.Time) {
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	send(gauges.memoryLimit, float64(v.budget.Limit()))
	send(gauges.memory, float64(v.budget.Fetching()), "fetch")
	var sum pipeline.Status
	stopped := map[string]int{}
	for _, s := range statuses {
		labels := []string{s.Topic, strconv.Itoa(int(s.Partition))}
		if lag, ok := s.Lag(); ok {
			send(gauges.lag, float64(lag), labels...)
		}
		if age, ok := s.Freshness(now); ok {
			send(gauges.freshness, age.Seconds(), labels...)
		}
		if s.Undurable < s.Position && s.UndurableTime > 0 {
			send(gauges.lagSeconds, float64(max(0, s.Newest-s.UndurableTime))/1000, labels...)
		} else {
			send(gauges.lagSeconds, 0, labels...)
		}
		send(gauges.claimWait, s.ClaimWait.Seconds(), labels...)
		send(gauges.pending, s.PendingFor.Seconds(), labels...)
		send(gauges.paused, map[bool]float64{true: 1}[s.Paused != ""], labels...)
		if s.Stopped != nil {
			stopped[s.Stopped.Reason]++
		}
		sum.BucketBytes += s.BucketBytes
		sum.PendingBytes += s.PendingBytes
		sum.StoredBytes += s.StoredBytes
		sum.LetterBytes += s.LetterBytes
		sum.LedgerBytes += s.LedgerBytes
		sum.ReservedBytes += s.ReservedBytes
		sum.Unknown += s.Unknown
		sum.Buckets.Series += s.Buckets.Series
		sum.Buckets.OpenBuckets += s.Buckets.OpenBuckets
		sum.Buckets.ArchivedBuckets += s.Buckets.ArchivedBuckets
		sum.Buckets.MeasurementsCommitted += s.Buckets.MeasurementsCommitted
		sum.Buckets.BucketInserts += s.Buckets.BucketInserts
		sum.Buckets.BucketsReopened += s.Buckets.BucketsReopened
	}
	for reason, n := range stopped {
		send(gauges.stopped, float64(n), reason)
	}
	send(gauges.memory, float64(sum.BucketBytes), "buckets")
	send(gauges.memory, float64(sum.PendingBytes), "pending")
	send(gauges.memory, float64(sum.StoredBytes), "stored_positions")
	send(gauges.memory, float64(sum.LetterBytes), "letters")
	send(gauges.memory, float64(sum.LedgerBytes), "ledger")
	send(gauges.memory, float64(sum.ReservedBytes), "reserved")
	send(gauges.series, float64(sum.Buckets.Series))
	send(gauges.open, float64(sum.Buckets.OpenBuckets))
	send(gauges.archived, float64(sum.Buckets.ArchivedBuckets))
	send(gauges.active, float64(sum.Buckets.OpenBuckets+sum.Buckets.ArchivedBuckets))
	if written := sum.Buckets.BucketInserts + sum.Buckets.BucketsReopened; written > 0 && v.maxCount > 0 {
		send(gauges.fill, float64(sum.Buckets.MeasurementsCommitted)/float64(written)/float64(v.maxCount))
	}
	send(gauges.unknown, float64(sum.Unknown))
}
