package mongodb

import "slices"

// Class says what one of MongoDB's codes tells of the request that it answers.
type Class uint8

const (
	// Passing: it may have been executed, or may be later, and the cause passes by itself. It is the class of every code
	// that has no row below: an unknown code is never taken for a refusal.
	Passing Class = iota
	// NotPrimary: the server is no primary, and looked at none of the command's documents. It may be sent again.
	NotPrimary
	// BadContent: this document will never be taken. Alone in its bucket, a measurement becomes a letter.
	BadContent
	// TooLarge: the bucket grew over what a document may hold. Taken apart like a bad one, its measurements find room in
	// other buckets; only one too large by itself becomes a letter.
	TooLarge
	// Refused: it will be refused until an operator changes a privilege, a setting or the server, whatever the document holds.
	// An outage: nothing becomes a letter.
	Refused
)

// answer is one of MongoDB's codes.
type answer struct {
	code  int32
	name  string
	class Class
}

// answers are the codes that something is known of. Names and numbers, where nothing else is said, are those of
// src/mongo/base/error_codes.yml in MongoDB's sources, which also reports whether a code is an interruption, a shutdown, a
// stale route or an overload: those leave open what was executed. Which codes blame a document was tried on a server.
var answers = []answer{
	// Not looked at: error_codes.yml, and "not primary" in the specification of server discovery and monitoring. 189, 11602
	// and 13436 are of that family too, but may come after the work began.
	{10058, "LegacyNotPrimary", NotPrimary},
	{10107, "NotWritablePrimary", NotPrimary},
	{13435, "NotPrimaryNoSecondaryOk", NotPrimary},

	{2, "BadValue", BadContent},
	{9, "FailedToParse", BadContent},
	{14, "TypeMismatch", BadContent},
	{28, "PathNotViable", BadContent},
	{52, "DollarPrefixedFieldName", BadContent},
	{56, "EmptyFieldName", BadContent},
	{57, "DottedFieldName", BadContent},
	{121, "DocumentValidationFailure", BadContent}, // "only for the document validator on collections"

	// An index of the collection's users cannot take the document: the list of such errors in
	// src/mongo/db/index/index_access_method.cpp.
	{171, "CannotIndexParallelArrays", BadContent},
	{201, "CannotBuildIndexKeys", BadContent},
	{13026, "a geo value is no number", BadContent}, // 2d, as the next three and 16804
	{13027, "a point is not in the interval", BadContent},
	{13067, "a geo field is empty", BadContent},
	{13068, "a geo field has one element", BadContent},
	{16675, "a weight is too small", BadContent}, // text, as 16732, 16733, 17261 and 17262
	{16732, "too many terms", BadContent},
	{16733, "a term is too long", BadContent},
	{16746, "an ambiguous field name in an array", BadContent},
	{16755, "no geo keys can be made of the value", BadContent}, // 2dsphere, as the next
	{16756, "no geo keys can be made of the geometry", BadContent},
	{16766, "a hashed index takes no array", BadContent},
	{16804, "a geo location is no array", BadContent},
	{17261, "a language override is no text", BadContent},
	{17262, "a language is not supported", BadContent},
	{17280, "KeyTooLong", BadContent},

	{10334, "BSONObjectTooLarge", TooLarge}, // of an insert, and of newer servers an update
	{17419, "the document after the update is too large", TooLarge},
	{17420, "the document after the upsert is too large", TooLarge}, // both by number in src/mongo/db/exec/update_stage.cpp

	{13, "Unauthorized", Refused},
	{18, "AuthenticationFailed", Refused},
	{20, "IllegalOperation", Refused},
	{40, "ConflictingUpdateOperators", Refused}, // no data makes our updates so
	{59, "CommandNotFound", Refused},
	{61, "ShardKeyNotFound", Refused}, // sharded by something else than meta and time; or the meta is an array: withoutShardKey
	{66, "ImmutableField", Refused},   // the same, of an update
	{67, "CannotCreateIndex", Refused},
	{72, "InvalidOptions", Refused},
	{73, "InvalidNamespace", Refused},
	{79, "UnknownReplWriteConcern", Refused},
	{100, "UnsatisfiableWriteConcern", Refused},
	{115, "CommandNotSupported", Refused},
	{166, "CommandNotSupportedOnView", Refused},
	{238, "NotImplemented", Refused},
	{371, "UserWritesBlocked", Refused}, // setUserWriteBlockMode
	// By number in src/mongo/db/exec/update_stage.cpp.
	{31025, "a change of the shard key without the whole key in the filter", Refused},
	{40415, "IDLUnknownField", Refused}, // a field of the command

	{6, "HostUnreachable", Passing},
	{7, "HostNotFound", Passing},
	{24, "LockTimeout", Passing},
	{43, "CursorNotFound", Passing},
	{46, "LockBusy", Passing},
	{50, "MaxTimeMSExpired", Passing},
	{64, "WriteConcernTimeout", Passing},
	{89, "NetworkTimeout", Passing},
	{91, "ShutdownInProgress", Passing},
	{112, "WriteConflict", Passing},
	{117, "ConflictingOperationInProgress", Passing},
	{133, "FailedToSatisfyReadPreference", Passing}, // mongos: the shard has no primary
	{134, "ReadConcernMajorityNotAvailableYet", Passing},
	{150, "StaleEpoch", Passing},
	{175, "QueryPlanKilled", Passing}, // the collection was changed meanwhile
	{189, "PrimarySteppedDown", Passing},
	{202, "NetworkInterfaceExceededTimeLimit", Passing}, // between the members of a cluster
	{237, "CursorKilled", Passing},
	{246, "SnapshotUnavailable", Passing},
	{249, "StaleDbVersion", Passing},
	{250, "StaleChunkHistory", Passing},
	{262, "ExceededTimeLimit", Passing},
	{365, "TemporarilyUnavailable", Passing}, // the cache is full
	{402, "ResourceExhausted", Passing},
	{433, "AdmissionQueueOverflow", Passing}, // SystemOverloadedError, as the next two
	{449, "RateLimitExceeded", Passing},
	{462, "IngressRequestRateLimitExceeded", Passing},
	{9001, "SocketException", Passing},
	{11000, "DuplicateKey", Passing}, // it was executed before, by us or by another owner
	{11600, "InterruptedAtShutdown", Passing},
	{11601, "Interrupted", Passing},
	{11602, "InterruptedDueToReplStateChange", Passing},
	{13388, "StaleConfig", Passing},
	{13436, "NotPrimaryOrSecondary", Passing},
	{14031, "OutOfDiskSpace", Passing},
	{16500, "TooManyRequests", Passing}, // Azure Cosmos DB's throttling: "Error codes" of its documentation
}

// Codes that something is done about beside classifying them. The driver gives CodeObjectTooLarge itself, without asking.
const (
	CodeBadValue              = 2
	codeUnauthorized          = 13
	CodeIndexNotFound         = 27
	CodeNamespaceExists       = 48
	CodeCommandNotFound       = 59
	CodeShardKeyNotFound      = 61
	CodeCannotCreateIndex     = 67
	CodeIndexOptionsConflict  = 85
	CodeIndexKeySpecsConflict = 86
	CodeParallelArrays        = 171
	CodeNotImplemented        = 238
	CodeObjectTooLarge        = 10334
	CodeDuplicateKey          = 11000
)

// answerOf is the row of a code; one without a row passes.
func answerOf(code int32) answer {
	if i := slices.IndexFunc(answers, func(a answer) bool { return a.code == code }); i >= 0 {
		return answers[i]
	}
	return answer{code: code, name: "no code that is known here"}
}

// ClassOf is the class of a code.
func ClassOf(code int32) Class { return answerOf(code).class }

// BlamesDocument reports whether the class refuses a document, or the bucket it would become.
func (c Class) BlamesDocument() bool { return c == BadContent || c == TooLarge }

// Passes reports whether a code is known to be of a cause that passes by itself: it says nothing about what the server can do.
func Passes(code int32) bool {
	i := slices.IndexFunc(answers, func(a answer) bool { return a.code == code })
	return i >= 0 && (answers[i].class == Passing || answers[i].class == NotPrimary)
}
