package group

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"waterwheel/internal/record"
)

// The kinds of rebalances_total: why a generation ended.
const (
	kindRebalance = "rebalance" // the coordinator asked for one
	kindTopics    = "topics"    // a topic grew, appeared or was created again
	kindLost      = "lost"      // the coordinator went on without this member
	kindShutdown  = "shutdown"  // this process left
)

// The requests of group_retries_total.
const (
	requestJoin      = "join"
	requestSync      = "sync"
	requestHeartbeat = "heartbeat"
	requestTopics    = "topics"
	requestLeave     = "leave"
)

// The outcomes of commits_total, one for each request.
const (
	outcomeCommitted  = "committed"
	outcomeRefused    = "refused"    // for at least one partition
	outcomeUnanswered = "unanswered" // the commit may have been executed
	outcomeOver       = "generation_over"
)

// metrics are the metrics of the membership.
type metrics struct {
	rebalances *prometheus.CounterVec
	commits    *prometheus.CounterVec
	assigned   prometheus.Gauge
	lapsed     prometheus.Counter
	retries    *prometheus.CounterVec
	refused    prometheus.Counter
	ignored    *prometheus.CounterVec
	since      atomic.Int64 // when the generation began, in nanoseconds on the clock of now; negative while there is none
}

// newMetrics registers the metrics. Counters exist at zero from the start, except those of partitions.
func newMetrics(registerer prometheus.Registerer, now func() time.Duration) *metrics {
	factory := promauto.With(registerer)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help, label string, values ...string) *prometheus.CounterVec {
		vec := factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		for _, v := range values {
			vec.WithLabelValues(v)
		}
		return vec
	}
	m := &metrics{
		rebalances: counters("waterwheel_rebalances_total", "Generations of the group that ended for this member, by cause.",
			"kind", kindRebalance, kindTopics, kindLost, kindShutdown),
		commits: counters("waterwheel_commits_total", "Requests to commit offsets, by outcome.",
			"outcome", outcomeCommitted, outcomeRefused, outcomeUnanswered, outcomeOver),
		retries: counters("waterwheel_group_retries_total",
			"Requests about the group membership that are sent again, after no answer or a temporary error.",
			"request", requestJoin, requestSync, requestHeartbeat, requestTopics, requestLeave),
		lapsed: counter("waterwheel_lease_lapsed_seconds_total",
			"Time in which partitions were assigned but nothing could be written, because the lease had expired."),
		refused: counter("waterwheel_assignments_refused_total",
			"Assignments that this consumer refused because another program is a member of the group."),
		ignored: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "waterwheel_partitions_ignored_total",
			Help: "Assigned partitions that are not read because their topic is not in KAFKA_TOPICS.",
		}, []string{"topic", "partition"}),
		assigned: factory.NewGauge(prometheus.GaugeOpts{Name: "waterwheel_assigned_partitions", Help: "Partitions assigned to this consumer."}),
	}
	m.since.Store(-1)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waterwheel_generation_seconds",
		Help: "How long this member has been in the current generation of the group, 0 while it is in none.",
	}, func() float64 {
		if since := m.since.Load(); since >= 0 {
			return (now() - time.Duration(since)).Seconds()
		}
		return 0
	})
	return m
}

func (m *metrics) countCommit(results []error, err error) {
	outcome := outcomeCommitted
	switch {
	case endingAnswer(results, err) != nil:
		outcome = outcomeOver
	case err != nil:
		outcome = outcomeUnanswered
	case slices.ContainsFunc(results, func(result error) bool { return result != nil }):
		outcome = outcomeRefused
	}
	m.commits.WithLabelValues(outcome).Inc()
}

// ignore counts an assigned partition that this member does not read.
func (m *metrics) ignore(p record.Partition) {
	m.ignored.WithLabelValues(p.Topic, strconv.Itoa(int(p.Number))).Inc()
}

func (m *metrics) began(at time.Duration, partitions int) {
	m.since.Store(int64(at))
	m.assigned.Set(float64(partitions))
}

func (m *metrics) ended(kind string) {
	m.since.Store(-1)
	m.assigned.Set(0)
	m.rebalances.WithLabelValues(kind).Inc()
}
