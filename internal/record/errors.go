package record

import "errors"

// Errors of reading a log that its reader acts on.
var (
	// ErrOutOfRange means that the offset is outside the log.
	ErrOutOfRange = errors.New("the offset is outside the log")
	// ErrTopicGone means that the topic id is not known (any more).
	ErrTopicGone = errors.New("the topic id is unknown")
)

// StopError stops a partition until an operator acts: trying again does not help, and going on would lose or double records.
type StopError struct {
	// Reason is a short label for metrics and status; Detail the sentence for people, with the ways out.
	Reason, Detail string
}

// Error gives the sentence.
func (e *StopError) Error() string { return e.Detail }
