package pipeline

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/internal/record"
)

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
