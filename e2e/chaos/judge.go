package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"waterwheel/e2e/check"
)

// Result is the outcome of a run.
type Result struct {
	// Produced is the number of records produced in Seconds. DrainSeconds is the time the consumers needed for the rest at the
	// end.
	Produced              int
	Seconds, DrainSeconds float64
	// SlowestAnswer is the longest time the database held a small write that nothing disturbed. Consumers rely on it being less
	// than Grace, which is two write timeouts, or on a database that honours maxTimeMS.
	SlowestAnswer, Grace time.Duration
	// LongestWrite is the longest time from the moment a consumer sent buckets to the database's answer.
	LongestWrite time.Duration
	// Looks counts the looks of a reader during the disturbances. ChunksMoved counts the chunks that moved to another shard.
	Looks, ChunksMoved int
	// Commands counts the commands of operators that were completed during the disturbances.
	Commands int
	// Rows counts the rows of rollups that were compared with the records.
	Rows int
	// Actions counts the disturbances by name.
	Actions map[string]int
	// Valid counts the measurements that must be stored. Stored of them are in exactly one place, Missing in none, Doubled in
	// several.
	Valid, Stored, Missing, Doubled int
	// Report is the report of the independent check. It is nil for the naive consumer. Faults includes the errors it finds.
	Report *check.Report
	// Faults describes every event that must not happen.
	Faults []string
}

// Err is nil when every measurement is stored once and nothing else went wrong.
func (r *Result) Err() error {
	if len(r.Faults) == 0 && r.Missing == 0 && r.Doubled == 0 {
		return nil
	}
	return errors.New(strings.Join(append([]string{r.String()}, r.Faults...), "\n\t"))
}

// String returns the result in one line.
func (r *Result) String() string {
	disturbances := 0
	for _, n := range r.Actions {
		disturbances += n
	}
	beside := ""
	if r.ChunksMoved > 0 {
		beside += fmt.Sprintf(", %d chunks moved", r.ChunksMoved)
	}
	if r.Looks > 0 {
		beside += fmt.Sprintf(", %d looks at what is shown", r.Looks)
	}
	if r.Commands > 0 {
		beside += fmt.Sprintf(", %d commands of an operator", r.Commands)
	}
	if r.Rows > 0 {
		beside += fmt.Sprintf(", %d rows of rollups compared", r.Rows)
	}
	return fmt.Sprintf("%d records in %.0fs (%.0f/s), %d disturbances%s, the rest stored after %.0fs: "+
		"%d measurements, stored once %d, missing %d, doubled %d; %d faults; the database held a write for up to %.1fs (grace %.0fs)",
		r.Produced, r.Seconds, float64(r.Produced)/r.Seconds, disturbances, beside, r.DrainSeconds,
		r.Valid, r.Stored, r.Missing, r.Doubled, len(r.Faults), r.SlowestAnswer.Seconds(), r.Grace.Seconds())
}

// judge compares the stored measurements with the records, and fills the result.
func (r *run) judge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if r.options.Naive {
		return r.judgeNaive(ctx)
	}
	if err := r.judgePast(ctx); err != nil {
		return err
	}
	report, err := check.Run(ctx, r.source())
	if err != nil {
		return err
	}
	result := &r.result
	result.Report = report
	result.Valid += report.Valid
	result.Stored += report.Stored
	result.Missing += report.Missing
	result.Doubled += report.Doubled
	if err := report.Err(); err != nil {
		result.Faults = append(result.Faults, err.Error())
	}
	if err := r.judgeRollups(ctx); err != nil {
		return err
	}
	return r.judgePassages(ctx)
}
