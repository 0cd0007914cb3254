package rows

import (
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Row is one measurement. A Writer does not retain its bytes.
type Row struct {
	Time time.Time
	// Meta is the identity of the series. Type 0 means that it has none.
	Meta bson.RawValue
	// Fields is a document of all other fields.
	Fields bson.Raw
}

// Options define what is written of a row, and how.
type Options struct {
	// TimeField and MetaField are the names of time and meta.
	TimeField, MetaField string
	// Fields are the fields to write, in this order, as top-level names or dotted paths. Nil means all.
	Fields []string
	// Flat gives each field of an object its own column, under its dotted path, in tables and CSV.
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
