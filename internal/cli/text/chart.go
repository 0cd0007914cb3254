package text

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"
)

// longestBar is the length of the longest bar in characters.
const longestBar = 40

// Chart writes counts of things with bars, the largest first.
func Chart(w io.Writer, title, things string, counts map[string]int64) {
	table := NewTable(w, title, things, "")
	names := ByCount(counts)
	for _, name := range names {
		table.Row(name, counts[name], Bar(counts[name], counts[names[0]]))
	}
	table.Flush()
}

// Bar draws a count; every count has at least a dot.
func Bar(count, most int64) string {
	if n := count * longestBar / max(1, most); n > 0 {
		return strings.Repeat("█", int(n))
	}
	return "·"
}

// ByCount lists names, those of large counts first.
func ByCount(counts map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

// Sum adds counts up.
func Sum(counts map[string]int64) (n int64) {
	for _, count := range counts {
		n += count
	}
	return n
}
