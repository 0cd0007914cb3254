package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
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

// ErrGenerationOver is what a commit meets after its generation has ended in this process: nothing was sent.
var ErrGenerationOver = errors.New("the generation is over")

// Error is a request to Kafka that did not go well. errors.As finds the kafkago.Error inside when it was the broker's answer.
type Error struct {
	// API is the request's name in Kafka's protocol.
	API string
	// Of is the partition that the answer concerns. Its number is negative for all of the topic. Zero means that it concerns none.
	Of record.Partition
	// Err is the broker's code as a kafkago.Error, or why there is no answer.
	Err error
}

// Error says what was asked of what, what was answered, and what to do where a person has to.
func (e *Error) Error() string {
	if errors.Is(e.Err, errNoBroker) {
		return e.Err.Error() // whatever was asked
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

// settingError is something that cannot work with the settings as they are.
type settingError struct{ error }

// Unwrap gives the cause.
func (e *settingError) Unwrap() error { return e.error }

// Mistake makes an error that Classify takes for one of the settings, or of rights: trying again does not help.
func Mistake(err error) error { return &settingError{err} }

// CodeError makes an error of a code in an answer, nil for 0.
func CodeError(api protocol.ApiKey, of record.Partition, code int16) error {
	if code == 0 {
		return nil
	}
	return NoAnswer(api, of, kafkago.Error(code))
}

// NoAnswer makes an error of a request without an answer.
func NoAnswer(api protocol.ApiKey, of record.Partition, err error) error {
	return &Error{API: wire.Name(api), Of: of, Err: err}
}

// wholeTopic is what an Error is of that concerns all of a topic.
func wholeTopic(name string) record.Partition { return record.Partition{Topic: name, Number: -1} }

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
