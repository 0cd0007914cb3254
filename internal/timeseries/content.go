package timeseries

import (
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// Content is the part of a bucket's control that follows from its columns alone.
type Content struct {
	// Earliest and Latest bound the times, in milliseconds since 1970.
	Earliest, Latest int64
	// Size is control.size, of a bucket that was never looked up again.
	Size int32

	lower, upper extreme // minimum and maximum of the fields, as objects without the time
}

// ContentOf makes the Content of columns. data is the object data of a bucket that can be unpacked.
func (o Options) ContentOf(data bson.Raw) Content {
	c := Content{Earliest: math.MaxInt64, Latest: math.MinInt64}
	size := 0
	var column cursor
	for column.open(data); column.next(); {
		size += c.include(column.key, column.body, o.TimeField)
	}
	c.Size = int32(min(size, math.MaxInt32))
	return c
}

// include adds a column, and returns the bytes that it accounts for. These are its own bytes, and one copy of its first value in
// each of min and max. The index 0 counts no bytes.
func (c *Content) include(name, values []byte, timeField string) int {
	const header = 12 // an empty object under the column's name
	size := header + len(name)
	var e cursor
	var lower, upper *extreme
	isFirst := true
	for e.open(values); e.next(); isFirst = false {
		size += 1 + len(e.body) + 1
		if string(e.key) != "0" {
			size += len(e.key)
		}
		if isFirst {
			size += 2 * (1 + len(name) + 1 + len(e.body))
		}
		if string(name) == timeField {
			at := readInteger(e.body)
			c.Earliest, c.Latest = min(c.Earliest, at), max(c.Latest, at)
			continue
		}
		if lower == nil {
			lower, upper = c.lower.member(name), c.upper.member(name)
		}
		lower.include(e.value(), -1)
		upper.include(e.value(), +1)
	}
	return size
}

// Min returns control.min, which holds the fields' minimums and the time that the bucket has there.
func (c *Content) Min(timeField string, least bson.RawValue) bson.Raw {
	b := newBuilder()
	b.add(timeField, least)
	c.lower.addMembers(b)
	return b.document()
}

// Max returns control.max.
func (c *Content) Max(timeField string) bson.Raw {
	b := newBuilder()
	b.add(timeField, dateValue(c.Latest))
	c.upper.addMembers(b)
	return b.document()
}

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
	switch {
	case x.value.Type == v.Type && rawbson.IsNested(v.Type): // compared member by member, not as a whole
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
	if !rawbson.IsNested(x.value.Type) {
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
