package timeseries

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// extreme is the minimum or maximum of a field, as MongoDB keeps it in a bucket: objects field by field, arrays position by
// position, everything else by value. Nothing was included in the zero value.
type extreme struct {
	value   bson.RawValue // Type 0: none yet
	members []member      // of an object, in the order of their first sight
	places  map[string]int
	last    int        // the place of the member that was found last
	items   []*extreme // of an array
}

// member is a field of an object.
type member struct {
	name string
	*extreme
}

// include widens the extreme by a value, which it keeps: downwards for a side of -1, upwards for +1. On a tie the former value
// stays; one of another kind that wins replaces everything.
func (x *extreme) include(v bson.RawValue, side int) {
	entered := v.Type == bson.TypeEmbeddedDocument || v.Type == bson.TypeArray // what is in it is compared, not the whole
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

// member is the extreme of an object's field, a new one if need be. Objects mostly have the same fields in the same order: the place
// behind the last one is tried first.
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

// Value is the extreme as a value; Type 0: nothing was included.
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
