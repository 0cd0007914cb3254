package mongodb

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

// OutageError is a failure that may pass by itself, such as no answer, no primary or an overloaded server.
type OutageError struct {
	Doing string // a gerund: "reading the claim"
	Err   error
}

// Error says what was being done, and the cause.
func (e *OutageError) Error() string { return fmt.Sprintf("%s: %v", e.Doing, e.Err) }

// Unwrap returns the cause.
func (e *OutageError) Unwrap() error { return e.Err }

// RefusedError is a failure that does not pass by itself, because MongoDB refuses the request.
type RefusedError struct {
	Doing   string
	Code    int32
	Message string
}

// Error says what was refused, and why.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: MongoDB refuses the request with code %d, %s: %s", e.Doing, e.Code, answerOf(e.Code).name, e.Message)
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
func Failure(doing string, err error) error {
	if _, ok := errors.AsType[*record.StopError](err); err == nil || ok {
		return err
	}
	if errors.Is(err, claim.ErrLapsed) {
		return fmt.Errorf("%s: %w", doing, claim.ErrLapsed)
	}
	if c, ok := errors.AsType[*CommandError](err); ok && (ClassOf(c.Code) == refused || ClassOf(c.Code).BlamesDocument()) {
		return &RefusedError{Doing: doing, Code: c.Code, Message: c.Message}
	}
	return &OutageError{Doing: doing, Err: err}
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
