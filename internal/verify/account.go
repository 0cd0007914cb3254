package verify

import (
	"fmt"
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
)

// accounts are the values that a bucket's control must have, computed from the columns alone.
type accounts struct {
	timeField         string
	earliest, latest  int64
	lower, upper      *extreme // the extremes of the fields, as objects, without the time
	columns, extremes int      // accounted bytes of the columns, and of one copy of each field's first value in min and max
}

// account computes the accounts of the columns (the object data) of a bucket that can be unpacked.
func account(data []byte, timeField string) accounts {
	a := accounts{
		timeField: timeField, earliest: math.MaxInt64, latest: math.MinInt64,
		lower: newObject(), upper: newObject(),
	}
	for column := range elementsOf(data) {
		a.column(string(column.name), column.value.Value)
	}
	return a
}

func (a *accounts) column(name string, values []byte) {
	const header = 12 // an empty object under the column's name
	a.columns += header + len(name)
	count := 0
	for e := range elementsOf(values) {
		digits := 0 // the first index counts as empty
		if count > 0 {
			digits = len(strconv.Itoa(count))
		}
		a.columns += 1 + len(e.value.Value) + digits + 1
		if count++; count == 1 {
			a.extremes += 2 * (1 + len(name) + 1 + len(e.value.Value))
		}
		if name == a.timeField {
			at := e.value.Time().UnixMilli()
			a.earliest, a.latest = min(a.earliest, at), max(a.latest, at)
			continue
		}
		a.lower.member(name).include(e.value, -1)
		a.upper.member(name).include(e.value, +1)
	}
}

// size returns control.size of a bucket that was never reopened.
func (a *accounts) size() int { return a.columns + a.extremes }

// disagrees returns the first path at which a bucket's control is wrong, and a text about it. An empty path means that there is
// none. control.size of a reopened bucket started with the size of its document, so only its bounds are checked. For a minimum or
// maximum the value counts, and not its type: 1 and 1.0 are the same.
func (a *accounts) disagrees(document bson.Raw) (path, text string) {
	control := lookup(document, timeseries.FieldControl).Value
	least, ok := lookup(control, timeseries.FieldMin, a.timeField).DateTimeOK()
	if !ok || least > a.earliest {
		return timeseries.MinPath(a.timeField), fmt.Sprintf("is %s, but the earliest measurement is of %s",
			show(lookup(control, timeseries.FieldMin, a.timeField)), showTime(a.earliest))
	}
	if id, ok := document.Lookup(timeseries.FieldID).ObjectIDOK(); ok && !timeseries.IDFits(id, least) {
		return timeseries.FieldID, fmt.Sprintf("is %s, whose seconds differ from %s: %s", id.Hex(), timeseries.MinPath(a.timeField), showTime(least))
	}
	largest, ok := lookup(control, timeseries.FieldMax, a.timeField).DateTimeOK()
	if !ok || largest != a.latest {
		return timeseries.MaxPath(a.timeField), fmt.Sprintf("is %s, but the latest measurement is of %s",
			show(lookup(control, timeseries.FieldMax, a.timeField)), showTime(a.latest))
	}
	for _, bound := range []struct {
		field string
		made  *extreme
	}{{timeseries.FieldMin, a.lower}, {timeseries.FieldMax, a.upper}} {
		stored := withoutField(lookup(control, bound.field), a.timeField)
		if path, text := bound.made.disagrees(stored, timeseries.Path(timeseries.FieldControl, bound.field)); path != "" {
			return path, text
		}
	}
	size, ok := lookup(control, timeseries.FieldSize).AsInt64OK()
	if most := 3 * len(document); !ok || size < int64(a.columns) || size > int64(most) {
		return timeseries.PathSize, fmt.Sprintf("is %s, but the measurements account for %d to %d bytes",
			show(lookup(control, timeseries.FieldSize)), a.columns, most)
	}
	return "", ""
}

// withoutField returns an object without one of its fields.
func withoutField(v bson.RawValue, name string) bson.RawValue {
	if v.Type != bson.TypeEmbeddedDocument {
		return v
	}
	start, kept := bsoncore.AppendDocumentStart(nil)
	for e := range elementsOf(v.Value) {
		if string(e.name) != name {
			kept = append(kept, e.whole...)
		}
	}
	kept, _ = bsoncore.AppendDocumentEnd(kept, start)
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: kept}
}

// extreme is the minimum or maximum of a field, as MongoDB keeps it: objects field by field, arrays position by position,
// everything else by value.
type extreme struct {
	kind    bson.Type // Zero means that it has no value yet.
	value   bson.RawValue
	names   []string // the names of an object, in the order of their first occurrence
	members map[string]*extreme
	items   []*extreme // the items of an array
}

func newObject() *extreme {
	return &extreme{kind: bson.TypeEmbeddedDocument, members: map[string]*extreme{}}
}

// member returns the extreme of an object's field. It creates it if necessary.
func (x *extreme) member(name string) *extreme {
	m := x.members[name]
	if m == nil {
		m = &extreme{}
		x.members[name] = m
		x.names = append(x.names, name)
	}
	return m
}

// include widens the extreme by a value, which it retains. A side of -1 widens it downwards, and +1 upwards. If a value of
// another kind wins, it replaces everything.
func (x *extreme) include(v bson.RawValue, side int) {
	nested := v.Type == bson.TypeEmbeddedDocument || v.Type == bson.TypeArray
	switch {
	case x.kind == 0, x.kind != v.Type && x.beatenBy(v, side):
		*x = extreme{kind: v.Type, value: v}
		if v.Type == bson.TypeEmbeddedDocument {
			x.members = map[string]*extreme{}
		}
	case x.kind != v.Type:
		return
	case !nested && x.beatenBy(v, side):
		x.value = v
	}
	switch v.Type {
	case bson.TypeEmbeddedDocument:
		for e := range elementsOf(v.Value) {
			x.member(string(e.name)).include(e.value, side)
		}
	case bson.TypeArray:
		at := 0
		for e := range elementsOf(v.Value) {
			if at == len(x.items) {
				x.items = append(x.items, &extreme{})
			}
			x.items[at].include(e.value, side)
			at++
		}
	}
}

func (x *extreme) beatenBy(v bson.RawValue, side int) bool {
	return side*timeseries.Compare(v, x.value) > 0
}

// disagrees returns the path of the first place at which a stored value differs, and a text about it. An empty path means that
// there is none.
func (x *extreme) disagrees(stored bson.RawValue, path string) (at, text string) {
	switch x.kind {
	case bson.TypeEmbeddedDocument:
		if stored.Type != bson.TypeEmbeddedDocument {
			break
		}
		for e := range elementsOf(stored.Value) {
			if x.members[string(e.name)] == nil {
				return timeseries.Path(path, string(e.name)), fmt.Sprintf("is %s, but no measurement has the field", show(e.value))
			}
		}
		for _, name := range x.names {
			if at, text := x.members[name].disagrees(lookup(stored.Value, name), timeseries.Path(path, name)); at != "" {
				return at, text
			}
		}
		return "", ""
	case bson.TypeArray:
		if stored.Type != bson.TypeArray {
			break
		}
		return x.disagreesArray(stored, path)
	default:
		if timeseries.CanonicalType(x.kind) == timeseries.CanonicalType(stored.Type) && timeseries.Compare(x.value, stored) == 0 {
			return "", ""
		}
	}
	return path, fmt.Sprintf("is %s, but the measurements give %s", show(stored), show(x.raw()))
}

func (x *extreme) disagreesArray(stored bson.RawValue, path string) (at, text string) {
	n := 0
	for e := range elementsOf(stored.Value) {
		if n < len(x.items) {
			if at, text := x.items[n].disagrees(e.value, timeseries.Path(path, strconv.Itoa(n))); at != "" {
				return at, text
			}
		}
		n++
	}
	if n != len(x.items) {
		return path, fmt.Sprintf("has %s, but the measurements give %d", words.Count(n, "element"), len(x.items))
	}
	return "", ""
}

// raw returns the extreme as a value.
func (x *extreme) raw() bson.RawValue {
	switch x.kind {
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		start, b := bsoncore.AppendDocumentStart(nil)
		b, _ = bsoncore.AppendDocumentEnd(x.appendMembers(b), start)
		return bson.RawValue{Type: x.kind, Value: b}
	}
	return x.value
}

// appendMembers appends the elements of an object or array.
func (x *extreme) appendMembers(dst []byte) []byte {
	for _, name := range x.names {
		dst = appendValue(dst, name, x.members[name].raw())
	}
	for at, item := range x.items {
		dst = appendValue(dst, strconv.Itoa(at), item.raw())
	}
	return dst
}

func appendValue(dst []byte, name string, v bson.RawValue) []byte {
	return bsoncore.AppendValueElement(dst, name, bsoncore.Value{Type: bsoncore.Type(v.Type), Data: v.Value})
}
