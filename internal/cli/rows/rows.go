package rows

import (
	"encoding/base64"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/cli/text"
)

// Row is one measurement. A Writer does not retain its bytes.
type Row struct {
	Time time.Time
	// Meta is the identity of the series. Type 0 means that it has none.
	Meta bson.RawValue
	// Fields is a document of all other fields.
	Fields bson.Raw
}

// Options define which parts of a row are written, and how.
type Options struct {
	// TimeField and MetaField are the names of time and meta.
	TimeField, MetaField string
	// Fields are the fields to write, in this order, as top-level names or dotted paths. Nil means all.
	Fields []string
	// Flat gives each field of an object its own column, under its dotted path, in tables and CSV. It applies to all fields, so
	// Fields must be nil.
	Flat bool
	// Location is the time zone of times in tables and CSV. Nil means UTC.
	Location *time.Location
}

// Writer writes rows in some format.
type Writer interface {
	// Write writes a row.
	Write(r Row) error
	// Flush writes buffered rows. If the columns are not determined yet, these rows determine them.
	Flush() error
	// Omitted returns the fields that had no column, and the number of rows with such fields. Only CSV omits fields.
	Omitted() (names []string, rows int64)
}

// Sampler is a Writer whose columns can also depend on rows that are not written.
type Sampler interface {
	// Sample adds such a row. It must be called before the first Write.
	Sample(r Row)
}

// fields yields the fields to write of a row, which are all or the named ones.
func (o *Options) fields(r Row) iter.Seq2[string, bson.RawValue] {
	return func(yield func(string, bson.RawValue) bool) {
		if o.Fields == nil {
			elements, _ := r.Fields.Elements()
			for _, e := range elements {
				if !yield(e.Key(), e.Value()) {
					return
				}
			}
		}
		for _, path := range o.Fields {
			if v, ok := lookup(r.Fields, path); ok && !yield(path, v) {
				return
			}
		}
	}
}

// lookup returns the value of a field or a dotted path. False means that there is none.
func lookup(fields bson.Raw, path string) (bson.RawValue, bool) {
	v, err := fields.LookupErr(path)
	if err != nil && strings.Contains(path, ".") {
		v, err = fields.LookupErr(strings.Split(path, ".")...)
	}
	return v, err == nil
}

// Number returns the value of a field as a number. there reports whether the row has the field, and ok whether it is a number.
func (r Row) Number(path string) (value float64, there, ok bool) {
	v, there := lookup(r.Fields, path)
	if !there {
		return 0, false, false
	}
	value, ok = number(v)
	return value, true, ok
}

// Has reports whether the row has a field.
func (r Row) Has(path string) bool {
	_, there := lookup(r.Fields, path)
	return there
}

// names returns the names of a document's elements.
func names(document bson.Raw) (list []string) {
	elements, _ := document.Elements()
	for _, e := range elements {
		list = append(list, e.Key())
	}
	return list
}

// Names returns the names of the row's fields.
func (r Row) Names() []string { return names(r.Fields) }

// MetaNames returns the names of the fields of the meta, if it is an object.
func (r Row) MetaNames() []string {
	if object, ok := r.Meta.DocumentOK(); ok {
		return names(object)
	}
	return nil
}

// Label returns a short form of the meta: sensor=s-17 site=north, or the value itself.
func Label(meta bson.RawValue) string {
	object, ok := meta.DocumentOK()
	switch {
	case meta.Type == 0:
		return "(no meta)"
	case !ok:
		return Text(meta, nil)
	}
	elements, _ := object.Elements()
	parts := make([]string, 0, len(elements))
	for _, e := range elements {
		parts = append(parts, e.Key()+"="+Text(e.Value(), nil))
	}
	if len(parts) == 0 {
		return "{}"
	}
	return strings.Join(parts, " ")
}

// known adds a name to a list of distinct names in order of appearance. The list is bounded.
func known(list []string, name string) []string {
	const most = 100
	if len(list) < most && !slices.Contains(list, name) {
		list = append(list, name)
	}
	return list
}

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
	if o.Flat {
		return o.appendElements(dst, "", r.Fields, false)
	}
	for name, v := range o.fields(r) {
		dst = append(dst, o.cell(name, v, false))
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

// timeLayout has milliseconds, like the time of a measurement, and the offset from UTC.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// Time formats a time with milliseconds.
func Time(t time.Time, where *time.Location) string {
	if where == nil {
		where = time.UTC
	}
	return t.In(where).Format(timeLayout)
}

// Text formats a value for a table or CSV: text as it is, numbers in full, times like those of measurements, bytes in base64, and
// anything else in relaxed Extended JSON.
func Text(v bson.RawValue, where *time.Location) string {
	switch v.Type {
	case bson.TypeString:
		return v.StringValue()
	case bson.TypeInt32, bson.TypeInt64:
		return strconv.FormatInt(v.AsInt64(), 10)
	case bson.TypeDouble:
		return float(v.Double())
	case bson.TypeDecimal128:
		return v.Decimal128().String()
	case bson.TypeBoolean:
		return strconv.FormatBool(v.Boolean())
	case bson.TypeNull:
		return "null"
	case bson.TypeDateTime:
		return Time(v.Time(), where)
	case bson.TypeObjectID:
		return v.ObjectID().Hex()
	case bson.TypeBinary:
		return binary(v)
	}
	extended, err := Extended(v)
	if err != nil {
		return v.String()
	}
	return string(extended)
}

// float formats a number without loss, as decimals unless it is very large or very small.
func float(f float64) string {
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

func binary(v bson.RawValue) string {
	subtype, data := v.Binary()
	if subtype == bson.TypeBinaryUUID && len(data) == 16 {
		return text.UUID([16]byte(data))
	}
	return base64.StdEncoding.EncodeToString(data)
}

// Extended formats a value as relaxed Extended JSON.
func Extended(v bson.RawValue) ([]byte, error) {
	const begin, end = `{"v":`, `}`
	document, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: v}}, false, false)
	if err != nil {
		return nil, err
	}
	return document[len(begin) : len(document)-len(end)], nil
}

// number returns the value as a number.
func number(v bson.RawValue) (float64, bool) {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		return float64(v.AsInt64()), true
	case bson.TypeDouble:
		return v.Double(), true
	case bson.TypeDecimal128:
		f, err := strconv.ParseFloat(v.Decimal128().String(), 64)
		return f, err == nil
	}
	return 0, false
}
