package timeseries

import (
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
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
	b.add(timeField, bson.RawValue{Type: bson.TypeDateTime, Value: bsoncore.AppendDateTime(nil, c.Latest)})
	c.upper.addMembers(b)
	return b.document()
}
