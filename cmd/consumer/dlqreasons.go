package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"waterwheel/measurement"
)

// checkReasons refuses a reason that is one of ours but for a slip: no letter would be found, and that taken for good news.
func checkReasons(asked []string) error {
	known := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, name := range reasonNames() {
		known.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	for _, reason := range asked {
		name := strings.ReplaceAll(strings.ToLower(reason), "-", "_")
		if near := known.SuggestionsFor(name); len(near) > 0 && !slices.Contains(near, reason) {
			return usageError{fmt.Errorf("--reason is %q: did you mean %s? The reasons are %s", reason, strings.Join(near, " or "),
				strings.Join(reasonNames(), ", "))}
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
// have them: another program may have written those. seen counts letters by reason. It reports whether it told of any.
func (p *program) warnOfReasons(asked []string, seen map[string]int64) (told bool) {
	for _, reason := range asked {
		if seen[reason] > 0 || slices.Contains(reasonNames(), reason) {
			continue
		}
		told = true
		fmt.Fprintf(p.stderr, "No letter was found of the reason %q, and there is no such reason: %s.\n", reason, strings.Join(reasonNames(), ", "))
	}
	return told
}
