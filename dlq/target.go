package dlq

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Target takes letters back. Calls do not overlap.
type Target interface {
	// Produce appends records to a partition, in order, and returns nil when all in-sync replicas have them. A *RefusedError
	// is about some of them, and all others were written. After another error the first ones may have been written, or may be
	// within Settle.
	Produce(ctx context.Context, to Place, records []Record) error
}

// RefusedError: a partition does not take some records for what they are, and will not at another try.
type RefusedError struct {
	// Errs are the broker's answers, by the records' indexes in the call.
	Errs map[int]error
}

// Error is the first one's.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%d records are refused: %v", len(e.Errs), e.Errs[slices.Min(slices.Collect(maps.Keys(e.Errs)))])
}

// Refusal is a letter that its topic does not take back.
type Refusal struct {
	// Place and Offset are where it stands, and stays.
	Place
	Offset int64
	// To is the partition that refuses it.
	To  Place
	Err error
}

// Progress keeps offsets of dead-letter topics for the consumer group of a re-drive. Calls do not overlap.
type Progress interface {
	// Commit fails when the group has passed to another member. It may be given the same again.
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

// Passed tells whether a re-drive has been at the letter: it went back, or was refused, and none takes it again.
func Passed(pasts []Past, f *Found) bool {
	return slices.ContainsFunc(pasts, func(p Past) bool {
		return f.Err == nil && f.Offset < p.Committed[f.Place].Offset && p.Selection.drives(&f.Letter)
	})
}

// Return brings one letter back, whatever went back before.
func Return(ctx context.Context, target Target, f *Found) error {
	return target.Produce(ctx, f.Letter.source(), []Record{returned(f)})
}
