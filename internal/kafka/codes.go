package kafka

import kafkago "github.com/segmentio/kafka-go"

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
	kafkago.OffsetMetadataTooLarge:      {StopPartition, ""},

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
