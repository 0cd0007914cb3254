package dlq

import (
	"context"
	"strings"
)

// Target takes letters back. Calls do not overlap.
type Target interface {
	// Produce appends records to a partition, in order, and returns nil when all in-sync replicas have them. After an error
	// the first ones of them may have been written, or may be within Settle. A *RefusedError will come again.
	Produce(ctx context.Context, to Place, records []Record) error
}

// RefusedError: a topic does not take a record for what it is.
type RefusedError struct {
	// Index is the record's in the call; those before it were written.
	Index int
	Err   error
}

// Error is the broker's.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// Progress keeps offsets of dead-letter topics for the consumer group of a re-drive. Calls do not overlap.
type Progress interface {
	// Commit fails when the group has passed to another member.
	Commit(ctx context.Context, place Place, offset int64, metadata string) error
}

// Committed is what a group has committed for a partition.
type Committed struct {
	Offset   int64
	Metadata string
}

// Past is what the group of a selection has committed, by partition of the dead-letter topics.
type Past struct {
	Selection Selection
	Committed map[Place]Committed
}

// IsCutOff tells whether the last run ended, in some partition, without knowing what of its letters has arrived. The next
// run waits for them for Settle.
func (p Past) IsCutOff() bool {
	for _, c := range p.Committed {
		if strings.HasPrefix(c.Metadata, intentMark) {
			return true
		}
	}
	return false
}
