package verify

import (
	"fmt"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
)

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
