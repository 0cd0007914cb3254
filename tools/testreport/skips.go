package main

import (
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// skips are the skipped tests by their reason.
type skips map[string][]test

// source matches the position in a file with which a log line begins.
var source = regexp.MustCompile(`^\S+\.go:\d+: `)

func (s skips) add(t test, output []string) {
	reason := "no reason given"
	for _, line := range output {
		if text := strings.TrimSpace(line); !strings.HasPrefix(text, "===") && !strings.HasPrefix(text, "---") {
			reason = source.ReplaceAllString(text, "")
			break
		}
	}
	s[reason] = append(s[reason], t)
}

// print prints a line for each reason, with the number of tests and their packages.
func (s skips) print(out io.Writer) {
	if len(s) > 0 {
		fmt.Fprintln(out, "\nskipped:")
	}
	for _, reason := range slices.Sorted(maps.Keys(s)) {
		var packages []string
		for _, t := range s[reason] {
			packages = append(packages, path.Base(t.pkg))
		}
		slices.Sort(packages)
		fmt.Fprintf(out, "%5d of %s: %s\n", len(s[reason]), strings.Join(slices.Compact(packages), ", "), reason)
	}
}
