package dlq

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// RedriveOptions say what goes back, and how.
type RedriveOptions struct {
	// Selection is the letters wanted.
	Selection Selection
	// Sources are the topics that letters may go back to.
	Sources []string
	// Limit bounds the letters driven or refused; 0: all. What a former run has begun is finished whatever it says.
	Limit int64
	// Rate bounds the letters a second; 0: none.
	Rate int
	// DryRun counts and sends nothing; Target and Progress are then not used.
	DryRun bool
	// TopicFor is the dead-letter topic of a source topic; nil: any may stand anywhere.
	TopicFor func(source string) string
	// Again tells, in a dry run, the reason for which a record would become a letter again, empty: none is known; nil: nobody
	// is asked.
	Again func(*Letter) string
	// Settle is how long after a failure a record that was sent may still arrive.
	Settle time.Duration
	// Own is what this selection's group has committed, Others what those of other selections have.
	Own    Past
	Others []Past
	// Report is told the counts after each parcel; nil: nobody is.
	Report func(Report)
	// Stray is told each letter that is not of the record it names; nil: nobody is. A later run may tell of it again too.
	Stray func(Stray)
	// Refused is told each letter that its topic does not take; nil: nobody is. A letter may be told of again by a later run
	// when this one is cut off.
	Refused func(Refusal)
}

// UnfinishedError: a re-drive of another selection was cut off, and which of its letters have gone back is not looked up
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
	// Gone are those of Driven whose records their topics have no more: their keys could not be compared.
	Gone int64 `json:"gone"`
	// Again are those of Driven that would become letters again, by their new reason: only in a dry run.
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

// Redrive takes letters back to the topics they come from, each once: also after a crash, and also when other selections
// took some of them. A Redrive is used once, by one goroutine.
type Redrive struct {
	o        RedriveOptions
	log      Log
	target   Target
	progress Progress

	taken     positions // of letters driven, by whichever selection
	originals *originals
	report    Report
	begin     time.Time
	paced     int64 // letters since begin
}

// NewRedrive prepares a re-drive. It reads and sends nothing.
func NewRedrive(log Log, target Target, progress Progress, o RedriveOptions) *Redrive {
	return &Redrive{
		o: o, log: log, target: target, progress: progress, taken: newPositions(), originals: newOriginals(log),
		report: Report{Reasons: map[string]int64{}},
	}
}

// Run drives the letters of the spans. When ctx ends it finishes what it has begun, commits, and returns ctx's cause. The
// report is valid after an error too.
func (r *Redrive) Run(ctx context.Context, spans []Span) (Report, error) {
	r.begin = time.Now()
	if err := r.learn(ctx, spans); err != nil {
		return r.report, err
	}
	for _, s := range spans {
		r.report.Total += max(0, s.End-r.from(s))
	}
	for _, s := range spans {
		if err := r.drivePartition(ctx, s); err != nil {
			return r.report, err
		}
	}
	return r.report, nil
}

// from is where a partition goes on.
func (r *Redrive) from(s Span) int64 { return max(s.First, r.o.Own.Committed[s.Place].Offset) }

// learn reads the dead-letter topics up to what was committed, for the positions of letters driven before.
func (r *Redrive) learn(ctx context.Context, spans []Span) error {
	pasts := append([]Past{r.o.Own}, r.o.Others...)
	for _, s := range spans {
		reach := make([]int64, len(pasts))
		for i, p := range pasts {
			c := p.Committed[s.Place]
			begun, err := parseIntent(c.Metadata)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Place, err)
			}
			if begun != nil && i > 0 {
				return &UnfinishedError{Selection: p.Selection}
			}
			reach[i] = c.Offset
		}
		part := s
		part.End = min(s.End, slices.Max(reach))
		err := Scan(ctx, r.log, []Span{part}, func(f *Found) error {
			for i := range pasts {
				if f.Err == nil && f.Offset < reach[i] && pasts[i].Selection.drives(&f.Letter) {
					r.taken.add(&f.Letter)
					break
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
