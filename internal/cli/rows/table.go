package rows

import (
	"encoding/csv"
	"io"
	"slices"
	"unicode/utf8"

	"waterwheel/internal/cli/text"
)

// screen is how many rows determine the columns of a table.
const screen = 40

// table writes columns as wide as the first rows need. Cells without a column are written at the end of their row, with their
// names.
type table struct {
	o       Options
	w       io.Writer
	first   [][]cell // Nil means that the columns are determined.
	begun   bool
	samples [][]cell // determine the columns, but are not written

	columns columns
	width   []int
	right   []bool // columns of numbers
	row     []cell
	placed  []cell
	buffer  []byte
}

// NewTable returns a Writer of a table. The first rows determine its columns.
func NewTable(w io.Writer, o Options) Writer { return &table{o: o, w: w} }

// Write implements Writer.
func (t *table) Write(r Row) error {
	if t.begun {
		t.row = t.o.cells(t.row, r)
		return t.print(t.row)
	}
	t.first = append(t.first, t.o.cells(nil, r))
	if len(t.first) == screen {
		return t.begin()
	}
	return nil
}

// Sample implements Sampler.
func (t *table) Sample(r Row) { t.samples = append(t.samples, t.o.cells(nil, r)) }

// Flush implements Writer.
func (t *table) Flush() error {
	if t.begun || len(t.first) == 0 {
		return nil
	}
	return t.begin()
}

// Omitted implements Writer.
func (t *table) Omitted() ([]string, int64) { return nil, 0 }

// begin determines the columns and prints the buffered rows.
func (t *table) begin() error {
	t.begun = true
	t.columns = t.o.newColumns(slices.Concat(t.samples, t.first))
	n := len(t.columns.list)
	t.width, t.right = make([]int, n), slices.Repeat([]bool{true}, n)
	title := make([]cell, n)
	for i, name := range t.columns.title {
		title[i] = cell{text: name}
		t.width[i] = utf8.RuneCountInString(name)
	}
	for _, row := range slices.Concat(t.samples, t.first) {
		t.placed, _ = t.columns.place(t.placed, row)
		for i, one := range t.placed {
			t.width[i] = max(t.width[i], utf8.RuneCountInString(text.Printable(one.text)))
			t.right[i] = t.right[i] && (one.number || one.name == "")
		}
	}
	if err := t.line(title, nil); err != nil {
		return err
	}
	for _, row := range t.first {
		if err := t.print(row); err != nil {
			return err
		}
	}
	t.first, t.samples = nil, nil
	return nil
}

func (t *table) print(row []cell) error {
	var others []cell
	t.placed, others = t.columns.place(t.placed, row)
	for i := range t.placed {
		if t.placed[i].name == "" {
			t.placed[i].text = text.Unknown
		}
	}
	return t.line(t.placed, others)
}

// line writes cells, followed by those without a column.
func (t *table) line(row, others []cell) error {
	const between = "  "
	b := t.buffer[:0]
	blanks := 0
	for i, one := range row {
		shown := text.Printable(one.text)
		pad := max(0, t.width[i]-utf8.RuneCountInString(shown))
		if i > 0 {
			blanks += len(between)
		}
		if t.right[i] {
			blanks, pad = blanks+pad, 0
		}
		b = append(blank(b, blanks), shown...)
		blanks = pad
	}
	if len(others) > 0 {
		b = append(append(blank(b, blanks), between...), text.Printable(rest(others))...)
	}
	t.buffer = append(b, '\n')
	_, err := t.w.Write(t.buffer)
	return err
}

func blank(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
	}
	return b
}

// headerRows is how many rows determine the header of CSV if no fields are named.
const headerRows = 1000

// csvWriter writes CSV. The header has the named fields, or all fields of the first rows.
type csvWriter struct {
	o       Options
	w       *csv.Writer
	first   [][]cell
	begun   bool
	samples [][]cell // determine the columns, but are not written
	columns columns

	row, placed []cell
	record      []string
	omitted     []string
	omittedRows int64
}

// NewCSV returns a Writer of CSV with a header.
func NewCSV(w io.Writer, o Options) Writer { return &csvWriter{o: o, w: csv.NewWriter(w)} }

// Write implements Writer.
func (c *csvWriter) Write(r Row) error {
	if c.begun {
		c.row = c.o.cells(c.row, r)
		return c.print(c.row)
	}
	c.first = append(c.first, c.o.cells(nil, r))
	if len(c.first) == headerRows {
		return c.begin()
	}
	return nil
}

// Sample implements Sampler.
func (c *csvWriter) Sample(r Row) { c.samples = append(c.samples, c.o.cells(nil, r)) }

// Flush implements Writer.
func (c *csvWriter) Flush() error {
	if !c.begun && len(c.first) > 0 {
		if err := c.begin(); err != nil {
			return err
		}
	}
	c.w.Flush()
	return c.w.Error()
}

// Omitted implements Writer.
func (c *csvWriter) Omitted() ([]string, int64) { return c.omitted, c.omittedRows }

func (c *csvWriter) begin() error {
	c.begun = true
	c.columns = c.o.newColumns(slices.Concat(c.samples, c.first))
	if err := c.w.Write(c.columns.title); err != nil {
		return err
	}
	for _, row := range c.first {
		if err := c.print(row); err != nil {
			return err
		}
	}
	c.first, c.samples = nil, nil
	return nil
}

func (c *csvWriter) print(row []cell) error {
	var others []cell
	c.placed, others = c.columns.place(c.placed, row)
	c.record = c.record[:0]
	for _, one := range c.placed {
		c.record = append(c.record, one.text)
	}
	if len(others) > 0 {
		c.omittedRows++
	}
	for _, one := range others {
		c.omitted = known(c.omitted, one.name)
	}
	return c.w.Write(c.record)
}
