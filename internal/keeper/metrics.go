package keeper

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what keepers do.
type Metrics struct {
	passes   *prometheus.CounterVec
	stored   *prometheus.CounterVec
	frozen   prometheus.Counter
	seconds  prometheus.Counter
	interval prometheus.Gauge
	mu       sync.Mutex
	complete time.Time // the oldest time at which the rows of a partition were complete. Zero means that there are no partitions.
}

// NewMetrics returns new metrics. If reg is nil, they are not registered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waterwheel_rollup_passes_total", Help: "Passes that bring the rollups of a partition up to date, by outcome.",
		}, []string{"outcome"}),
		stored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waterwheel_rollup_rows_total", Help: "Rollup rows written.",
		}, []string{"level"}),
		frozen: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waterwheel_rollup_frozen_total", Help: "Late measurements that are in no rollup, because their hours have expired, or because measurements of those hours were deleted.",
		}),
		seconds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waterwheel_rollup_work_seconds_total", Help: "Time spent on rollups, without pauses.",
		}),
		interval: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waterwheel_rollup_interval_seconds", Help: "The setting ROLLUP_INTERVAL, the time between two passes over a partition.",
		}),
	}
	if reg == nil {
		return m
	}
	for _, outcome := range []string{passDone, passFailed} {
		m.passes.WithLabelValues(outcome)
	}
	behind := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waterwheel_rollup_behind_seconds", Help: "Time since the rollups of the most delayed partition were complete.",
	}, m.behind)
	reg.MustRegister(m.passes, m.stored, m.frozen, m.seconds, m.interval, behind)
	return m
}

// Outcomes of a pass.
const (
	passDone   = "done"
	passFailed = "failed"
)

func (m *Metrics) rows(level string, n int) { m.stored.WithLabelValues(level).Add(float64(n)) }

func (m *Metrics) behind() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.complete.IsZero() {
		return 0
	}
	return max(0, time.Since(m.complete).Seconds())
}

func (m *Metrics) setComplete(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.complete = at
}
