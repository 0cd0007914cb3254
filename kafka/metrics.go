package kafka

import (
	"errors"
	"net"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/kafka/recordbatch"
)

// Metrics is what a client counts: what goes wrong while fetching.
type Metrics struct {
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
var fetchCodes = []kafkago.Error{
	kafkago.Unknown, kafkago.OffsetOutOfRange, kafkago.InvalidMessage, kafkago.UnknownTopicOrPartition, kafkago.LeaderNotAvailable,
	kafkago.NotLeaderForPartition, kafkago.RequestTimedOut, kafkago.BrokerNotAvailable, kafkago.ReplicaNotAvailable, kafkago.NetworkException,
	kafkago.TopicAuthorizationFailed, kafkago.UnsupportedVersion, kafkago.UnsupportedForMessageFormat, kafkago.KafkaStorageError,
	kafkago.FencedLeaderEpoch, kafkago.UnknownLeaderEpoch, kafkago.UnsupportedCompressionType, kafkago.OffsetNotAvailable, kafkago.UnknownTopicID,
	kafkago.InconsistentTopicID,
}

// NewMetrics registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{errors: promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "waterwheel_fetch_errors_total",
		Help: "Fetches that brought nothing, by Kafka's error code or what else was wrong.",
	}, []string{"code"})}
	for _, label := range []string{codeNetwork, codeTimeout, codeNoLeader, codeCorrupt, codeUnreadable, codeOther} {
		m.errors.WithLabelValues(label)
	}
	for _, code := range fetchCodes {
		m.errors.WithLabelValues(strconv.Itoa(int(code)))
	}
	return m
}

// count adds a failed fetch, and nothing for nil.
func (m *Metrics) count(err error) {
	if err != nil {
		m.errors.WithLabelValues(fetchErrorLabel(err)).Inc()
	}
}

func fetchErrorLabel(err error) string {
	if code, ok := errors.AsType[kafkago.Error](err); ok {
		if slices.Contains(fetchCodes, code) {
			return strconv.Itoa(int(code))
		}
		return codeOther
	}
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, protocol.ErrNoTopic), errors.Is(err, protocol.ErrNoPartition), errors.Is(err, protocol.ErrNoLeader):
		return codeNoLeader
	case errors.Is(err, recordbatch.ErrCorrupt):
		return codeCorrupt
	case errors.Is(err, recordbatch.ErrUnreadable):
		return codeUnreadable
	case isNet && timeout.Timeout():
		return codeTimeout
	default:
		return codeNetwork
	}
}
