package text

import (
	"fmt"
	"io"
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
