package schemas

import "github.com/prometheus/client_golang/prometheus"

// Metrics count what a registry is asked.
type Metrics struct {
	requests *prometheus.CounterVec
	cached   prometheus.Gauge
}

// What became of a request.
const (
	found    = "found"
	notFound = "not_found"
	failed   = "failed"
)

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waterwheel_schema_requests_total", Help: "Requests to the schema registry, by what became of them.",
		}, []string{"result"}),
		cached: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waterwheel_schemas_cached", Help: "Schemas that are kept in memory.",
		}),
	}
	for _, result := range []string{found, notFound, failed} {
		m.requests.WithLabelValues(result)
	}
	reg.MustRegister(m.requests, m.cached)
	return m
}

// asked counts a request. A nil Metrics counts nothing.
func (m *Metrics) asked(a answer, err error) {
	if m == nil {
		return
	}
	result := found
	switch {
	case err != nil:
		result = failed
	case a.Code != 0:
		result = notFound
	}
	m.requests.WithLabelValues(result).Inc()
}

// keeps shows how many schemas are kept.
func (m *Metrics) keeps(n int) {
	if m != nil {
		m.cached.Set(float64(n))
	}
}
