package status

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/pipeline"
)

// The gauges are taken from the snapshots: those of a partition vanish with it.
var (
	stopped     = describe("partitions_stopped", "Partitions that wait for somebody to act.", "reason")
	memory      = describe("memory_bytes", "Memory that counts towards the budget.", "kind")
	memoryLimit = describe("memory_limit_bytes", "The memory budget.")
	fill        = describe("bucket_fill_ratio", "Measurements stored by the catalogs in memory for each bucket they wrote to, of BUCKET_MAX_COUNT.")
)

// ofPartition are the gauges of each partition.
var ofPartition = []struct {
	*prometheus.Desc
	value func(s *pipeline.Status, now time.Time) (value float64, known bool)
}{
	{ofEach("claim_wait_seconds", "How much of the wait for a former owner's writes is left."), func(s *pipeline.Status, _ time.Time) (float64, bool) {
		return s.ClaimWait.Seconds(), true
	}},
	{ofEach("lag_records", "Records of the log not committed yet."), func(s *pipeline.Status, _ time.Time) (float64, bool) {
		lag, known := s.Lag()
		return float64(lag), known
	}},
	{ofEach("lag_seconds", "Time between the oldest record read that is not durable and the newest one read."), func(s *pipeline.Status, _ time.Time) (float64, bool) {
		if s.Undurable >= s.Position || s.UndurableTime <= 0 {
			return 0, true
		}
		return float64(max(0, s.Newest-s.UndurableTime)) / 1000, true
	}},
	{ofEach("freshness_seconds", "Age of the oldest record that is not durable, 0 when there is none."), func(s *pipeline.Status, now time.Time) (float64, bool) {
		age, known := s.Freshness(now)
		return age.Seconds(), known
	}},
	{ofEach("oldest_pending_seconds", "How long the oldest pending measurement has waited."), func(s *pipeline.Status, _ time.Time) (float64, bool) {
		return s.PendingFor.Seconds(), true
	}},
	{ofEach("fetch_paused", "1 while nothing is fetched because too much waits already."), func(s *pipeline.Status, _ time.Time) (float64, bool) {
		return map[bool]float64{true: 1}[s.Paused != ""], true
	}},
}

// ofAll are the gauges that sum the partitions up.
var ofAll = []struct {
	*prometheus.Desc
	labels []string
	value  func(*pipeline.Status) int64
}{
	{memory, []string{"buckets"}, func(s *pipeline.Status) int64 { return s.BucketBytes }},
	{memory, []string{"pending"}, func(s *pipeline.Status) int64 { return s.PendingBytes }},
	{memory, []string{"stored_positions"}, func(s *pipeline.Status) int64 { return s.StoredBytes }},
	{memory, []string{"letters"}, func(s *pipeline.Status) int64 { return s.LetterBytes }},
	{memory, []string{"ledger"}, func(s *pipeline.Status) int64 { return s.LedgerBytes }},
	{memory, []string{"reserved"}, func(s *pipeline.Status) int64 { return s.ReservedBytes }},
	{describe("series", "Series in memory."), nil, func(s *pipeline.Status) int64 { return s.Buckets.Series }},
	{describe("open_buckets", "Open buckets in memory."), nil, func(s *pipeline.Status) int64 { return s.Buckets.OpenBuckets }},
	{describe("archived_buckets", "Archived buckets in memory."), nil, func(s *pipeline.Status) int64 { return s.Buckets.ArchivedBuckets }},
	{describe("active_buckets", "Open and archived buckets in memory."), nil, func(s *pipeline.Status) int64 {
		return s.Buckets.OpenBuckets + s.Buckets.ArchivedBuckets
	}},
	{describe("unknown_writes", "Writes that were sent and whose outcome is not known."), nil, func(s *pipeline.Status) int64 { return int64(s.Unknown) }},
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("waterwheel_"+name, help, labels, nil)
}

func ofEach(name, help string) *prometheus.Desc { return describe(name, help, "topic", "partition") }

// Describe sends nothing: which series there are depends on the assignment.
func (v *View) Describe(chan<- *prometheus.Desc) {}

// Collect sends the view's metrics.
func (v *View) Collect(out chan<- prometheus.Metric) {
	v.outages.Collect(out)
	v.overSeries.Collect(out)
	now := time.Now()
	v.collect(out, v.statuses(now), now)
}

func (v *View) collect(out chan<- prometheus.Metric, statuses []*pipeline.Status, now time.Time) {
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	send(memoryLimit, float64(v.o.Budget.Limit()))
	send(memory, float64(v.o.Budget.Fetching()), "fetch")
	stops := map[string]int{}
	var stored, written int64
	for _, s := range statuses {
		for _, g := range ofPartition {
			if value, known := g.value(s, now); known {
				send(g.Desc, value, s.Topic, strconv.Itoa(int(s.Partition)))
			}
		}
		if s.Stopped != nil {
			stops[s.Stopped.Reason]++
		}
		stored += s.Buckets.MeasurementsCommitted
		written += s.Buckets.BucketInserts + s.Buckets.BucketsReopened
	}
	for reason, n := range stops {
		send(stopped, float64(n), reason)
	}
	for _, g := range ofAll {
		var sum int64
		for _, s := range statuses {
			sum += g.value(s)
		}
		send(g.Desc, float64(sum), g.labels...)
	}
	if written > 0 && v.o.MaxCount > 0 {
		send(fill, float64(stored)/float64(written)/float64(v.o.MaxCount))
	}
}
