package redrive

import (
	"fmt"
	"time"

	"waterwheel/dlq"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/record"
)

// arrivalTime is how long after a failure a sent record may still arrive. It is the time that one request may take in transit and
// at the broker.
const arrivalTime = 10 * time.Second

// Options define what goes back, and how.
type Options struct {
	// Member are the consumer's own options. They have the topics that letters may go back to, the prefix of the re-drives' group
	// names, and a member's timeouts.
	Member group.Options
	// Topics are the dead-letter topics, which exist. TopicFor returns the dead-letter topic of a source topic. Nil means that
	// letters may be in any of them.
	Topics   []string
	TopicFor func(source string) string
	// Selection selects letters.
	Selection Selection
	// Limit bounds the number of letters driven or refused. Zero means all. A batch that an earlier run began is finished in any
	// case.
	Limit int64
	// Rate bounds the letters per second. Zero means no bound.
	Rate int
	// DryRun counts, and neither sends nor commits anything.
	DryRun bool
	// Again returns, in a dry run, the reason for which a record would become a letter again. Empty means that none is known. Nil
	// means that this is not checked.
	Again func(*dlq.Found) string
	// Report is called with the counts after each batch. Nil means no calls.
	Report func(Report)
	// CutOff is called if the last run was cut off, with the time it takes to look which of its letters have arrived. Nil means
	// no calls.
	CutOff func(wait time.Duration)
	// Stray is called for each letter that does not belong to the record it names. A later run may call it for the same letter.
	// Nil means no calls.
	Stray func(Stray)
	// Refused is called for each letter that its topic refuses. If this run is cut off, a later run may call it for the same
	// letter. Nil means no calls.
	Refused func(Refusal)
}

// Stray is a letter that does not belong to the record it names. It stays.
type Stray struct {
	// Place is the letter's place.
	record.Place
	// Wrong says why the letter does not belong to the record.
	Wrong string
}

// Refusal is a letter that its topic does not take back.
type Refusal struct {
	// Place is the letter's place, where it stays.
	record.Place
	// To is the partition that refuses it.
	To  record.Partition
	Err error
}

// UnfinishedError means that a re-drive of another selection was cut off, and it is unknown which of its letters have gone back.
// That re-drive must be run again first.
type UnfinishedError struct{ Selection Selection }

// Error names the selection.
func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("a redrive of another selection of dead letters (%q) was interrupted: run that redrive again first", e.Selection)
}

// Report counts the outcomes of letters.
type Report struct {
	// Total is the number of records to look at, and Read the number of those looked at so far.
	Total int64 `json:"total"`
	Read  int64 `json:"read"`
	// Driven went back, or would have gone back in a dry run. Reasons counts them by reason.
	Driven  int64            `json:"driven"`
	Reasons map[string]int64 `json:"reasons"`
	// Gone counts letters of Driven whose records are no longer in their topics, so that their keys could not be compared.
	Gone int64 `json:"gone"`
	// Again counts letters of Driven that would become letters again, by their new reason. It is set only in a dry run.
	Again map[string]int64 `json:"again,omitempty"`
	// Arrived had already gone back when an earlier run was cut off.
	Arrived int64 `json:"arrived"`
	// Refused were refused by their topics. They stay.
	Refused int64 `json:"refused"`
	// Doubles are second letters of a record in the dead-letter topic, or letters that another selection has driven.
	Doubles int64 `json:"doubles"`
	// Exhausted were tried often enough, Cut lost a part of their value, and Others are not letters. All of these stay.
	Exhausted int64 `json:"exhausted"`
	Cut       int64 `json:"cut"`
	Others    int64 `json:"others"`
	// Strays do not belong to the records they name, or name records that never existed. They stay.
	Strays int64 `json:"strays"`
	// Unselected are not selected.
	Unselected int64 `json:"unselected"`
}
