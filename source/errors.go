package source

import (
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Class says what to do about an error of Kafka.
type Class int

const (
	// None is the class of nil.
	None Class = iota
	// Retry in place after 50–500 ms with jitter, and count. Network errors and time-outs are of this class.
	Retry
	// KeepCommit means the commit may or may not have happened: send the same or a later one at the next tick.
	KeepCommit
	// GenerationOver ends the lease: write nothing more under this generation and join again.
	GenerationOver
	// LookAtMetadata means the topic may have been deleted, or deleted and created again: the same id means retry,
	// no topic wait, another id a new start.
	LookAtMetadata
	// OutOfRange means the offset is before the log's start or beyond its end: ask Bounds and apply the policy.
	OutOfRange
	// StopIfPersists is retried a few times, for a copy may be damaged on its way, and then stops the partition.
	StopIfPersists
	// StopPartition stops the partition with an alarm; others go on.
	StopPartition
	// StopProgram means a setting is wrong: the error's text names it.
	StopProgram
)

var (
	// ErrCorrupt is a record batch whose checksum or structure is wrong.
	ErrCorrupt = errors.New("corrupt record batch")
	// ErrUnreadable is a record batch that will never be readable here: of an old format, an unknown codec, or too large.
	ErrUnreadable = errors.New("unreadable record batch")
)

// Error is a request to Kafka that did not go well. errors.As finds the kafka.Error inside when it was the broker's answer.
type Error struct {
	// API is the request's name in Kafka's protocol.
	API string
	// Topic is empty when the answer concerns no topic.
	Topic string
	// Partition is negative when the answer concerns no partition.
	Partition int32
	// Err is the broker's code as a kafka.Error, or why there is no answer.
	Err error
}

// Error says what was asked of what, what was answered, and what to do where a person has to.
func (e *Error) Error() string {
	what := e.API
	switch {
	case e.Topic != "" && e.Partition >= 0:
		what = fmt.Sprintf("%s of %s/%d", e.API, e.Topic, e.Partition)
	case e.Topic != "":
		what = fmt.Sprintf("%s of %s", e.API, e.Topic)
	}
	text := fmt.Sprintf("%s: %v", what, e.Err)
	if code, ok := errors.AsType[kafka.Error](e.Err); ok && advice(code) != "" {
		text += "; " + advice(code)
	}
	return text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// settingError is something that cannot work with the settings as they are.
type settingError struct{ error }

// Unwrap gives the cause.
func (e *settingError) Unwrap() error { return e.error }

// answered makes an error of a code in an answer, nil for 0.
func answered(api protocol.ApiKey, topic string, partition int32, code int16) error {
	if code == 0 {
		return nil
	}
	return &Error{API: api.String(), Topic: topic, Partition: partition, Err: kafka.Error(code)}
}

// unanswered makes an error of a request without an answer.
func unanswered(api protocol.ApiKey, topic string, partition int32, err error) error {
	return &Error{API: api.String(), Topic: topic, Partition: partition, Err: err}
}

// Classify says what to do about an error of this package or of kafka-go. Whatever is not known to be otherwise is an
// outage: retried, counted, and never a reason to lose anything.
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
	if code, ok := errors.AsType[kafka.Error](err); ok {
		return classOf(code)
	}
	switch {
	case errors.Is(err, ErrGenerationOver):
		return GenerationOver
	case errors.Is(err, ErrCorrupt):
		return StopIfPersists
	case errors.Is(err, ErrUnreadable):
		return StopPartition
	case errors.Is(err, protocol.ErrNoTopic), errors.Is(err, protocol.ErrNoPartition):
		return LookAtMetadata
	default:
		return Retry
	}
}

// classOf is the table of Kafka's codes.
func classOf(code kafka.Error) Class {
	switch code {
	case 0:
		return None
	case kafka.OffsetOutOfRange:
		return OutOfRange
	case kafka.InvalidMessage:
		return StopIfPersists
	case kafka.UnknownTopicOrPartition, kafka.UnknownTopicID, kafka.InconsistentTopicID:
		return LookAtMetadata
	case kafka.RebalanceInProgress:
		return KeepCommit
	case kafka.IllegalGeneration, kafka.UnknownMemberId:
		return GenerationOver
	case kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed,
		kafka.UnsupportedForMessageFormat, kafka.UnsupportedCompressionType, kafka.OffsetMetadataTooLarge:
		return StopPartition
	case kafka.FencedInstanceID, kafka.InvalidSessionTimeout, kafka.InconsistentGroupProtocol, kafka.InvalidGroupId,
		kafka.InvalidTopic, kafka.UnsupportedSASLMechanism, kafka.IllegalSASLState, kafka.UnsupportedVersion,
		kafka.SASLAuthenticationFailed:
		return StopProgram
	default:
		return Retry
	}
}

// advice is what a person can do about a code, empty for those that pass by themselves.
func advice(code kafka.Error) string {
	switch code {
	case kafka.UnknownTopicOrPartition:
		return "create the topic or correct KAFKA_TOPICS"
	case kafka.InvalidTopic:
		return "KAFKA_TOPICS holds a name that Kafka does not allow"
	case kafka.OffsetOutOfRange:
		return "KAFKA_OUT_OF_RANGE says where to go on"
	case kafka.InvalidMessage:
		return "if it persists, the broker's copy of the log is damaged"
	case kafka.TopicAuthorizationFailed:
		return "grant READ and DESCRIBE on the topic to this user"
	case kafka.GroupAuthorizationFailed:
		return "grant READ on the group KAFKA_GROUP_ID to this user"
	case kafka.ClusterAuthorizationFailed:
		return "this user may not do that on the cluster"
	case kafka.FencedInstanceID:
		return "another process uses this KAFKA_INSTANCE_ID: give each its own"
	case kafka.InvalidSessionTimeout:
		return "KAFKA_SESSION_TIMEOUT is outside the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"
	case kafka.InconsistentGroupProtocol:
		return "KAFKA_GROUP_ID is used by another program: choose another"
	case kafka.InvalidGroupId:
		return "KAFKA_GROUP_ID is not a group name that Kafka allows"
	case kafka.UnsupportedSASLMechanism:
		return "the broker does not offer this KAFKA_SASL_MECHANISM"
	case kafka.IllegalSASLState:
		return "this listener does not take SASL: look at KAFKA_SECURITY and the port in KAFKA_BROKERS"
	case kafka.SASLAuthenticationFailed:
		return "KAFKA_SASL_USERNAME or KAFKA_SASL_PASSWORD is wrong, or this listener wants another KAFKA_SASL_MECHANISM"
	case kafka.UnsupportedVersion:
		return "the broker in KAFKA_BROKERS is too old: Kafka 3.1 or later is needed"
	default:
		return ""
	}
}
