package sink

import (
	"errors"
	"fmt"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

// OutageError is a failure that may pass by itself: no answer, no primary, an overloaded server.
type OutageError struct {
	Doing string // a gerund: "reading the claim"
	Err   error
}

// Error says what was being done and what came in between.
func (e *OutageError) Error() string { return fmt.Sprintf("%s: %v", e.Doing, e.Err) }

// Unwrap returns the cause.
func (e *OutageError) Unwrap() error { return e.Err }

// RefusedError is a failure that will not pass by itself: MongoDB refuses the request for what it is.
type RefusedError struct {
	Doing   string
	Code    int32
	Message string
}

// Error says what was refused, and why.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: MongoDB refuses it with code %d, %s: %s", e.Doing, e.Code, answerOf(e.Code).name, e.Message)
}

// Is makes it claim.ErrRefused, and a missing right claim.ErrUnauthorized as well.
func (e *RefusedError) Is(target error) bool {
	return target == claim.ErrRefused || target == claim.ErrUnauthorized && e.Code == codeUnauthorized
}

// LacksRight reports whether MongoDB refuses something because the user lacks a right. That says nothing about what the server
// can do, and it ends when an operator grants the right.
func LacksRight(err error) bool {
	command := (*CommandError)(nil)
	return errors.Is(err, claim.ErrUnauthorized) || errors.As(err, &command) && command.Code == codeUnauthorized
}

// CommandError is a server's answer that refuses a command as a whole. A Collection returns it as it came.
type CommandError struct {
	Code    int32
	Message string
}

// Error is the server's message and code.
func (e *CommandError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// NotSentError tells that a command was not sent, or not to its end: it was not executed and never will be. Any other
// error of a Collection but *CommandError leaves open what happened. These are all the causes:
//
//   - There was no connection to send on: no server was selected, the pool is closed or its queue timed out, or connecting failed.
//   - The lease did not hold (claim.ErrLapsed), before the command or within it. The connection is closed then, and a server never
//     executes part of a message.
//   - Its turn did not come (turns, bucketer.ErrNoTurn). It was not handed to the driver, or only within a command that
//     was refused as a whole for another write's content. If a server had executed part of that all the same, _id and count
//     find it when the write is sent again.
//   - The driver had no time left to begin to send (outOfTime).
type NotSentError struct{ Err error }

// Error is the cause.
func (e *NotSentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *NotSentError) Unwrap() error { return e.Err }

// failure turns the error of a Collection into one the caller acts on: ErrLapsed, *RefusedError or *OutageError. None, and a
// *record.StopError, stay what they are.
func failure(doing string, err error) error {
	if stop := (*record.StopError)(nil); err == nil || errors.As(err, &stop) {
		return err
	}
	if errors.Is(err, claim.ErrLapsed) {
		return fmt.Errorf("%s: %w", doing, claim.ErrLapsed)
	}
	if c := (*CommandError)(nil); errors.As(err, &c) && (answerOf(c.Code).class == refused || blamesDocument(c.Code)) {
		return &RefusedError{Doing: doing, Code: c.Code, Message: c.Message}
	}
	return &OutageError{Doing: doing, Err: err}
}
