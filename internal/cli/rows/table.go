package rows

import (
	"encoding/csv"
	"io"
	"slices"
	"unicode/utf8"

	"waterwheel/internal/cli/text"
)

// form is how a sheet is written.
type form interface {
	// begin writes the titles of the columns. rows determine their widths.
	begin(rows [][]cell) error
	// print writes a row.
	print(row []cell) error
}

// sheet puts rows into columns. It buffers the first rows, which determine the columns.
type sheet struct {
	form
	o       Options
	most    int // rows that are buffered
	begun   bool
	first   [][]cell
	samples [][]cell // determine the columns, but are not written

	columns     columns
	row, placed []cell
}

// Write implements Writer.
func (s *sheet) Write(r Row) error {
	if s.begun {
		s.row = s.o.cells(s.row, r)
		return s.print(s.row)
	}
	s.first = append(s.first, s.o.cells(nil, r))
	if len(s.first) == s.most {
		return s.Flush()
	}
	return nil
}

// Sample implements Sampler.
func (s *sheet) Sample(r Row) { s.samples = append(s.samples, s.o.cells(nil, r)) }

// Flush implements Writer.
func (s *sheet) Flush() error {
	if s.begun || len(s.first) == 0 {
		return nil
	}
	s.begun = true
	all := slices.Concat(s.samples, s.first)
	s.columns = s.o.newColumns(all)
	if err := s.begin(all); err != nil {
		return err
	}
	for _, row := range s.first {
		if err := s.print(row); err != nil {
			return err
		}
	}
	s.first, s.samples = nil, nil
	return nil
}

// Omitted implements Writer.
func (s *sheet) Omitted() ([]string, int64) { return nil, 0 }

// place assigns the cells of a row to the columns, and returns the cells without a column.
func (s *sheet) place(row []cell) (others []cell) {
	s.placed, others = s.columns.place(s.placed, row)
	return others
}

// screen is how many rows determine the columns of a table.
const screen = 40

// table writes columns as wide as the first rows need. Cells without a column are written at the end of their row, with their
// names.
type table struct {
	sheet
	w      io.Writer
	width  []int
	right  []bool // columns of numbers
	buffer []byte
}

// NewTable returns a Writer of a table. The first rows determine its columns.
func NewTable(w io.Writer, o Options) Writer {
	t := &table{sheet: sheet{o: o, most: screen}, w: w}
	t.form = t
	return t
}

func (t *table) begin(rows [][]cell) error {
	n := len(t.columns.list)
	t.width, t.right = make([]int, n), slices.Repeat([]bool{true}, n)
	title := make([]cell, n)
	for i, name := range t.columns.title {
		title[i] = cell{text: name}
		t.width[i] = utf8.RuneCountInString(name)
	}
	for _, row := range rows {
		t.place(row)
		for i, one := range t.placed {
			t.width[i] = max(t.width[i], utf8.RuneCountInString(text.Printable(one.text)))
			t.right[i] = t.right[i] && (one.number || one.name == "")
		}
	}
	return t.line(title, nil)
}

func (t *table) print(row []cell) error {
	others := t.place(row)
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
	sheet
	w           *csv.Writer
	record      []string
	omitted     []string
	omittedRows int64
}

// NewCSV returns a Writer of CSV with a header.
func NewCSV(w io.Writer, o Options) Writer {
	c := &csvWriter{sheet: sheet{o: o, most: headerRows}, w: csv.NewWriter(w)}
	c.form = c
	return c
}

// Flush implements Writer.
func (c *csvWriter) Flush() error {
	if err := c.sheet.Flush(); err != nil {
		return err
	}
	c.w.Flush()
	return c.w.Error()
}

// Omitted implements Writer.
func (c *csvWriter) Omitted() ([]string, int64) { return c.omitted, c.omittedRows }

func (c *csvWriter) begin([][]cell) error { return c.w.Write(c.columns.title) }

func (c *csvWriter) print(row []cell) error {
	others := c.place(row)
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
