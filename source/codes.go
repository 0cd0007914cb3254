package source

import (
	"slices"

	"github.com/segmentio/kafka-go"
)

// answer is one of Kafka's codes.
type answer struct {
	code  kafka.Error
	class Class
	// advice is what a person can do about it, empty where it passes by itself.
	advice string
}

// answers are the codes that something is known of. Their meaning is that of the table of error codes in Kafka's protocol
// guide (https://kafka.apache.org/protocol#protocol_error_codes), whose column "retriable" is the
// class Retry unless said otherwise; what a broker really answers, and when, was tried on one. A code without a row is
// retried: what is not known is an outage, and never a reason to lose anything.
var answers = []answer{
	{kafka.OffsetOutOfRange, OutOfRange, "KAFKA_OUT_OF_RANGE says where to go on"},
	{kafka.InvalidMessage, StopIfPersists, "if it persists, the broker's copy of the log is damaged"}, // CORRUPT_MESSAGE

	// Retriable after the guide; but a topic that is not there may have been deleted, and created again.
	{kafka.UnknownTopicOrPartition, LookAtMetadata, "create the topic or correct KAFKA_TOPICS"},
	{kafka.UnknownTopicID, LookAtMetadata, ""},
	{kafka.InconsistentTopicID, LookAtMetadata, ""},

	{kafka.RebalanceInProgress, KeepCommit, ""},
	{kafka.IllegalGeneration, GenerationOver, ""},
	{kafka.UnknownMemberId, GenerationOver, ""},

	{kafka.TopicAuthorizationFailed, StopPartition, "grant READ and DESCRIBE on the topic to this user"},
	{
		kafka.GroupAuthorizationFailed, StopPartition,
		"grant READ on this group to this user: on KAFKA_GROUP_ID, for re-drives on all that begin with KAFKA_GROUP_ID.redrive",
	},
	{kafka.ClusterAuthorizationFailed, StopPartition, "this user may not do that on the cluster"},
	{kafka.UnsupportedForMessageFormat, StopPartition, ""},
	{kafka.UnsupportedCompressionType, StopPartition, ""},
	{kafka.OffsetMetadataTooLarge, StopPartition, ""},

	{kafka.FencedInstanceID, StopProgram, "another process uses this KAFKA_INSTANCE_ID: give each its own"},
	{
		kafka.InvalidSessionTimeout, StopProgram,
		"KAFKA_SESSION_TIMEOUT is outside the broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
	},
	{kafka.InconsistentGroupProtocol, StopProgram, "KAFKA_GROUP_ID is used by another program: choose another"},
	{kafka.InvalidGroupId, StopProgram, "KAFKA_GROUP_ID is not a group name that Kafka allows"},
	{kafka.InvalidTopic, StopProgram, "KAFKA_TOPICS holds a name that Kafka does not allow"},
	{kafka.UnsupportedSASLMechanism, StopProgram, "the broker does not offer this KAFKA_SASL_MECHANISM"},
	{kafka.IllegalSASLState, StopProgram, "this listener does not take SASL: look at KAFKA_SECURITY and the port in KAFKA_BROKERS"},
	{
		kafka.SASLAuthenticationFailed, StopProgram,
		"KAFKA_SASL_USERNAME or KAFKA_SASL_PASSWORD is wrong, or this listener wants another KAFKA_SASL_MECHANISM",
	},
	{kafka.UnsupportedVersion, StopProgram, "the broker in KAFKA_BROKERS is too old: Kafka 3.1 or later is needed"},

	{kafka.Unknown, Retry, ""}, // UNKNOWN_SERVER_ERROR: not retriable after the guide, but nobody knows what it was
	{kafka.LeaderNotAvailable, Retry, ""},
	{kafka.NotLeaderForPartition, Retry, ""},
	{kafka.RequestTimedOut, Retry, ""},
	{kafka.BrokerNotAvailable, Retry, ""}, // lasting after the guide, but brokers come back
	{kafka.ReplicaNotAvailable, Retry, ""},
	{kafka.NetworkException, Retry, ""},
	{kafka.GroupLoadInProgress, Retry, ""},          // COORDINATOR_LOAD_IN_PROGRESS
	{kafka.GroupCoordinatorNotAvailable, Retry, ""}, // COORDINATOR_NOT_AVAILABLE
	{kafka.NotCoordinatorForGroup, Retry, ""},       // NOT_COORDINATOR
	{kafka.NotEnoughReplicas, Retry, ""},
	{kafka.NotEnoughReplicasAfterAppend, Retry, ""},
	{kafka.KafkaStorageError, Retry, ""},
	{kafka.FencedLeaderEpoch, Retry, ""},
	{kafka.UnknownLeaderEpoch, Retry, ""},
	{kafka.OffsetNotAvailable, Retry, ""},
}

// answerOf is the row of a code.
func answerOf(code kafka.Error) answer {
	if i := slices.IndexFunc(answers, func(a answer) bool { return a.code == code }); i >= 0 {
		return answers[i]
	}
	return answer{code: code, class: Retry}
}
