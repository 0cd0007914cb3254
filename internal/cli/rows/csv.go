package rows

import (
	"encoding/csv"
	"io"
	"slices"
)

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
