package pipeline

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/bucketer"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

// Metrics counts what the workers of a process do, by partition. Status has their present state.
type Metrics struct {
	// The first labels of each counter are topic and partition.
	records, deadLetters, skips, flushes, writes, claims, retries, compactions *prometheus.CounterVec
	stored, expirations, abandons, unreadable, measurementsCompacted           *prometheus.CounterVec
	buckets                                                                    []bucketCounter

	series                                                       partitionSeries
	flushSeconds, flushMeasurements, perWrite, compactionSeconds prometheus.Histogram
	totals                                                       struct{ stored, recognised, deadLetters, writes atomic.Int64 }
}

// Totals are counts since the start of the process: stored measurements, measurements recognised as stored before, letters
// written, and the writes that carried the measurements.
type Totals struct{ Stored, Recognised, DeadLetters, Writes int64 }

// Totals returns the present counts.
func (m *Metrics) Totals() Totals {
	t := &m.totals
	return Totals{Stored: t.stored.Load(), Recognised: t.recognised.Load(), DeadLetters: t.deadLetters.Load(), Writes: t.writes.Load()}
}

// NewMetrics registers the metrics of the pipeline.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "waterwheel", Name: name, Help: help, Buckets: buckets})
		reg.MustRegister(h)
		return h
	}
	m := &Metrics{
		compactionSeconds: histogram("compaction_duration_seconds", "Duration of a compaction, from freezing its segments until they have ended.",
			prometheus.ExponentialBuckets(0.01, 2, 14)),
		flushSeconds: histogram("flush_duration_seconds", "Time from the start of a flush until the outcome of all its writes is known.",
			prometheus.ExponentialBuckets(0.001, 2, 17)),
		flushMeasurements: histogram("flush_measurements", "Measurements in a flush.", prometheus.ExponentialBuckets(1, 4, 12)),
		perWrite:          histogram("measurements_per_write", "Measurements added by one write.", prometheus.ExponentialBuckets(1, 2, 11)),
	}
	counter := m.series.counter
	m.records = counter("records_read_total", "Records read from Kafka.")
	m.deadLetters = counter("dead_letters_total", "Dead letters acknowledged by the dead-letter topic, by reason.", "reason")
	m.skips = counter("measurements_skipped_total", "Measurements and events that were skipped, by reason.", "reason")
	m.flushes = counter("flushes_total", "Flushes, by cause.", "trigger")
	m.writes = counter("writes_total", "Writes of buckets and segments, by outcome.", "kind", "outcome")
	m.claims = counter("claims_total", "Claims of partitions, by outcome.", "outcome")
	m.retries = counter("retries_total", "Attempts that failed and are repeated, by operation.", "operation")
	m.stored = counter("measurements_stored_total", "Measurements durably stored in MongoDB.")
	m.expirations = counter("records_expired_total", "Records that Kafka's retention deleted before they were read.")
	m.unreadable = counter("unreadable_batches_skipped_total", "Unreadable record batches that were skipped because KAFKA_SKIP_CORRUPT lists them.")
	m.compactions = counter("compactions_total", "Compactions of segments into buckets, by outcome.", "outcome", "reason")
	m.measurementsCompacted = counter("measurements_compacted_total", "Measurements compacted from segments into buckets.")
	m.abandons = counter("flushes_abandoned_total", "Flushes and compactions abandoned when this consumer's ownership of the partition ended.")
	m.buckets = newBucketCounters(counter)
	reg.MustRegister(&m.series)
	return m
}

// partitionMetrics are the metrics that one worker counts in.
type partitionMetrics struct {
	*Metrics
	topic, number string // of the partition
}

// of returns the metrics of a partition.
func (m *Metrics) of(p record.Partition) *partitionMetrics {
	return &partitionMetrics{m, p.Topic, strconv.Itoa(int(p.Number))}
}

// counter returns a counter of the partition. The values are those of the other labels.
func (m *partitionMetrics) counter(of *prometheus.CounterVec, values ...string) prometheus.Counter {
	return of.WithLabelValues(append([]string{m.topic, m.number}, values...)...)
}

// Assigned makes the counters of a partition begin at zero, unless they still exist.
func (m *Metrics) Assigned(p record.Partition) {
	m.series.keep(p)
	of := m.of(p)
	for _, vec := range []*prometheus.CounterVec{m.records, m.stored, m.expirations, m.unreadable, m.measurementsCompacted, m.abandons} {
		of.counter(vec)
	}
	for _, reason := range measurement.Reasons() {
		of.counter(m.deadLetters, string(reason))
	}
	of.zero(m.skips, replayed, "tombstone", eventSkip)
	of.zero(m.flushes, "interval", "bytes", "count", "memory", "caught_up", "dense", "rest", "revoke", "shutdown")
	of.counter(m.compactions, "finished", "")
	for _, reason := range []string{becauseUnknown, becauseLate, becauseRefused, becauseDamaged, becauseFound} {
		of.counter(m.compactions, "rolled_back", reason)
	}
	of.zero(m.claims, "cold", "warm", "lost", "refused")
	for d := range operations {
		of.counter(m.retries, d.String())
	}
	for _, kind := range []string{"insert", "update", "segment"} {
		for _, outcome := range []string{"applied", "reconciled", "conflict", "retried", "refused"} {
			of.counter(m.writes, kind, outcome)
		}
	}
	for _, b := range m.buckets {
		of.counter(b.vec, b.values...)
	}
}

// zero makes counters with one more label begin at zero.
func (m *partitionMetrics) zero(vec *prometheus.CounterVec, values ...string) {
	for _, v := range values {
		m.counter(vec, v)
	}
}

// revoked removes the series of a partition after a while.
func (m *Metrics) revoked(p record.Partition) { m.series.leave(p) }

func (m *partitionMetrics) read(records int) { m.counter(m.records).Add(float64(records)) }

// replayed is the reason to skip a measurement that is stored already.
const replayed = "replayed"

// eventSkip is the reason to skip an event that EVENT_SKIP excludes.
const eventSkip = "event_skip"

func (m *partitionMetrics) skipped(reason string, n int) {
	if n == 0 {
		return
	}
	m.counter(m.skips, reason).Add(float64(n))
	if reason == replayed {
		m.totals.recognised.Add(int64(n))
	}
}

func (m *partitionMetrics) deadLetter(reason string) {
	m.counter(m.deadLetters, reason).Inc()
	m.totals.deadLetters.Add(1)
}

func (m *partitionMetrics) claim(outcome string) { m.counter(m.claims, outcome).Inc() }

// expired counts records that retention deleted before they were read.
func (m *partitionMetrics) expired(records int64) {
	m.counter(m.expirations).Add(float64(records))
}

func (m *partitionMetrics) failed(trying operation) { m.counter(m.retries, trying.String()).Inc() }

func (m *partitionMetrics) flushCut(trigger string, f *bucketer.Flush) {
	m.counter(m.flushes, trigger).Inc()
	m.flushMeasurements.Observe(float64(f.Measurements))
}

// write counts a write that is done.
func (m *partitionMetrics) write(w *bucketer.Write, result bucketer.Result, resolved bool) {
	outcome := "applied"
	switch {
	case result == bucketer.Conflicted:
		outcome = "conflict"
	case result == bucketer.Refused:
		outcome = "refused"
	case resolved:
		outcome = "reconciled"
	}
	m.counter(m.writes, kind(w), outcome).Inc()
	if result <= bucketer.AppliedForget {
		m.counter(m.stored).Add(float64(w.Added))
		m.totals.stored.Add(int64(w.Added))
		if w.Added > 0 {
			m.totals.writes.Add(1)
		}
		m.perWrite.Observe(float64(w.Added))
	}
}

func (m *partitionMetrics) retried(w *bucketer.Write) {
	m.counter(m.writes, kind(w), "retried").Inc()
}

// rolledBack counts a compaction that was rolled back.
func (m *partitionMetrics) rolledBack(reason string) {
	m.counter(m.compactions, "rolled_back", reason).Inc()
}

// compacted counts a finished compaction.
func (m *partitionMetrics) compacted(measurements int, took Instant) {
	m.counter(m.compactions, "finished", "").Inc()
	m.counter(m.measurementsCompacted).Add(float64(measurements))
	m.compactionSeconds.Observe(took.Seconds())
}

func kind(w *bucketer.Write) string {
	if w.Segment {
		return "segment"
	}
	if w.Kind == bucketer.Insert {
		return "insert"
	}
	return "update"
}

// bucketCounter is one metric, summed over terms, and the catalog statistic that it follows.
type bucketCounter struct {
	vec    *prometheus.CounterVec
	values []string // of the labels other than topic and partition
	of     func(*bucketer.Stats) int64
}

func newBucketCounters(counter func(name, help string, labels ...string) *prometheus.CounterVec) []bucketCounter {
	opened := counter("buckets_opened_total", "New buckets.")
	closed := counter("buckets_closed_total", "Buckets that take no more measurements, by reason.", "reason")
	archived := counter("buckets_archived_total", "Buckets that were archived and can be reopened, by reason.", "reason")
	reopened := counter("buckets_reopened_total", "Stored buckets that were reopened, by how they were found.", "path")
	lookups := counter("bucket_lookups_total", "Look-ups of stored buckets, by path and whether a bucket was found.", "path", "found")
	writes := counter("bucket_writes_total", "Applied writes, by kind.", "kind")
	tooLarge := counter("bucket_documents_too_large_total", "Writes that would have made a document too large for MongoDB, by kind.", "kind")
	single := func(name, help string, of func(*bucketer.Stats) int64) bucketCounter {
		return bucketCounter{counter(name, help), nil, of}
	}
	return []bucketCounter{
		{writes, []string{"insert"}, func(s *bucketer.Stats) int64 { return s.BucketInserts }},
		{writes, []string{"update"}, func(s *bucketer.Stats) int64 { return s.BucketUpdates }},
		{writes, []string{"segment"}, func(s *bucketer.Stats) int64 { return s.SegmentInserts }},
		single("segment_measurements_total", "Measurements written into segments.",
			func(s *bucketer.Stats) int64 { return s.MeasurementsInSegments }),
		{writes, []string{"close"}, func(s *bucketer.Stats) int64 { return s.Closes }},
		single("bucket_commits_total", "Applied writes that added measurements.",
			func(s *bucketer.Stats) int64 { return s.Commits }),
		single("bucket_measurements_committed_total", "Measurements added by applied writes.",
			func(s *bucketer.Stats) int64 { return s.MeasurementsCommitted }),
		single("buckets_opened_due_to_metadata_total", "New buckets of series that had no open bucket.",
			func(s *bucketer.Stats) int64 { return s.BucketsOpenedDueToMetadata }),
		single("buckets_kept_open_due_to_large_measurements_total", "Buckets above the size limit that stayed open because they have few, large measurements.",
			func(s *bucketer.Stats) int64 { return s.BucketsKeptOpenDueToLargeMeasurements }),
		single("bucket_reopenings_failed_total", "Stored buckets that were found but could not be reopened.",
			func(s *bucketer.Stats) int64 { return s.BucketReopeningsFailed }),
		single("duplicate_buckets_reopened_total", "Stored buckets that were found but were already in memory.",
			func(s *bucketer.Stats) int64 { return s.DuplicateBucketsReopened }),
		single("buckets_cleared_total", "Buckets removed from memory because another writer has written to their series.",
			func(s *bucketer.Stats) int64 { return s.BucketsCleared }),
		{tooLarge, []string{"insert"}, func(s *bucketer.Stats) int64 { return s.BucketDocumentsTooLargeInsert }},
		{tooLarge, []string{"update"}, func(s *bucketer.Stats) int64 { return s.BucketDocumentsTooLargeUpdate }},
		{opened, nil, func(s *bucketer.Stats) int64 { return s.BucketsOpened }},
		{closed, []string{"count"}, func(s *bucketer.Stats) int64 { return s.BucketsClosedDueToCount }},
		{closed, []string{"size"}, func(s *bucketer.Stats) int64 { return s.BucketsClosedDueToSize }},
		{closed, []string{"schema"}, func(s *bucketer.Stats) int64 { return s.BucketsClosedDueToSchemaChange }},
		{closed, []string{"cache"}, func(s *bucketer.Stats) int64 { return s.BucketsClosedDueToCachePressure }},
		{closed, []string{"time_forward"}, func(s *bucketer.Stats) int64 { return s.BucketsClosedDueToTimeForward }},
		{closed, []string{"memory"}, func(s *bucketer.Stats) int64 { return s.BucketsClosedDueToMemoryThreshold }},
		{closed, []string{"reopening"}, func(s *bucketer.Stats) int64 { return s.BucketsClosedDueToReopening }},
		{closed, []string{"delta_cost"}, func(s *bucketer.Stats) int64 { return s.BucketsLeftDueToDeltaCost }},
		{archived, []string{"time_backward"}, func(s *bucketer.Stats) int64 { return s.BucketsArchivedDueToTimeBackward }},
		{archived, []string{"memory"}, func(s *bucketer.Stats) int64 { return s.BucketsArchivedDueToMemoryThreshold }},
		{reopened, []string{"archived"}, func(s *bucketer.Stats) int64 { return s.BucketsReopenedFromArchive }},
		{reopened, []string{"query"}, func(s *bucketer.Stats) int64 { return s.BucketsReopened - s.BucketsReopenedFromArchive }},
		{lookups, []string{"archived", "true"}, func(s *bucketer.Stats) int64 { return s.BucketsFetched }},
		{lookups, []string{"archived", "false"}, func(s *bucketer.Stats) int64 { return s.BucketFetchesFailed }},
		{lookups, []string{"query", "true"}, func(s *bucketer.Stats) int64 { return s.BucketsQueried }},
		{lookups, []string{"query", "false"}, func(s *bucketer.Stats) int64 { return s.BucketQueriesFailed }},
	}
}

// countBuckets adds what the partition's catalog has counted since the statistics before.
func (m *partitionMetrics) countBuckets(before, now *bucketer.Stats) {
	for _, c := range m.buckets {
		if grown := c.of(now) - c.of(before); grown > 0 {
			m.counter(c.vec, c.values...).Add(float64(grown))
		}
	}
}

// Labels of the counters of a partition.
const (
	labelTopic     = "topic"
	labelPartition = "partition"
)

// seriesKept is how long the series of a partition stay after it has gone elsewhere. If a counter vanished at once, the
// increments since its last scrape would be lost.
const seriesKept = 5 * time.Minute

// partitionSeries are the counters of all partitions, as one Collector. It is safe for concurrent use.
type partitionSeries struct {
	vecs []*prometheus.CounterVec

	mu   sync.Mutex
	left map[record.Partition]time.Time // when partitions went elsewhere
}

// counter makes a counter. All counters are made before the first use.
func (s *partitionSeries) counter(name, help string, labels ...string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "waterwheel", Name: name, Help: help},
		append([]string{labelTopic, labelPartition}, labels...))
	s.vecs = append(s.vecs, vec)
	return vec
}

// keep keeps the series of a partition.
func (s *partitionSeries) keep(p record.Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLeft() // series that left long ago begin at zero
	delete(s.left, p)
}

// leave drops the series of a partition after seriesKept.
func (s *partitionSeries) leave(p record.Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == nil {
		s.left = map[record.Partition]time.Time{}
	}
	if _, known := s.left[p]; !known {
		s.left[p] = time.Now()
	}
}

func (s *partitionSeries) dropLeft() {
	for p, since := range s.left {
		if time.Since(since) < seriesKept {
			continue
		}
		delete(s.left, p)
		for _, vec := range s.vecs {
			vec.DeletePartialMatch(labelsOf(p))
		}
	}
}

// Describe implements prometheus.Collector.
func (s *partitionSeries) Describe(to chan<- *prometheus.Desc) {
	for _, vec := range s.vecs {
		vec.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (s *partitionSeries) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	s.dropLeft()
	s.mu.Unlock()
	for _, vec := range s.vecs {
		vec.Collect(to)
	}
}

func labelsOf(p record.Partition) prometheus.Labels {
	return prometheus.Labels{labelTopic: p.Topic, labelPartition: strconv.Itoa(int(p.Number))}
}
