package record

import "errors"

// These are errors of reading a log that its reader handles.
var (
	// ErrOutOfRange means that the offset is outside the log.
	ErrOutOfRange = errors.New("the offset is outside the log")
	// ErrTopicGone means that the topic id does not exist, or no longer exists.
	ErrTopicGone = errors.New("the topic id is unknown")
)

// StopError stops a partition until an operator acts. A retry does not help, and continuing would lose or double records.
type StopError struct {
	// Reason is a short label for metrics and status. Detail is a sentence for people that says what to do.
	Reason, Detail string
}

// Error gives the sentence.
func (e *StopError) Error() string { return e.Detail }
