package timeseries

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// extreme is the minimum or maximum of a field, as MongoDB keeps it in a bucket. Objects are compared field by field, arrays
// position by position, and other values as a whole. The zero value has included nothing.
type extreme struct {
	value   bson.RawValue // Type 0 means that nothing was included.
	members []member      // fields of an object, in the order in which they first came
	places  map[string]int
	last    int        // the place of the member that was found last
	items   []*extreme // items of an array
}

// member is a field of an object.
type member struct {
	name string
	*extreme
}

// include widens the extreme by a value, and keeps the value. A side of -1 widens downwards, and +1 upwards. On a tie the former
// value stays. If a value of another type wins, it replaces everything.
func (x *extreme) include(v bson.RawValue, side int) {
	entered := v.Type == bson.TypeEmbeddedDocument || v.Type == bson.TypeArray // such values are compared member by member, not as a whole
	switch {
	case x.value.Type == v.Type && entered:
	case x.value.Type == v.Type:
		if side*Compare(v, x.value) > 0 {
			x.value = v
		}
	case x.value.Type == 0 || side*Compare(v, x.value) > 0:
		*x = extreme{value: v}
	default:
		return
	}
	switch v.Type {
	case bson.TypeEmbeddedDocument:
		var e cursor
		for e.open(v.Value); e.next(); {
			x.member(e.key).include(e.value(), side)
		}
	case bson.TypeArray:
		var e cursor
		at := 0
		for e.open(v.Value); e.next(); at++ {
			if at == len(x.items) {
				x.items = append(x.items, &extreme{})
			}
			x.items[at].include(e.value(), side)
		}
	}
}

// member returns the extreme of an object's field, and adds it if it is missing. Objects mostly have the same fields in the same
// order, so it first tries the place behind the last one.
func (x *extreme) member(name []byte) *extreme {
	at := x.last + 1
	if at >= len(x.members) {
		at = 0
	}
	if at < len(x.members) && x.members[at].name == string(name) {
		x.last = at
		return x.members[at].extreme
	}
	at, ok := x.places[string(name)]
	if !ok {
		if x.places == nil {
			x.places = map[string]int{}
		}
		at = len(x.members)
		x.members = append(x.members, member{string(name), &extreme{}})
		x.places[x.members[at].name] = at
	}
	x.last = at
	return x.members[at].extreme
}

// Value returns the extreme as a value. Type 0 means that nothing was included.
func (x *extreme) Value() bson.RawValue {
	if x.value.Type != bson.TypeEmbeddedDocument && x.value.Type != bson.TypeArray {
		return x.value
	}
	b := newBuilder()
	x.addMembers(b)
	return bson.RawValue{Type: x.value.Type, Value: b.document()}
}

// addMembers adds the fields of an object, or the items of an array.
func (x *extreme) addMembers(b *builder) {
	for _, m := range x.members {
		b.add(m.name, m.Value())
	}
	for at, item := range x.items {
		b.add(strconv.Itoa(at), item.Value())
	}
}
