package check

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Verdict is the prefix of every failure about missing, doubled or otherwise wrong data. tools/testreport runs failed tests again
// to see whether a failure was chance. It recognizes this prefix, because such a failure is never chance.
const Verdict = "DATA VERDICT: "

// maxFaults bounds the number of faults a report lists. Further faults are only counted.
const maxFaults = 20

// Report holds the findings of a check.
type Report struct {
	// Records counts the records of the topic, and Tombstones the tombstones among them.
	Records, Tombstones int
	// Valid counts the measurements that must be stored. Stored of them are in exactly one bucket or segment, Missing in none,
	// Doubled in more than one.
	Valid, Stored, Missing, Doubled int
	// Unknown counts the stored measurements that must not be stored.
	Unknown int
	// Buckets counts the buckets, and Closed the closed ones among them. Writes counts the writes of records that made buckets
	// and segments.
	Buckets, Closed, Writes int
	// Segments counts the segments that store measurements. Ended counts the ended segments, whose measurements are in buckets.
	Segments, Ended int
	// DeadLetters counts the distinct letters by reason. Repeated counts further copies of a letter, which are allowed after a crash.
	DeadLetters map[string]int
	Repeated    int
	// Uncommitted is the number of offsets between the commits and the ends of the log.
	Uncommitted int64
	// Faults lists the first maxFaults faults. FaultCount is the number of all faults.
	Faults     []string
	FaultCount int
}

// fault adds a fault to the report.
func (r *Report) fault(format string, args ...any) {
	r.FaultCount++
	if len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
	}
}

// DeadLetterCount returns the number of distinct letters.
func (r *Report) DeadLetterCount() int {
	n := 0
	for _, count := range r.DeadLetters {
		n += count
	}
	return n
}

// Err returns nil when everything is correct, and otherwise an error that begins with Verdict and lists the faults.
func (r *Report) Err() error {
	if r.FaultCount == 0 && r.Missing == 0 && r.Doubled == 0 && r.Unknown == 0 && r.Uncommitted == 0 {
		return nil
	}
	lines := append([]string{Verdict + r.String()}, r.Faults...)
	if more := r.FaultCount - len(r.Faults); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(lines, "\n\t"))
}

// String returns the report in one line.
func (r *Report) String() string {
	letters := make([]string, 0, len(r.DeadLetters))
	for _, reason := range slices.Sorted(maps.Keys(r.DeadLetters)) {
		letters = append(letters, fmt.Sprintf("%s %d", reason, r.DeadLetters[reason]))
	}
	return fmt.Sprintf("%d records (%d tombstones): %d valid measurements, stored once %d, missing %d, doubled %d, unknown %d; "+
		"%d buckets (%d closed), %d segments (and %d that ended); dead letters: %s (%d repeated); %d offsets not committed; %d faults",
		r.Records, r.Tombstones, r.Valid, r.Stored, r.Missing, r.Doubled, r.Unknown, r.Buckets, r.Closed, r.Segments, r.Ended,
		strings.Join(letters, ", "), r.Repeated, r.Uncommitted, r.FaultCount)
}
