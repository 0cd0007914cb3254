package check

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/events"
)

// These are the bucketing rules of the judged runs, which use the defaults.
const (
	timeField = "time"
	metaField = "meta"
	maxCount  = 1000
	span      = time.Hour
	rounding  = time.Minute
)

// compareWith compares a bucket with the readings it lists, in its order.
func (b *bucket) compareWith(readings []*events.Reading) {
	opened := b.opens(readings)
	if seconds := b.ID.Timestamp().Unix(); seconds != opened/1000 {
		b.wrong("_id has time %d s, want %d", seconds, opened/1000)
	}
	smallest, largest := extremes{sign: -1}, extremes{sign: 1}
	smallest.add(timeField, bson.DateTime(opened))
	for i, r := range readings {
		meta := b.Meta
		if b.Control.Segment != nil {
			meta = b.rows[i][metaField]
			delete(b.rows[i], metaField)
			smallest.add(metaField, normalised(r.Meta))
			largest.add(metaField, normalised(r.Meta))
		}
		if !sameValue(unedited(meta), normalised(r.Meta)) {
			b.wrong("measurement %d is of series %v, stored as %s", i, r.Meta, meta)
		}
		if r.Time < opened || r.Time >= opened+span.Milliseconds() {
			b.wrong("measurement %d has time %d, outside the bucket's hour from %d", i, r.Time, opened)
		}
		if fault := compareRow(b.rows[i], r); fault != "" {
			b.wrong("measurement %d: %s", i, fault)
		}
		largest.add(timeField, bson.DateTime(r.Time))
		for _, f := range r.Fields {
			smallest.add(f.Key, f.Value)
			largest.add(f.Key, f.Value)
		}
	}
	if !same(b.Control.Min, smallest.values) {
		b.wrong("control.min is %v, want %v", b.Control.Min, smallest.values)
	}
	if !same(b.Control.Max, largest.values) {
		b.wrong("control.max is %v, want %v", b.Control.Max, largest.values)
	}
}

// compareRow compares one stored measurement with its reading. The time and all fields must be equal, and no other field may
// exist.
func compareRow(row row, r *events.Reading) string {
	if !sameValue(row[timeField], bson.DateTime(r.Time)) {
		return fmt.Sprintf("time is %s, want %d", row[timeField], r.Time)
	}
	for _, f := range r.Fields {
		if stored, ok := row[f.Key]; !ok || !sameValue(stored, f.Value) {
			return fmt.Sprintf("%s is %s, want %v", f.Key, stored, f.Value)
		}
	}
	if len(row) != len(r.Fields)+1 {
		return fmt.Sprintf("it has %d fields, want %d", len(row), len(r.Fields)+1)
	}
	return ""
}

// normalised sorts the fields of objects by name at every depth, because the identity of a series does not depend on their order.
func normalised(v any) any {
	switch v := v.(type) {
	case bson.D:
		sorted := make(bson.D, len(v))
		for i, e := range v {
			sorted[i] = bson.E{Key: e.Key, Value: normalised(e.Value)}
		}
		slices.SortFunc(sorted, func(a, b bson.E) int { return cmp.Compare(a.Key, b.Key) })
		return sorted
	case bson.A:
		elements := make(bson.A, len(v))
		for i, e := range v {
			elements[i] = normalised(e)
		}
		return elements
	default:
		return v
	}
}

// EditedField is the field that edits of metas add to metas that are objects. No event has it.
const EditedField = "edited"

// unedited returns a stored meta as it was before edits.
func unedited(meta bson.RawValue) bson.RawValue {
	document, ok := meta.DocumentOK()
	if _, err := document.LookupErr(EditedField); !ok || err != nil {
		return meta
	}
	var fields bson.D
	if err := meta.Unmarshal(&fields); err != nil {
		return meta
	}
	kind, before, err := bson.MarshalValue(slices.DeleteFunc(fields, func(e bson.E) bool { return e.Key == EditedField }))
	if err != nil {
		return meta
	}
	return bson.RawValue{Type: kind, Value: before}
}

// sameValue reports whether a stored value equals the expected one, in type and bytes.
func sameValue(stored bson.RawValue, want any) bool {
	if want == nil { // MarshalValue does not accept nil
		return stored.Type == bson.TypeNull
	}
	kind, data, err := bson.MarshalValue(want)
	return err == nil && stored.Type == kind && bytes.Equal(stored.Value, data)
}

// same reports whether two decoded values are equal in type and value. The order of an object's fields does not matter.
func same(a, b any) bool {
	switch a := a.(type) {
	case bson.D:
		b, ok := b.(bson.D)
		if !ok || len(a) != len(b) {
			return false
		}
		for _, e := range a {
			at := slices.IndexFunc(b, func(f bson.E) bool { return f.Key == e.Key })
			if at < 0 || !same(e.Value, b[at].Value) {
				return false
			}
		}
		return true
	case bson.A:
		b, ok := b.(bson.A)
		return ok && slices.EqualFunc(a, b, same)
	default:
		return a == b
	}
}

// extremes holds the smallest (sign -1) or largest (sign 1) values of a bucket's fields. It computes them in the simplest way.
type extremes struct {
	sign   int
	values bson.D
}

// add merges a field of a measurement into the extremes.
func (x *extremes) add(name string, value any) {
	x.values = merged(x.values, bson.E{Key: name, Value: value}, x.sign)
}

// merged returns a copy of the document with a field merged into it. On a tie the first value stays.
func merged(d bson.D, e bson.E, sign int) bson.D {
	d = slices.Clone(d)
	at := slices.IndexFunc(d, func(f bson.E) bool { return f.Key == e.Key })
	if at < 0 {
		return append(d, e)
	}
	d[at].Value = extreme(d[at].Value, e.Value, sign)
	return d
}

// extreme returns the smaller or larger of the present extreme and a new value. It merges objects field by field and arrays by
// position, and compares all other values as a whole. Values of different types are ordered by the rank of their types. It changes
// neither value, because both may belong to measurements.
func extreme(seen, value any, sign int) any {
	switch s := seen.(type) {
	case bson.D:
		if v, ok := value.(bson.D); ok {
			for _, e := range v {
				s = merged(s, e, sign)
			}
			return s
		}
	case bson.A:
		if v, ok := value.(bson.A); ok {
			s = slices.Clone(s)
			for i, e := range v {
				if i < len(s) {
					s[i] = extreme(s[i], e, sign)
				} else {
					s = append(s, e)
				}
			}
			return s
		}
	}
	if compare(value, seen)*sign > 0 {
		return value
	}
	return seen
}

// compare orders values as MongoDB does, for the types that occur in events.
func compare(a, b any) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case int32, int64, float64:
		return compareNumbers(a, b)
	case string:
		return cmp.Compare(a, b.(string))
	case bool:
		if a == b {
			return 0
		}
		if a {
			return 1
		}
		return -1
	case bson.DateTime:
		return cmp.Compare(a, b.(bson.DateTime))
	default:
		return 0
	}
}

// rank returns the position of a value's type in MongoDB's order.
func rank(v any) int {
	switch v.(type) {
	case nil:
		return 5
	case int32, int64, float64:
		return 10
	case string:
		return 15
	case bson.D:
		return 20
	case bson.A:
		return 25
	case bool:
		return 40
	case bson.DateTime:
		return 45
	default:
		panic("check: a value of a type that events are not made of")
	}
}

// compareNumbers compares numbers by value. Two integers are compared exactly, all others as doubles.
func compareNumbers(a, b any) int {
	x, xDouble, xWhole := number(a)
	y, yDouble, yWhole := number(b)
	if xWhole && yWhole {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(xDouble, yDouble)
}

// number returns a number as an integer, if it is one, and as a double.
func number(v any) (n int64, f float64, whole bool) {
	switch v := v.(type) {
	case int32:
		return int64(v), float64(v), true
	case int64:
		return v, float64(v), true
	default:
		return 0, v.(float64), false
	}
}
