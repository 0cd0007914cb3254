package redrive

import (
	"fmt"
	"time"

	"waterwheel/dlq"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/record"
)

// arrivalTime is how long after a failure a record that was sent may still arrive: the time one request may take, for the way
// there and at the broker.
const arrivalTime = 10 * time.Second

// Options say what goes back, and how.
type Options struct {
	// Member are the consumer's own: the topics that letters may go back to, the group that the names of those here begin
	// with, and the times of a member.
	Member group.Options
	// Topics are the dead-letter topics, which exist; TopicFor is the dead-letter topic of a source topic. Nil means that letters may
	// stand in any.
	Topics   []string
	TopicFor func(source string) string
	// Selection is the letters wanted.
	Selection Selection
	// Limit bounds the letters driven or refused. Zero means all. What a former run has begun is finished whatever it says.
	Limit int64
	// Rate bounds the letters a second. Zero means none.
	Rate int
	// DryRun counts, and neither sends nor commits anything.
	DryRun bool
	// Again tells, in a dry run, the reason for which a record would become a letter again. Empty means that none is known. Nil means
	// that nobody is asked.
	Again func(*dlq.Found) string
	// Report is told the counts after each batch. Nil means that nobody is.
	Report func(Report)
	// CutOff is told that the last run was cut off, and how long it takes to look which of its letters have arrived. Nil
	// means that nobody is.
	CutOff func(wait time.Duration)
	// Stray is told each letter that is not of the record it names. Nil means that nobody is. A later run may tell of it again too.
	Stray func(Stray)
	// Refused is told each letter that its topic does not take. Nil means that nobody is. A letter may be told of again by a later run
	// when this one is cut off.
	Refused func(Refusal)
}

// Stray is a letter that is not of the record that it names: it stays.
type Stray struct {
	// Place is where it stands.
	record.Place
	// Wrong says what speaks against it.
	Wrong string
}

// Refusal is a letter that its topic does not take back.
type Refusal struct {
	// Place is where it stands, and stays.
	record.Place
	// To is the partition that refuses it.
	To  record.Partition
	Err error
}

// UnfinishedError means that a re-drive of another selection was cut off, and which of its letters have gone back is not looked up
// yet. It must be run again first.
type UnfinishedError struct{ Selection Selection }

// Error names the selection.
func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("a re-drive of another selection (%q) was cut off: run that one again first", e.Selection)
}

// Report counts what became of letters.
type Report struct {
	// Total is how many records there are to look at, Read how many were.
	Total int64 `json:"total"`
	Read  int64 `json:"read"`
	// Driven went back, or would have in a dry run; Reasons counts them by reason.
	Driven  int64            `json:"driven"`
	Reasons map[string]int64 `json:"reasons"`
	// Gone counts letters of Driven whose records are no longer in their topics: their keys could not be compared.
	Gone int64 `json:"gone"`
	// Again counts letters of Driven that would become letters again, by their new reason. It is set in a dry run only.
	Again map[string]int64 `json:"again,omitempty"`
	// Arrived had gone back already when a former run was cut off.
	Arrived int64 `json:"arrived"`
	// Refused were not taken by their topics: these stay.
	Refused int64 `json:"refused"`
	// Doubles stand in the dead-letter topic a second time, or were driven by another selection.
	Doubles int64 `json:"doubles"`
	// Exhausted were tried often enough; Cut lost a part of their value; Others are no letters: these stay.
	Exhausted int64 `json:"exhausted"`
	Cut       int64 `json:"cut"`
	Others    int64 `json:"others"`
	// Strays are not of the records that they name, or of none that ever was: these stay.
	Strays int64 `json:"strays"`
	// Unselected are not wanted.
	Unselected int64 `json:"unselected"`
}
