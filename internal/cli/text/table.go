package text

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Table is a table whose columns are as wide as their widest cells. It writes nothing before Flush.
type Table struct{ columns *tabwriter.Writer }

// NewTable returns a table that begins with these titles, if there are any.
func NewTable(w io.Writer, titles ...string) *Table {
	t := &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(titles) > 0 {
		t.Title(titles...)
	}
	return t
}

// Title writes a row of titles.
func (t *Table) Title(titles ...string) { fmt.Fprintln(t.columns, strings.Join(titles, "\t")) }

// Row writes a row. Strings are made printable, times are formatted with Time, and everything else with fmt.
func (t *Table) Row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		if at, ok := cell.(time.Time); ok {
			cell = Time(at)
		}
		texts[i] = Printable(fmt.Sprint(cell))
	}
	fmt.Fprintln(t.columns, strings.Join(texts, "\t"))
}

// Flush writes the rows. The underlying writer keeps any error.
func (t *Table) Flush() { _ = t.columns.Flush() }

// longestBar is the length of the longest bar in characters.
const longestBar = 40

// Chart writes counts with bars, the largest first.
func Chart(w io.Writer, title, things string, counts map[string]int64) {
	table := NewTable(w, title, things, "")
	names := ByCount(counts)
	for _, name := range names {
		table.Row(name, counts[name], Bar(counts[name], counts[names[0]]))
	}
	table.Flush()
}

// Bar draws a count. Every count has at least a dot.
func Bar(count, most int64) string {
	if n := count * longestBar / max(1, most); n > 0 {
		return strings.Repeat("█", int(n))
	}
	return "·"
}

// ByCount returns the names, sorted by descending count.
func ByCount(counts map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

// Sum returns the sum of counts.
func Sum(counts map[string]int64) (n int64) {
	for _, count := range counts {
		n += count
	}
	return n
}
