package main

import (
	"fmt"
	"slices"
	"strings"

	"waterwheel/measurement"
)

// warnOfReasons tells of reasons asked for that no letter can have, by a slip. Others than ours are no mistake where letters
// have them: another program may have written those. seen counts letters by reason.
func (p *program) warnOfReasons(asked []string, seen map[string]int64) {
	reasons := measurement.Reasons()
	for _, reason := range asked {
		if seen[reason] > 0 || slices.Contains(reasons, measurement.Reason(reason)) {
			continue
		}
		names := make([]string, len(reasons))
		for i, r := range reasons {
			names[i] = string(r)
		}
		fmt.Fprintf(p.stderr, "No letter was found of the reason %q, and there is no such reason: %s.\n", reason, strings.Join(names, ", "))
	}
}
