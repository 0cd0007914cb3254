package source

import (
	"errors"
	"net"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// fetchMetrics counts what goes wrong while fetching.
type fetchMetrics struct {
	errors *prometheus.CounterVec
}

// The labels of errors that are no code of Kafka.
const (
	codeNetwork    = "network"
	codeTimeout    = "timeout"
	codeNoLeader   = "no_leader" // not known, not there, or not elected at the moment
	codeCorrupt    = "corrupt"
	codeUnreadable = "unreadable"
	codeOther      = "other" // any code of Kafka that a fetch is not known to answer
)

// fetchCodes are Kafka's codes that a fetch may be answered with.
func fetchCodes() []kafka.Error {
	return []kafka.Error{
		kafka.Unknown, kafka.OffsetOutOfRange, kafka.InvalidMessage, kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable,
		kafka.NotLeaderForPartition, kafka.RequestTimedOut, kafka.BrokerNotAvailable, kafka.ReplicaNotAvailable, kafka.NetworkException,
		kafka.TopicAuthorizationFailed, kafka.UnsupportedVersion, kafka.UnsupportedForMessageFormat, kafka.KafkaStorageError,
		kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch, kafka.UnsupportedCompressionType, kafka.OffsetNotAvailable, kafka.UnknownTopicID,
		kafka.InconsistentTopicID,
	}
}

func newFetchMetrics(registerer prometheus.Registerer) *fetchMetrics {
	m := &fetchMetrics{errors: promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "waterwheel_fetch_errors_total",
		Help: "Fetches that brought nothing, by Kafka's error code or what else was wrong.",
	}, []string{"code"})}
	for _, label := range []string{codeNetwork, codeTimeout, codeNoLeader, codeCorrupt, codeUnreadable, codeOther} {
		m.errors.WithLabelValues(label)
	}
	for _, code := range fetchCodes() {
		m.errors.WithLabelValues(strconv.Itoa(int(code)))
	}
	return m
}

// count adds a failed fetch, and nothing for nil.
func (m *fetchMetrics) count(err error) {
	if err != nil {
		m.errors.WithLabelValues(fetchErrorLabel(err)).Inc()
	}
}

func fetchErrorLabel(err error) string {
	if code, ok := errors.AsType[kafka.Error](err); ok {
		if slices.Contains(fetchCodes(), code) {
			return strconv.Itoa(int(code))
		}
		return codeOther
	}
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, protocol.ErrNoTopic), errors.Is(err, protocol.ErrNoPartition), errors.Is(err, protocol.ErrNoLeader):
		return codeNoLeader
	case errors.Is(err, ErrCorrupt):
		return codeCorrupt
	case errors.Is(err, ErrUnreadable):
		return codeUnreadable
	case isNet && timeout.Timeout():
		return codeTimeout
	default:
		return codeNetwork
	}
}
