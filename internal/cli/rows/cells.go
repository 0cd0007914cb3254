package rows

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// cell is a value as text, with the name of its column.
type cell struct {
	name   string
	meta   bool // a part of the meta
	text   string
	number bool
}

// cells returns the texts of a row: the time, then the meta, then the fields.
func (o *Options) cells(dst []cell, r Row) []cell {
	dst = append(dst[:0], cell{name: o.TimeField, text: Time(r.Time, o.Location)})
	if object, ok := r.Meta.DocumentOK(); ok {
		dst = o.appendElements(dst, "", object, true)
	} else if r.Meta.Type != 0 {
		dst = append(dst, o.cell(o.MetaField, r.Meta, false))
	}
	if o.Fields == nil {
		return o.appendElements(dst, "", r.Fields, false)
	}
	for _, path := range o.Fields {
		if v, ok := lookup(r.Fields, path); ok {
			dst = append(dst, o.cell(path, v, false))
		}
	}
	return dst
}

// appendElements appends the elements of a document. prefix comes before their names.
func (o *Options) appendElements(dst []cell, prefix string, document bson.Raw, meta bool) []cell {
	elements, _ := document.Elements()
	for _, e := range elements {
		name := prefix + e.Key()
		if object, ok := e.Value().DocumentOK(); ok && o.Flat && !meta {
			dst = o.appendElements(dst, name+".", object, false)
			continue
		}
		dst = append(dst, o.cell(name, e.Value(), meta))
	}
	return dst
}

func (o *Options) cell(name string, v bson.RawValue, meta bool) cell {
	_, isNumber := number(v)
	return cell{name: name, meta: meta, text: Text(v, o.Location), number: isNumber}
}

// column identifies the column of cells.
type column struct {
	name string
	meta bool
}

// columns are the columns of an output, in order.
type columns struct {
	list  []column
	title []string
}

// newColumns returns columns for the time, for all known parts of metas, and for the named or all known fields.
func (o *Options) newColumns(rows [][]cell) columns {
	c := columns{list: []column{{name: o.TimeField}}}
	for _, wanted := range []bool{true, false} {
		for _, row := range rows {
			for _, one := range row[1:] {
				whole := one.name == o.MetaField && !one.meta
				if part := one.meta || whole; part == wanted && (part || o.Fields == nil) {
					c.add(column{one.name, one.meta})
				}
			}
		}
	}
	for _, name := range o.Fields {
		c.add(column{name: name})
	}
	for _, one := range c.list {
		name := one.name
		if one.meta && slices.ContainsFunc(c.list, func(other column) bool { return other == column{name: name} }) {
			name = o.MetaField + "." + name // a field has the same name
		}
		c.title = append(c.title, name)
	}
	return c
}

func (c *columns) add(one column) {
	if !slices.Contains(c.list, one) {
		c.list = append(c.list, one)
	}
}

// place assigns each cell to its column, and returns the cells without a column.
func (c *columns) place(dst []cell, row []cell) (placed, others []cell) {
	placed = slices.Grow(dst[:0], len(c.list))[:len(c.list)]
	clear(placed)
	next := 0
	for _, one := range row {
		// In most rows, the cells are in the order of the columns.
		i := slices.Index(c.list[next:], column{one.name, one.meta})
		if i < 0 {
			if i = slices.Index(c.list, column{one.name, one.meta}); i < 0 {
				others = append(others, one)
				continue
			}
			next = 0
		}
		placed[next+i] = one
		next += i
	}
	return placed, others
}

// rest formats cells without a column as name=value.
func rest(others []cell) string {
	parts := make([]string, len(others))
	for i, one := range others {
		parts[i] = one.name + "=" + one.text
	}
	return strings.Join(parts, " ")
}
