package measurement

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Format is how the value of a record is encoded.
type Format string

// The formats.
const (
	JSON    Format = "json"    // one object, or an array of objects
	ExtJSON Format = "extjson" // the same with MongoDB's Extended JSON, relaxed or canonical
	BSON    Format = "bson"    // one document
)

// MetaSource says where the identity of a measurement's series comes from.
type MetaSource string

// The sources of meta.
const (
	MetaFromValue MetaSource = "value" // the event's MetaField
	MetaFromKey   MetaSource = "key"   // the record's key: parsed when it is a JSON object, else as text
	MetaFromNone  MetaSource = "none"  // the collection has a single series
)

// DottedNames says what becomes of field names with dots.
type DottedNames string

// The ways to treat dotted names.
const (
	Nest   DottedNames = "nest"   // a.b becomes b in the object a
	Reject DottedNames = "reject" // bad_field_name
)

// maxMaxBytes keeps the BSON of a record, at most eight times its JSON, below the 2 GiB that BSON can count.
const maxMaxBytes = 128 << 20

// Options say how records are read. The zero value of a field means its default.
type Options struct {
	// Format of the records' values; default JSON.
	Format Format
	// TimeField is the dotted path to the measurement's time in the event; empty: the record's timestamp is its time.
	TimeField string
	// TimeFormat is auto (default), rfc3339, unix, unix_ms, unix_us, unix_ns or a Go layout.
	TimeFormat string
	// TimeMin and TimeMax bound the accepted times, both included; default: 1990, and a day after the record's timestamp.
	TimeMin, TimeMax Bound
	// MetaField is the dotted path to the series' identity in the event; used when MetaFrom is MetaFromValue.
	MetaField string
	// MetaFrom is the source of meta; default MetaFromValue.
	MetaFrom MetaSource
	// DottedNames says what becomes of field names with dots; default Nest.
	DottedNames DottedNames
	// MaxBytes bounds a record's value; default 1 MiB.
	MaxBytes int
	// StoredTime and StoredMeta are the names that time and meta have in the stored measurement; no other field of an
	// event may have them. Empty: not checked.
	StoredTime, StoredMeta string
}

// withDefaults returns the options with every default filled in, or what is wrong with them.
func (o Options) withDefaults() (Options, error) {
	o.Format = cmp.Or(o.Format, JSON)
	o.TimeFormat = cmp.Or(o.TimeFormat, formatAuto)
	o.TimeMin = cmp.Or(o.TimeMin, At(time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()))
	o.TimeMax = cmp.Or(o.TimeMax, FromRecord(24*time.Hour))
	o.MetaFrom = cmp.Or(o.MetaFrom, MetaFromValue)
	o.DottedNames = cmp.Or(o.DottedNames, Nest)
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<20)
	return o, o.validate()
}

func (o Options) validate() error {
	if o.Format != JSON && o.Format != ExtJSON && o.Format != BSON {
		return fmt.Errorf("format %q is none of json, extjson, bson", o.Format)
	}
	if o.MetaFrom != MetaFromValue && o.MetaFrom != MetaFromKey && o.MetaFrom != MetaFromNone {
		return fmt.Errorf("source of meta %q is none of value, key, none", o.MetaFrom)
	}
	if o.DottedNames != Nest && o.DottedNames != Reject {
		return fmt.Errorf("treatment of dotted names %q is none of nest, reject", o.DottedNames)
	}
	if o.MaxBytes < 0 || o.MaxBytes > maxMaxBytes {
		return fmt.Errorf("largest size of an event is %d bytes, not between 1 and %d", o.MaxBytes, maxMaxBytes)
	}
	if err := CheckTimeFormat(o.TimeFormat); err != nil {
		return fmt.Errorf("time format %q is %w", o.TimeFormat, err)
	}
	if err := CheckPath(o.TimeField); err != nil {
		return fmt.Errorf("time field %q is %w", o.TimeField, err)
	}
	if o.MetaFrom != MetaFromValue {
		return nil
	}
	if o.MetaField == "" {
		return fmt.Errorf("meta field is empty: name it, or take meta from key or none")
	}
	if err := CheckPath(o.MetaField); err != nil {
		return fmt.Errorf("meta field %q is %w", o.MetaField, err)
	}
	if o.TimeField != "" && (isPathPrefix(o.TimeField, o.MetaField) || isPathPrefix(o.MetaField, o.TimeField)) {
		return fmt.Errorf("time field %q and meta field %q lie inside one another", o.TimeField, o.MetaField)
	}
	return nil
}

// CheckPath tells why a dotted path leads to no field; nil: it may. The empty path names none. The error goes on behind the
// path.
func CheckPath(path string) error {
	for name := range strings.SplitSeq(path, ".") {
		if path != "" && (name == "" || name[0] == '$' || strings.ContainsRune(name, 0)) {
			return errors.New("not a dotted path: one of its names is empty, begins with $ or holds a NUL")
		}
	}
	return nil
}

// isPathPrefix reports whether a is b or leads to an object that holds b.
func isPathPrefix(a, b string) bool {
	return strings.HasPrefix(b+".", a+".")
}
