package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"waterwheel/internal/measurement"
	"waterwheel/internal/words"
)

// checkReasons refuses a reason that is one of ours but for a slip: no letter would be found, and that taken for good news.
func checkReasons(asked []string) error {
	known := reasonNames()
	for _, reason := range asked {
		if reason == "" {
			return usageError{fmt.Errorf("--reason names none: the reasons are %s", strings.Join(known, ", "))}
		}
		if near := words.Near(reason, known); near != "" && !slices.Contains(known, reason) {
			return usageError{fmt.Errorf("--reason is %q: did you mean %s? The reasons are %s", reason, near, strings.Join(known, ", "))}
		}
	}
	return nil
}

func reasonNames() []string {
	var names []string
	for _, r := range measurement.Reasons() {
		names = append(names, string(r))
	}
	return names
}

// warnOfReasons tells of reasons asked for that no letter can have, by a slip. Others than ours are no mistake where letters
// have them: another program may have written those. seen counts letters by reason. The error is of a command line that selects
// no letter because of that.
func (p *Program) warnOfReasons(asked []string, seen map[string]int64, selected bool) (wrong error) {
	for _, reason := range asked {
		if seen[reason] > 0 || slices.Contains(reasonNames(), reason) {
			continue
		}
		if !selected {
			wrong = usageError{errors.New("no letter is selected")}
		}
		fmt.Fprintf(p.Stderr, "No letter was found of the reason %q, and there is no such reason: %s.\n", reason, strings.Join(reasonNames(), ", "))
	}
	return wrong
}
