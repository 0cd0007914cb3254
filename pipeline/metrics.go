package pipeline

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/bucketer"
	"waterwheel/measurement"
	"waterwheel/record"
)

// Metrics counts what the workers of a process do. What they are like now is told by their Status.
type Metrics struct {
	records, letters, skips, flushes, writes, claims, retries, settlings *prometheus.CounterVec
	stored, expirations, abandons, unreadable, measurementsSettled       prometheus.Counter
	flushSeconds, flushMeasurements, perWrite, settlingSeconds           prometheus.Histogram
	buckets                                                              []bucketCounter
	totals                                                               struct{ stored, letters atomic.Int64 }
}

// Totals are what a process has done since its start.
type Totals struct{ Stored, Letters int64 }

// Totals are what the metrics have counted so far.
func (m *Metrics) Totals() Totals {
	return Totals{Stored: m.totals.stored.Load(), Letters: m.totals.letters.Load()}
}

// NewMetrics registers the metrics of the pipeline. Each counter exists at zero from the start.
func NewMetrics(reg prometheus.Registerer, topics []string) *Metrics {
	r := registry{reg}
	m := &Metrics{
		records:             r.counter("records_read_total", "Records read from Kafka.", "topic", "partition"),
		letters:             r.counter("letters_total", "Letters acknowledged by the dead-letter topic.", "topic", "reason"),
		skips:               r.counter("measurements_skipped_total", "Measurements not stored again, and tombstones.", "reason"),
		flushes:             r.counter("flush_total", "Flushes, by what caused them.", "trigger"),
		writes:              r.counter("writes_total", "Bucket writes, by what became of them.", "kind", "outcome"),
		claims:              r.counter("claims_total", "Claims on partitions.", "outcome"),
		retries:             r.counter("retries_total", "Attempts that failed and are repeated.", "doing"),
		stored:              r.counter("measurements_stored_total", "Measurements that became durable.").WithLabelValues(),
		expirations:         r.counter("records_expired_total", "Records that retention deleted before they were read.").WithLabelValues(),
		unreadable:          r.counter("unreadable_batches_skipped_total", "Record batches that KAFKA_SKIP_CORRUPT skipped.").WithLabelValues(),
		settlings:           r.counter("settlings_total", "Settlings of segments into buckets, by what became of them.", "outcome"),
		measurementsSettled: r.counter("measurements_settled_total", "Measurements settled from segments into buckets.").WithLabelValues(),
		settlingSeconds: r.histogram("settling_duration_seconds", "From the reading of segments until they have ended.",
			prometheus.ExponentialBuckets(0.01, 2, 14)),
		abandons: r.counter("flushes_abandoned_total", "Flushes given up at the end of a tenure.").WithLabelValues(),
		flushSeconds: r.histogram("flush_duration_seconds", "From the cut of a flush until all of it is resolved.",
			prometheus.ExponentialBuckets(0.001, 2, 17)),
		flushMeasurements: r.histogram("flush_measurements", "Measurements in a flush.", prometheus.ExponentialBuckets(1, 4, 12)),
		perWrite:          r.histogram("measurements_per_write", "Measurements added by one bucket write.", prometheus.ExponentialBuckets(1, 2, 11)),
		buckets:           newBucketCounters(r),
	}
	for _, topic := range topics {
		for _, reason := range measurement.Reasons() {
			m.letters.WithLabelValues(topic, string(reason))
		}
	}
	zero(m.skips, "replayed", "tombstone")
	zero(m.flushes, "interval", "bytes", "count", "memory", "caught_up", "dense", "rest", "revoke", "shutdown")
	zero(m.settlings, "finished", "undone")
	zero(m.claims, "cold", "warm", "lost", "refused")
	for d := range doings {
		m.retries.WithLabelValues(d.String())
	}
	for _, kind := range []string{"insert", "update", "segment"} {
		for _, outcome := range []string{"applied", "reconciled", "conflict", "retried", "refused"} {
			m.writes.WithLabelValues(kind, outcome)
		}
	}
	return m
}

func zero(vec *prometheus.CounterVec, values ...string) {
	for _, v := range values {
		vec.WithLabelValues(v)
	}
}

// registry makes and registers metrics under the program's prefix.
type registry struct{ prometheus.Registerer }

func (r registry) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "waterwheel", Name: name, Help: help}, labels)
	r.MustRegister(c)
	return c
}

func (r registry) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "waterwheel", Name: name, Help: help, Buckets: buckets})
	r.MustRegister(h)
	return h
}

func (m *Metrics) read(p record.Partition, records int) {
	if records > 0 { // a partition of which nothing was read has no series
		m.records.WithLabelValues(p.Topic, strconv.Itoa(int(p.Number))).Add(float64(records))
	}
}

// forget takes the partition's series away.
func (m *Metrics) forget(p record.Partition) {
	m.records.DeleteLabelValues(p.Topic, strconv.Itoa(int(p.Number)))
}

func (m *Metrics) skipped(reason string) { m.skips.WithLabelValues(reason).Inc() }

func (m *Metrics) letter(topic, reason string) {
	m.letters.WithLabelValues(topic, reason).Inc()
	m.totals.letters.Add(1)
}

func (m *Metrics) claim(outcome string) { m.claims.WithLabelValues(outcome).Inc() }

func (m *Metrics) failed(trying doing) { m.retries.WithLabelValues(trying.String()).Inc() }

func (m *Metrics) flushCut(trigger string, f *bucketer.Flush) {
	m.flushes.WithLabelValues(trigger).Inc()
	m.flushMeasurements.Observe(float64(f.Measurements))
}

// write counts a write that is done.
func (m *Metrics) write(w *bucketer.Write, result bucketer.Result, resolved bool) {
	outcome := "applied"
	switch {
	case result == bucketer.Conflicted:
		outcome = "conflict"
	case result == bucketer.Refused:
		outcome = "refused"
	case resolved:
		outcome = "reconciled"
	}
	m.writes.WithLabelValues(kind(w), outcome).Inc()
	if result <= bucketer.AppliedForget {
		m.stored.Add(float64(w.Added))
		m.totals.stored.Add(int64(w.Added))
		m.perWrite.Observe(float64(w.Added))
	}
}

func (m *Metrics) retried(w *bucketer.Write) { m.writes.WithLabelValues(kind(w), "retried").Inc() }

// settled counts a settling that is finished.
func (m *Metrics) settled(measurements int, took Instant) {
	m.settlings.WithLabelValues("finished").Inc()
	m.measurementsSettled.Add(float64(measurements))
	m.settlingSeconds.Observe(took.Seconds())
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
