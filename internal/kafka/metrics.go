package kafka

import (
	"errors"
	"net"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

// Metrics counts failed fetches.
type Metrics struct {
	errors *prometheus.CounterVec
}

// The labels of errors that are no Kafka code.
const (
	codeNetwork    = "network"
	codeTimeout    = "timeout"
	codeNoLeader   = "no_leader" // the leader is not known or not elected at the moment
	codeCorrupt    = "corrupt"
	codeUnreadable = "unreadable"
	codeOther      = "other" // a Kafka code that is not in fetchCodes
)

// fetchCodes holds the error codes of fetches, with their names of Kafka's protocol guide.
var fetchCodes = map[kafkago.Error]string{
	kafkago.Unknown:                     "UNKNOWN_SERVER_ERROR",
	kafkago.OffsetOutOfRange:            "OFFSET_OUT_OF_RANGE",
	kafkago.InvalidMessage:              "CORRUPT_MESSAGE",
	kafkago.UnknownTopicOrPartition:     "UNKNOWN_TOPIC_OR_PARTITION",
	kafkago.LeaderNotAvailable:          "LEADER_NOT_AVAILABLE",
	kafkago.NotLeaderForPartition:       "NOT_LEADER_OR_FOLLOWER",
	kafkago.RequestTimedOut:             "REQUEST_TIMED_OUT",
	kafkago.BrokerNotAvailable:          "BROKER_NOT_AVAILABLE",
	kafkago.ReplicaNotAvailable:         "REPLICA_NOT_AVAILABLE",
	kafkago.NetworkException:            "NETWORK_EXCEPTION",
	kafkago.TopicAuthorizationFailed:    "TOPIC_AUTHORIZATION_FAILED",
	kafkago.UnsupportedVersion:          "UNSUPPORTED_VERSION",
	kafkago.UnsupportedForMessageFormat: "UNSUPPORTED_FOR_MESSAGE_FORMAT",
	kafkago.KafkaStorageError:           "KAFKA_STORAGE_ERROR",
	kafkago.FencedLeaderEpoch:           "FENCED_LEADER_EPOCH",
	kafkago.UnknownLeaderEpoch:          "UNKNOWN_LEADER_EPOCH",
	kafkago.UnsupportedCompressionType:  "UNSUPPORTED_COMPRESSION_TYPE",
	kafkago.OffsetNotAvailable:          "OFFSET_NOT_AVAILABLE",
	kafkago.UnknownTopicID:              "UNKNOWN_TOPIC_ID",
	kafkago.InconsistentTopicID:         "INCONSISTENT_TOPIC_ID",
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	return &Metrics{errors: promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "waterwheel_fetch_errors_total",
		Help: "Failed fetches, by error code.",
	}, []string{"topic", "partition", "code"})}
}

// count adds a failed fetch of a partition. It does nothing when err is nil.
func (m *Metrics) count(of record.Partition, err error) {
	if err != nil {
		m.errors.WithLabelValues(of.Topic, strconv.Itoa(int(of.Number)), fetchErrorLabel(err)).Inc()
	}
}

func fetchErrorLabel(err error) string {
	if code, ok := errors.AsType[kafkago.Error](err); ok {
		if name, known := fetchCodes[code]; known {
			return name
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
