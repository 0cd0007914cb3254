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

// Table is columns, as wide as their widest cells. It writes nothing before it is flushed.
type Table struct{ columns *tabwriter.Writer }

// NewTable returns a table that begins with these titles, when there are any.
func NewTable(w io.Writer, titles ...string) *Table {
	t := &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(titles) > 0 {
		t.Title(titles...)
	}
	return t
}

// Title writes a row of titles.
func (t *Table) Title(titles ...string) { fmt.Fprintln(t.columns, strings.Join(titles, "\t")) }

// Row writes a row: strings are made printable, times written as Time does, and whatever else as fmt does.
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

// Flush writes the rows. An error of writing is the writer's to keep.
func (t *Table) Flush() { _ = t.columns.Flush() }

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
