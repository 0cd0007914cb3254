package rows

import (
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Row is one measurement. Its bytes are read before a call returns, and not kept.
type Row struct {
	Time time.Time
	// Meta is the identity of the series. Type 0 means that it has none.
	Meta bson.RawValue
	// Fields is a document of everything else.
	Fields bson.Raw
}

// Options say what is written of a row, and how.
type Options struct {
	// TimeField and MetaField are what time and meta are called.
	TimeField, MetaField string
	// Fields are those that are written, top-level or dotted paths, in this order. Nil means all.
	Fields []string
	// Flat gives each field of an object a column of its own, under its dotted path, in tables and CSV.
	Flat bool
	// Location is where times are told in tables and CSV. Nil means UTC.
	Location *time.Location
}

// Writer writes rows in some form.
type Writer interface {
	// Write takes a row.
	Write(r Row) error
	// Flush writes what is kept back: columns are decided by what came until then.
	Flush() error
	// Omitted tells of fields that had no column, as only CSV has to, and in how many rows.
	Omitted() (names []string, rows int64)
}

// Sampler is a Writer whose columns rows that are not written can decide about, too.
type Sampler interface {
	// Sample takes such a row, before the first Write.
	Sample(r Row)
}

// lookup is the value of a field or a dotted path. False means that there is none.
func lookup(fields bson.Raw, path string) (bson.RawValue, bool) {
	v, err := fields.LookupErr(path)
	if err != nil && strings.Contains(path, ".") {
		v, err = fields.LookupErr(strings.Split(path, ".")...)
	}
	return v, err == nil
}

// Number is the value of a field as a number; there: the row has the field; ok: it is a number.
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

// names are the names of a document's elements.
func names(document bson.Raw) (list []string) {
	elements, _ := document.Elements()
	for _, e := range elements {
		list = append(list, e.Key())
	}
	return list
}

// Names are the names of the row's fields.
func (r Row) Names() []string { return names(r.Fields) }

// MetaNames are the names of the fields of the meta, if it is an object.
func (r Row) MetaNames() []string {
	if object, ok := r.Meta.DocumentOK(); ok {
		return names(object)
	}
	return nil
}

// Label is the meta in short: sensor=s-17 site=north, or the value itself.
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

// known keeps names in their order of appearance, a bounded number of them.
func known(list []string, name string) []string {
	const most = 100
	if len(list) < most && !slices.Contains(list, name) {
		list = append(list, name)
	}
	return list
}
