package sink

import (
	"errors"
	"fmt"
	"time"
)

// Result is what is known of a write after one attempt.
type Result uint8

// The results of an attempt.
const (
	Acked       Result = iota // executed, and durable
	NotExecuted               // not executed, and never will be
	Unknown                   // anything may have happened, or still happen
	Refused                   // not executed, and never will be: MongoDB will not have its content
)

// String is the result's name in metrics.
func (r Result) String() string {
	switch r {
	case Acked:
		return "acked"
	case NotExecuted:
		return "not_executed"
	case Unknown:
		return "unknown"
	case Refused:
		return "refused"
	}
	return fmt.Sprintf("Result(%d)", uint8(r))
}

// Sent is what is known of one write after one attempt.
type Sent struct {
	Result Result
	// Code and Message are MongoDB's, of a write that is Refused or Unknown by its answer.
	Code    int32
	Message string
	// Err tells why it is NotExecuted or Unknown: ErrLapsed, or an outage.
	Err error
	// At is when the attempt began. It cannot be executed any more when the grace has passed since.
	At time.Time

	// whole: the command was refused, which may be for something else in it than the document.
	whole bool
}

// classify tells what is known of each of the n writes of one command, inserts or updates alike, by closed lists: what is
// not on them is Unknown.
func classify(n int, reply Reply, err error) []Sent {
	sent := make([]Sent, n)
	if err != nil {
		whole := classifyError(err)
		for i := range sent {
			sent[i] = whole
		}
		return sent
	}
	failed := make([]bool, n)
	for _, e := range reply.Errors {
		if e.Index >= 0 && e.Index < n {
			failed[e.Index] = true
			sent[e.Index] = classifyCode(e.Code, e.Message)
		}
	}
	executed := 0
	for _, f := range failed {
		if !f {
			executed++
		}
	}
	doubt := reply.Unconfirmed
	if doubt == nil && reply.N != executed {
		doubt = fmt.Errorf("%d of %d writes found their bucket", reply.N, executed)
	}
	for i := range sent {
		if !failed[i] && doubt != nil {
			sent[i] = Sent{Result: Unknown, Err: doubt}
		}
	}
	return sent
}

// classifyError tells what is known of every write of a command that failed as a whole.
func classifyError(err error) Sent {
	var notSent *NotSentError
	var command *CommandError
	switch {
	case errors.As(err, &notSent):
		return Sent{Result: NotExecuted, Err: err}
	case errors.As(err, &command) && answerOf(command.Code).class == notPrimary:
		return Sent{Result: NotExecuted, Err: err}
	case errors.As(err, &command):
		s := classifyCode(command.Code, command.Message)
		s.whole = s.Result == Refused && command.Code != codeObjectTooLarge
		return s
	default:
		return Sent{Result: Unknown, Err: err}
	}
}

// classifyCode tells what an answer to one write means.
func classifyCode(code int32, message string) Sent {
	s := Sent{Result: Refused, Code: code, Message: message}
	if !blamesDocument(code) {
		s.Result, s.Err = Unknown, &CommandError{Code: code, Message: message}
	}
	return s
}

// refusedWhole tells a command that MongoDB refused as a whole for the content of some of its documents: it does not tell
// of which.
func refusedWhole(err error) bool {
	var command *CommandError
	return errors.As(err, &command) && blamesDocument(command.Code)
}
