package mongodb

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

// Class says what one of MongoDB's codes means for the request.
type Class uint8

const (
	// passing means that the request may have been executed, or may be later, and that the cause passes by itself. Every code
	// without a row below has this class, so an unknown code never counts as a refusal.
	passing Class = iota
	// NotPrimary means that the server is no primary and looked at none of the documents. The command may be sent again.
	NotPrimary
	// badContent means that MongoDB will never accept this document. A measurement alone in its bucket becomes a letter.
	badContent
	// TooLarge means that the bucket grew over the document limit. It is split like a bad one, and its measurements go to other
	// buckets. Only a measurement that is too large by itself becomes a letter.
	TooLarge
	// refused means that MongoDB refuses the request, whatever the document holds, until an operator changes a privilege, a
	// setting or the server. It is an outage, and nothing becomes a letter.
	refused
)

// answer is the meaning of one of MongoDB's codes.
type answer struct {
	name  string
	class Class
}

// answers holds the codes with a known meaning. Names and numbers come from src/mongo/base/error_codes.yml in MongoDB's sources
// unless noted. That file also marks interruptions, shutdowns, stale routes and overloads. After those it is unknown what was
// executed. Tests on a server showed which codes blame a document.
var answers = map[int32]answer{
	// The server looked at no document. These codes are from error_codes.yml, and from "not primary" in the specification of
	// server discovery and monitoring. 189, 11602 and 13436 belong to the same family, but may come after the work began.
	10058: {"LegacyNotPrimary", NotPrimary},
	10107: {"NotWritablePrimary", NotPrimary},
	13435: {"NotPrimaryNoSecondaryOk", NotPrimary},

	2:   {"BadValue", badContent},
	9:   {"FailedToParse", badContent},
	14:  {"TypeMismatch", badContent},
	28:  {"PathNotViable", badContent},
	52:  {"DollarPrefixedFieldName", badContent},
	56:  {"EmptyFieldName", badContent},
	57:  {"DottedFieldName", badContent},
	121: {"DocumentValidationFailure", badContent}, // "only for the document validator on collections"

	// An index of the collection's users cannot take the document. These codes are from the list of such errors in
	// src/mongo/db/index/index_access_method.cpp.
	171:   {"CannotIndexParallelArrays", badContent},
	201:   {"CannotBuildIndexKeys", badContent},
	13026: {"a geo value is not a number", badContent}, // 2d, as the next three and 16804
	13027: {"a point is outside the bounds of the index", badContent},
	13067: {"a geo field is empty", badContent},
	13068: {"a geo field has one element", badContent},
	16675: {"a weight is too small", badContent}, // text, as 16732, 16733, 17261 and 17262
	16732: {"too many terms", badContent},
	16733: {"a term is too long", badContent},
	16746: {"an ambiguous field name in an array", badContent},
	16755: {"the value is not a location", badContent}, // 2dsphere, as the next
	16756: {"the geometry cannot be indexed", badContent},
	16766: {"a hashed index cannot contain an array", badContent},
	16804: {"a location is not an array", badContent},
	17261: {"the language field is not a string", badContent},
	17262: {"a language is not supported", badContent},
	17280: {"KeyTooLong", badContent},

	10334: {"BSONObjectTooLarge", TooLarge}, // for an insert, and on newer servers for an update
	17419: {"the document after the update is too large", TooLarge},
	17420: {"the document after the upsert is too large", TooLarge}, // both by number in src/mongo/db/exec/update_stage.cpp

	13: {"Unauthorized", refused},
	18: {"AuthenticationFailed", refused},
	20: {"IllegalOperation", refused},
	40: {"ConflictingUpdateOperators", refused}, // our updates never cause it, whatever the data
	54: {"NotSingleValueField", refused},        // an update that makes a shard key an array
	59: {"CommandNotFound", refused},
	// The collection is sharded by something else than meta and time, or the meta is an array (withoutShardKey).
	61:  {"ShardKeyNotFound", refused},
	66:  {"ImmutableField", refused}, // the same for an update
	67:  {"CannotCreateIndex", refused},
	72:  {"InvalidOptions", refused},
	73:  {"InvalidNamespace", refused},
	79:  {"UnknownReplWriteConcern", refused},
	100: {"UnsatisfiableWriteConcern", refused},
	115: {"CommandNotSupported", refused},
	153: {"ChunkTooBig", refused}, // moveChunk
	166: {"CommandNotSupportedOnView", refused},
	238: {"NotImplemented", refused},
	371: {"UserWritesBlocked", refused}, // setUserWriteBlockMode
	// This code is from src/mongo/db/exec/update_stage.cpp.
	31025: {"the filter of a shard key change lacks fields of the key", refused},
	40415: {"IDLUnknownField", refused}, // a field of the command

	6:     {"HostUnreachable", passing},
	7:     {"HostNotFound", passing},
	24:    {"LockTimeout", passing},
	43:    {"CursorNotFound", passing},
	46:    {"LockBusy", passing},
	50:    {"MaxTimeMSExpired", passing},
	63:    {"StaleShardVersion", passing},
	64:    {"WriteConcernTimeout", passing},
	70:    {"ShardNotFound", passing}, // mongos: it has not learned of a new shard yet
	82:    {"NoProgressMade", passing},
	89:    {"NetworkTimeout", passing},
	90:    {"CallbackCanceled", passing},
	91:    {"ShutdownInProgress", passing},
	112:   {"WriteConflict", passing},
	117:   {"ConflictingOperationInProgress", passing},
	133:   {"FailedToSatisfyReadPreference", passing}, // mongos: the shard has no primary
	134:   {"ReadConcernMajorityNotAvailableYet", passing},
	145:   {"PooledConnectionsDropped", passing},
	150:   {"StaleEpoch", passing},
	175:   {"QueryPlanKilled", passing}, // the collection was changed meanwhile
	189:   {"PrimarySteppedDown", passing},
	202:   {"NetworkInterfaceExceededTimeLimit", passing}, // between the members of a cluster
	203:   {"ShardingStateNotInitialized", passing},
	211:   {"KeyNotFound", passing}, // the keys that sign cluster times are not there yet
	237:   {"CursorKilled", passing},
	239:   {"SnapshotTooOld", passing},
	246:   {"SnapshotUnavailable", passing},
	249:   {"StaleDbVersion", passing},
	250:   {"StaleChunkHistory", passing},
	262:   {"ExceededTimeLimit", passing},
	272:   {"MigrationConflict", passing},
	279:   {"ClientDisconnect", passing},
	317:   {"ConnectionPoolExpired", passing},
	343:   {"ShardCannotRefreshDueToLocksHeld", passing},
	365:   {"TemporarilyUnavailable", passing}, // the cache is full
	402:   {"ResourceExhausted", passing},
	433:   {"AdmissionQueueOverflow", passing}, // SystemOverloadedError, as the next two
	449:   {"RateLimitExceeded", passing},
	462:   {"IngressRequestRateLimitExceeded", passing},
	9001:  {"SocketException", passing},
	11000: {"DuplicateKey", passing}, // the insert was executed before, by us or by another owner
	11600: {"InterruptedAtShutdown", passing},
	11601: {"Interrupted", passing},
	11602: {"InterruptedDueToReplStateChange", passing},
	13388: {"StaleConfig", passing},
	13436: {"NotPrimaryOrSecondary", passing},
	14031: {"OutOfDiskSpace", passing},
	16500: {"TooManyRequests", passing}, // Azure Cosmos DB's throttling: "Error codes" of its documentation
	46841: {"ClientMarkedKilled", passing},
}

// Codes that need more than their class. The driver returns CodeObjectTooLarge itself, without asking a server.
const (
	CodeBadValue              = 2
	codeUnauthorized          = 13
	CodeNamespaceNotFound     = 26
	CodeIndexNotFound         = 27
	CodeLockBusy              = 46
	CodeNamespaceExists       = 48
	CodeCommandNotFound       = 59
	CodeShardKeyNotFound      = 61
	CodeCannotCreateIndex     = 67
	CodeInvalidOptions        = 72
	CodeIndexOptionsConflict  = 85
	CodeIndexKeySpecsConflict = 86
	CodeConflictingOperation  = 117
	CodeChunkTooBig           = 153
	CodeOperationFailed       = 96
	CodeParallelArrays        = 171
	CodeNotImplemented        = 238
	CodeSnapshotTooOld        = 239
	CodeObjectTooLarge        = 10334
	CodeDuplicateKey          = 11000
)

// ClassOf returns the class of a code. A code without a row is passing.
func ClassOf(code int32) Class { return answers[code].class }

// BlamesDocument reports whether the class refuses a document, or the bucket of that document.
func (c Class) BlamesDocument() bool { return c == badContent || c == TooLarge }

// Refuses reports whether MongoDB refuses a request for a reason that is not known to pass by itself. Only such an answer says
// something about the server's abilities.
func Refuses(err error) bool {
	c, ok := errors.AsType[*CommandError](err)
	if !ok {
		return false
	}
	a, known := answers[c.Code]
	return !known || a.class != passing && a.class != NotPrimary
}

// OutageError is a failure that may pass by itself, such as no answer, no primary or an overloaded server.
type OutageError struct {
	Operation string // a gerund: "reading the claim"
	Err       error
}

// Error says what was being done, and the cause.
func (e *OutageError) Error() string { return fmt.Sprintf("%s: %v", e.Operation, e.Err) }

// Unwrap returns the cause.
func (e *OutageError) Unwrap() error { return e.Err }

// RefusedError is a failure that does not pass by itself, because MongoDB refuses the request.
type RefusedError struct {
	Operation string
	Code      int32
	Message   string
}

// Error says what was refused, and why.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: MongoDB refuses the request with code %d, %s: %s", e.Operation, e.Code, cmp.Or(answers[e.Code].name, "an unknown code"), e.Message)
}

// Is makes the error match claim.ErrRefused. A missing right also matches claim.ErrUnauthorized.
func (e *RefusedError) Is(target error) bool {
	return target == claim.ErrRefused || target == claim.ErrUnauthorized && e.Code == codeUnauthorized
}

// LacksRight reports whether MongoDB refuses a request because the user lacks a right. Such a refusal says nothing about the
// server's abilities, and ends when an operator grants the right.
func LacksRight(err error) bool {
	return errors.Is(err, claim.ErrUnauthorized) || HasCode(err, codeUnauthorized)
}

// CommandError is a server's answer that refuses a command as a whole. A Collection returns it unchanged.
type CommandError struct {
	Code    int32
	Message string
}

// Error returns the server's message and code.
func (e *CommandError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// HasCode reports whether an error is a CommandError with one of these codes.
func HasCode(err error, codes ...int32) bool {
	c, ok := errors.AsType[*CommandError](err)
	return ok && slices.Contains(codes, c.Code)
}

// RefusesQuery reports whether MongoDB refuses a query because of its filter: BadValue, FailedToParse, TypeMismatch,
// InvalidPipelineOperator, NoQueryExecutionPlans, or one of the codes from firstLocation on.
func RefusesQuery(err error) bool {
	c, ok := errors.AsType[*CommandError](err)
	return ok && (HasCode(c, 2, 9, 14, 168, 291) || c.Code >= firstLocation)
}

// firstLocation is the first code of a single check in the server's source. In a query, such a check concerns an operator and its
// arguments. The codes of servers that end or are not primary are lower.
const firstLocation = 15000

// NotSentError means that a command was not sent, or not to its end. It was not executed and never will be. Any other error of a
// Collection except *CommandError leaves the outcome unknown. These are all the causes:
//
//   - There was no connection to send on: no server was selected, the pool is closed or its queue timed out, or connecting failed.
//   - The lease did not hold (claim.ErrLapsed), before the command or within it. The connection is closed then, and a server never
//     executes part of a message.
//   - Its turn did not come (turns, claim.ErrNoTurn). It was not handed to the driver, or only within a command that was refused
//     as a whole for another write's content. If a server still executed part of that command, _id and count find that part when
//     the write is sent again.
//   - The driver had no time left to begin sending (outOfTime).
type NotSentError struct{ Err error }

// Error returns the text of the cause.
func (e *NotSentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *NotSentError) Unwrap() error { return e.Err }

// Failure turns the error of a Collection into one that the caller acts on: claim.ErrLapsed, *RefusedError or *OutageError. It
// returns nil and a *record.StopError unchanged.
func Failure(operation string, err error) error {
	if _, ok := errors.AsType[*record.StopError](err); err == nil || ok {
		return err
	}
	if errors.Is(err, claim.ErrLapsed) {
		return fmt.Errorf("%s: %w", operation, claim.ErrLapsed)
	}
	if c, ok := errors.AsType[*CommandError](err); ok && (ClassOf(c.Code) == refused || ClassOf(c.Code).BlamesDocument()) {
		return &RefusedError{Operation: operation, Code: c.Code, Message: c.Message}
	}
	return &OutageError{Operation: operation, Err: err}
}

// MongoDB's built-in roles.
const (
	roleRead      = "read"
	roleReadWrite = "readWrite"
	roleDBAdmin   = "dbAdmin"
)

// rights holds the right that each command needs: the action's name, and the smallest built-in role that has it.
var rights = map[string]struct{ action, role string }{
	"find": {"find", roleRead}, "aggregate": {"find", roleRead}, "count": {"find", roleRead},
	"listCollections": {"listCollections", roleRead}, "listIndexes": {"listIndexes", roleRead}, "collStats": {"collStats", roleRead},
	"insert": {"insert", roleReadWrite}, "update": {"update", roleReadWrite}, "findAndModify": {"update", roleReadWrite},
	"delete": {"remove", roleReadWrite}, "create": {"createCollection", roleReadWrite}, "drop": {"dropCollection", roleReadWrite},
	"createIndexes": {"createIndex", roleReadWrite}, "dropIndexes": {"dropIndex", roleReadWrite}, "collMod": {"collMod", roleDBAdmin},
}

// RightOf returns the right that a command needs: MongoDB's name of the action, and the smallest built-in role that has it.
func RightOf(command string) (action, role string) {
	return rights[command].action, rights[command].role
}

// indexStats is an aggregation stage that needs a right of its own.
const indexStats = "$indexStats"

// refusedCommand finds the database, the command and the collection in MongoDB's message about a missing right.
var refusedCommand = regexp.MustCompile(`^not authorized on (\S+) to execute command \{ (\w+): (?:"([^"]*)")?`)

// missingRight replaces MongoDB's message about a missing right, which quotes the whole command. It returns an unknown message
// unchanged.
func missingRight(message string) string {
	found := refusedCommand.FindStringSubmatch(message)
	if found == nil {
		return message
	}
	database, command, collection := found[1], found[2], found[3]
	right, known := rights[command]
	switch {
	case !known:
		return message
	case strings.Contains(message, indexStats):
		right.action, right.role = "indexStats", roleDBAdmin
	}
	on := "the database " + database
	if collection != "" {
		on = database + "." + collection
	}
	return fmt.Sprintf("this user lacks the right %s on %s, which the role %s on the database %s has", right.action, on, right.role, database)
}
