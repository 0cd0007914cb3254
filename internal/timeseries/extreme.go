package timeseries

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Extreme is the minimum or maximum of a field, as MongoDB keeps it in a bucket: objects field by field, arrays position by
// position, everything else by value. Nothing was included in the zero value.
type Extreme struct {
	value   bson.RawValue // Type 0: none yet
	names   []string      // of an object, in the order of their first sight
	members map[string]*Extreme
	items   []*Extreme // of an array
}

// Include widens the extreme by a value, which it keeps: downwards for a side of -1, upwards for +1. On a tie the former value
// stays; one of another kind that wins replaces everything.
func (x *Extreme) Include(v bson.RawValue, side int) {
	wins := side*Compare(v, x.value) > 0
	switch {
	case x.value.Type == 0, x.value.Type != v.Type && wins:
		*x = Extreme{value: v}
	case x.value.Type != v.Type:
		return
	case wins:
		x.value = v
	}
	switch v.Type {
	case bson.TypeEmbeddedDocument:
		var e cursor
		for e.open(v.Value); e.next(); {
			x.member(string(e.key)).Include(e.value(), side)
		}
	case bson.TypeArray:
		var e cursor
		at := 0
		for e.open(v.Value); e.next(); at++ {
			if at == len(x.items) {
				x.items = append(x.items, &Extreme{})
			}
			x.items[at].Include(e.value(), side)
		}
	}
}

// member is the extreme of an object's field, a new one if need be.
func (x *Extreme) member(name string) *Extreme {
	m := x.members[name]
	if m == nil {
		if x.members == nil {
			x.members = map[string]*Extreme{}
		}
		m = &Extreme{}
		x.members[name] = m
		x.names = append(x.names, name)
	}
	return m
}

// Value is the extreme as a value; Type 0: nothing was included.
func (x *Extreme) Value() bson.RawValue {
	if x.value.Type != bson.TypeEmbeddedDocument && x.value.Type != bson.TypeArray {
		return x.value
	}
	b := newBuilder()
	x.addMembers(b)
	return bson.RawValue{Type: x.value.Type, Value: b.document()}
}

// addMembers adds the fields of an object, or the items of an array.
func (x *Extreme) addMembers(b *builder) {
	for _, name := range x.names {
		b.add(name, x.members[name].Value())
	}
	for at, item := range x.items {
		b.add(strconv.Itoa(at), item.Value())
	}
}
