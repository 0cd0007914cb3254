package check

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Verdict begins every failure that is about data which is missing, doubled or otherwise not what it must be. Whoever runs tests
// again to see whether a failure was chance (tools/testreport) knows it: such a failure is none.
const Verdict = "DATA VERDICT: "

// maxFaults bounds the faults a report lists; the others are only counted.
const maxFaults = 20

// Report is what a check found.
type Report struct {
	// Records in the topic, and the tombstones among them.
	Records, Tombstones int
	// Valid is the number of measurements that must be stored; Stored of them are in exactly one bucket or segment,
	// Missing in none, Doubled in more than one.
	Valid, Stored, Missing, Doubled int
	// Unknown is the number of stored measurements that must not be there.
	Unknown int
	// Buckets stored, the closed ones among them, and the writes by which they and segments were made of records.
	Buckets, Closed, Writes int
	// Segments that store measurements, and Ended ones, whose measurements are in buckets.
	Segments, Ended int
	// Letters are the distinct letters by reason, Repeated those that came more than once (after a crash they may).
	Letters  map[string]int
	Repeated int
	// Uncommitted is the number of offsets between the commits and the ends of the log.
	Uncommitted int64
	// Faults are sentences about what is wrong, the first of them; FaultCount is the number of all.
	Faults     []string
	FaultCount int
}

// fault adds a sentence to the report.
func (r *Report) fault(format string, args ...any) {
	r.FaultCount++
	if len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
	}
}

// LetterCount is the number of distinct letters.
func (r *Report) LetterCount() int {
	n := 0
	for _, count := range r.Letters {
		n += count
	}
	return n
}

// Err is nil when everything is as it must be, and otherwise a Verdict with all that is not.
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

// String is the report in one line.
func (r *Report) String() string {
	letters := make([]string, 0, len(r.Letters))
	for _, reason := range slices.Sorted(maps.Keys(r.Letters)) {
		letters = append(letters, fmt.Sprintf("%s %d", reason, r.Letters[reason]))
	}
	return fmt.Sprintf("%d records (%d tombstones): %d valid measurements, stored once %d, missing %d, doubled %d, unknown %d; "+
		"%d buckets (%d closed), %d segments (and %d that ended); letters: %s (%d repeated); %d offsets not committed; %d faults",
		r.Records, r.Tombstones, r.Valid, r.Stored, r.Missing, r.Doubled, r.Unknown, r.Buckets, r.Closed, r.Segments, r.Ended,
		strings.Join(letters, ", "), r.Repeated, r.Uncommitted, r.FaultCount)
}
