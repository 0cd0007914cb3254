package schemas

import "github.com/prometheus/client_golang/prometheus"

// Metrics count the requests to a registry.
type Metrics struct {
	requests *prometheus.CounterVec
	cached   prometheus.Gauge
}

// The results of a request.
const (
	found    = "found"
	notFound = "not_found"
	failed   = "failed"
)

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waterwheel_schema_requests_total", Help: "Requests to the schema registry, by result.",
		}, []string{"result"}),
		cached: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waterwheel_schemas_cached", Help: "Schemas in memory, which are not requested again.",
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

// keeps sets the number of cached schemas. A nil Metrics does nothing.
func (m *Metrics) keeps(n int) {
	if m != nil {
		m.cached.Set(float64(n))
	}
}
