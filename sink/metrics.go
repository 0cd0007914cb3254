package sink

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"waterwheel/bucketer"
	"waterwheel/internal/timeseries"
)

// Metrics count the requests to MongoDB. One value serves all time series of a process.
type Metrics struct {
	commands *prometheus.HistogramVec // by command
	writes   *prometheus.CounterVec   // by topic, partition, kind and result
	stopped  prometheus.Counter
}

// NewMetrics makes the metrics and registers them. With a nil Registerer they are only counted.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	auto := promauto.With(reg)
	m := &Metrics{
		commands: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "waterwheel_mongodb_command_duration_seconds",
			Help:    "Time from sending a command to MongoDB until its answer, or until the consumer stops waiting for it.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"command"}),
		writes: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "waterwheel_mongodb_write_attempts_total",
			Help: "Attempts to execute a write in MongoDB, by result.",
		}, []string{"topic", "partition", "kind", "result"}),
		stopped: auto.NewCounter(prometheus.CounterOpts{
			Name: "waterwheel_mongodb_writes_stopped_total",
			Help: "Messages that the connection did not send to MongoDB because the lease had expired.",
		}),
	}
	for _, command := range []string{"insert", "update", "find"} {
		m.commands.WithLabelValues(command)
	}
	return m
}

// Stopped counts a command that was stopped inside the connection because the lease had expired.
func (m *Metrics) Stopped() { m.stopped.Inc() }

// begin makes the counters of a partition begin at zero, unless they exist.
func (m *Metrics) begin(of timeseries.Source) {
	for _, kind := range []bucketer.Kind{bucketer.Insert, bucketer.Update} {
		for _, label := range attempts {
			m.attempt(of, kind, label)
		}
	}
}

func (m *Metrics) attempt(of timeseries.Source, kind bucketer.Kind, label string) prometheus.Counter {
	return m.writes.WithLabelValues(of.Topic, strconv.Itoa(int(of.Partition)), kindName(kind), label)
}

// attempts are the labels of the results of an attempt.
var attempts = map[bucketer.Result]string{
	bucketer.Applied: "acked", bucketer.NotExecuted: "not_executed", bucketer.Unknown: "unknown", bucketer.Refused: "refused",
}

func kindName(kind bucketer.Kind) string {
	if kind == bucketer.Insert {
		return "insert"
	}
	return "update"
}

// command notes one command that began at start.
func (m *Metrics) command(name string, start time.Time) {
	m.commands.WithLabelValues(name).Observe(time.Since(start).Seconds())
}

// attempts notes the result of one attempt for each of the writes.
func (m *Metrics) attempts(of timeseries.Source, writes []*bucketer.Write, sent []bucketer.Sent) {
	type label struct {
		kind   bucketer.Kind
		result bucketer.Result
	}
	count := map[label]int{}
	for i := range sent {
		count[label{writes[i].Kind, sent[i].Result}]++
	}
	for l, n := range count {
		m.attempt(of, l.kind, attempts[l.result]).Add(float64(n))
	}
}
