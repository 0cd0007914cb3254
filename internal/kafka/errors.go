package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// Class is the reaction to an error of Kafka.
type Class int

const (
	// None is the class of nil.
	None Class = iota
	// Retry means try again in place after 100 to 500 ms with jitter, and count. Network errors and timeouts have this class.
	Retry
	// KeepCommit means that the commit may or may not have happened. Send it or a later one at the next tick.
	KeepCommit
	// GenerationOver means that the lease has ended. Write nothing more under this generation and join again.
	GenerationOver
	// LookAtMetadata means that the topic may have been deleted, or deleted and created again. If the metadata show the same id,
	// retry. If they show no topic, wait. If they show another id, start anew.
	LookAtMetadata
	// OutOfRange means that the offset is before the log's start or beyond its end. Ask Bounds and apply the policy.
	OutOfRange
	// StopIfPersists means retry a few times, because a copy may have been damaged on its way, and then stop the partition.
	StopIfPersists
	// StopPartition means stop the partition with an alarm. Other partitions go on.
	StopPartition
	// StopProgram means that a setting is wrong. The error's text names it.
	StopProgram
)

// ErrGenerationOver is the error of a commit whose generation has ended in this process. Nothing was sent.
var ErrGenerationOver = errors.New("the generation of the consumer group has ended")

// Error is a failed request to Kafka. When the broker answered with a code, errors.As finds the kafkago.Error inside.
type Error struct {
	// API is the request's name in Kafka's protocol.
	API string
	// Of is the partition that the error concerns. A negative number means the whole topic. Zero means no partition.
	Of record.Partition
	// Err is the broker's code as a kafkago.Error, or the reason why there is no answer.
	Err error
}

// Error names the request, the partition and the answer, and the advice if there is one.
func (e *Error) Error() string {
	if errors.Is(e.Err, errNoBroker) {
		return e.Err.Error() // the reason is the same for every request
	}
	what := e.API
	switch {
	case e.Of.Topic != "" && e.Of.Number >= 0:
		what += " of " + e.Of.String()
	case e.Of.Topic != "":
		what += " of " + e.Of.Topic
	}
	text := fmt.Sprintf("%s: %v", what, e.Err)
	if e.Err == context.DeadlineExceeded { //nolint:errorlint // a wrapped one has words of its own
		text = what + ": Kafka did not answer in time"
	}
	if code, ok := errors.AsType[kafkago.Error](e.Err); ok && !strings.Contains(text, answerOf(code).advice) {
		text += "; " + answerOf(code).advice
	}
	return text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// settingError is an error that the present settings cannot avoid.
type settingError struct{ error }

// Unwrap gives the cause.
func (e *settingError) Unwrap() error { return e.error }

// Mistake marks err as an error of the settings or of rights. Classify then returns StopProgram, because a retry does not help.
func Mistake(err error) error { return &settingError{err} }

// CodeError makes an error from a code in an answer. It is nil for code 0.
func CodeError(api protocol.ApiKey, of record.Partition, code int16) error {
	if code == 0 {
		return nil
	}
	return NoAnswer(api, of, kafkago.Error(code))
}

// NoAnswer makes an error for a request that got no usable answer.
func NoAnswer(api protocol.ApiKey, of record.Partition, err error) error {
	return &Error{API: wire.Name(api), Of: of, Err: err}
}

// wholeTopic is the Of of an Error that concerns a whole topic.
func wholeTopic(name string) record.Partition { return record.Partition{Topic: name, Number: -1} }

// Classify decides how to react to an error of this package or of kafka-go. An unknown error counts as an outage: it is retried
// and counted, and never a reason to lose anything.
func Classify(err error) Class {
	if err == nil {
		return None
	}
	class := classify(err)
	asked, ok := errors.AsType[*Error](err)
	if class == Retry && ok && asked.API == protocol.OffsetCommit.String() {
		return KeepCommit
	}
	return class
}

func classify(err error) Class {
	if _, ok := errors.AsType[*settingError](err); ok {
		return StopProgram
	}
	if code, ok := errors.AsType[kafkago.Error](err); ok {
		if code == 0 {
			return None
		}
		return answerOf(code).class
	}
	switch {
	case errors.Is(err, ErrGenerationOver):
		return GenerationOver
	case errors.Is(err, recordbatch.ErrCorrupt):
		return StopIfPersists
	case errors.Is(err, recordbatch.ErrUnreadable):
		return StopPartition
	case errors.Is(err, protocol.ErrNoTopic), errors.Is(err, protocol.ErrNoPartition):
		return LookAtMetadata
	default:
		return Retry
	}
}

// answer is the meaning of one of Kafka's error codes.
type answer struct {
	class Class
	// advice tells a person what to do. Empty means that the error passes by itself.
	advice string
}

// answers holds the codes that need another reaction than a retry. Their meaning is that of Kafka's protocol guide
// (https://kafka.apache.org/protocol#protocol_error_codes). Experiments with a broker showed which codes it really returns, and
// when. A code without a row is retried, as the guide's column "retriable" says of outages of brokers, leaders, coordinators,
// replicas and disks. An unknown code is retried too, and is never a reason to lose anything.
var answers = map[kafkago.Error]answer{
	kafkago.OffsetOutOfRange: {OutOfRange, "KAFKA_OUT_OF_RANGE sets where reading continues"},
	kafkago.InvalidMessage:   {StopIfPersists, "if this error persists, the broker's copy of the log is damaged"}, // CORRUPT_MESSAGE

	// The guide calls this code retriable. But the topic may have been deleted, or deleted and created again.
	kafkago.UnknownTopicOrPartition: {LookAtMetadata, "create the topic or correct KAFKA_TOPICS"},
	kafkago.UnknownTopicID:          {LookAtMetadata, ""},
	kafkago.InconsistentTopicID:     {LookAtMetadata, ""},

	kafkago.RebalanceInProgress: {KeepCommit, ""},
	kafkago.IllegalGeneration:   {GenerationOver, ""},
	kafkago.UnknownMemberId:     {GenerationOver, ""},

	kafkago.TopicAuthorizationFailed: {StopPartition, "grant READ and DESCRIBE on the topic to this user"},
	kafkago.GroupAuthorizationFailed: {
		StopPartition,
		"grant this user READ on this consumer group: for run the group KAFKA_GROUP_ID, for `dlq redrive` all groups whose names begin with KAFKA_GROUP_ID.redrive",
	},
	kafkago.ClusterAuthorizationFailed:  {StopPartition, "this user may not make this request to the cluster: grant the right on the resource Cluster"},
	kafkago.UnsupportedForMessageFormat: {StopPartition, ""},
	kafkago.UnsupportedCompressionType:  {StopPartition, ""},
	kafkago.OffsetMetadataTooLarge:      {StopPartition, "set offset.metadata.max.bytes of the brokers to 512 or more"},

	kafkago.FencedInstanceID: {StopProgram, "another process uses the same KAFKA_INSTANCE_ID: give each process a different one"},
	kafkago.InvalidSessionTimeout: {
		StopProgram,
		"set KAFKA_SESSION_TIMEOUT between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
	},
	kafkago.InconsistentGroupProtocol: {StopProgram, "another program uses the consumer group of KAFKA_GROUP_ID: choose another group"},
	kafkago.InvalidGroupId:            {StopProgram, "KAFKA_GROUP_ID is not a group name that Kafka allows"},
	kafkago.InvalidTopic:              {StopProgram, "KAFKA_TOPICS contains a name that Kafka does not allow"},
	kafkago.UnsupportedSASLMechanism:  {StopProgram, "the broker does not offer this KAFKA_SASL_MECHANISM"},
	kafkago.IllegalSASLState:          {StopProgram, "this listener does not accept SASL: check KAFKA_SECURITY and the port in KAFKA_BROKERS"},
	kafkago.SASLAuthenticationFailed: {
		StopProgram,
		"KAFKA_SASL_USERNAME or KAFKA_SASL_PASSWORD is wrong, or this listener needs another KAFKA_SASL_MECHANISM",
	},
	kafkago.UnsupportedVersion: {StopProgram, "the broker in KAFKA_BROKERS is too old: Kafka 3.1 or later is needed"},
}

// answerOf returns the row of a code.
func answerOf(code kafkago.Error) answer {
	if a, known := answers[code]; known {
		return a
	}
	return answer{class: Retry}
}

const (
	retryMin = 100 * time.Millisecond
	retryMax = 500 * time.Millisecond
	// patience is the number of attempts of Patiently, which take some six seconds.
	patience = 20
)

// Pause waits between two attempts, with jitter. It reports whether ctx is still alive.
func Pause(ctx context.Context) bool { return Sleep(ctx, retryMin+rand.N(retryMax-retryMin)) }

// Sleep waits for d and reports whether ctx is still alive. It does not wait if d is not positive.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Patiently repeats a question while a retry may help, because brokers and coordinators are slow at times. Its error is that of
// the last attempt, or the cause of ctx.
func Patiently(ctx context.Context, question func() error) error {
	return patiently(ctx, patience, question)
}

// Answer is Patiently for a question with an answer.
func Answer[A any](ctx context.Context, question func() (A, error)) (answer A, err error) {
	err = Patiently(ctx, func() error {
		answer, err = question()
		return err
	})
	return answer, err
}

func patiently(ctx context.Context, tries int, question func() error) error {
	for try := 1; ; try++ {
		err := question()
		if try == tries || !passes(err) {
			return err
		}
		if !Pause(ctx) {
			return context.Cause(ctx)
		}
	}
}

// passes reports whether a retry may help.
func passes(err error) bool {
	class := Classify(err)
	return class == Retry || class == KeepCommit || class == StopIfPersists
}

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
