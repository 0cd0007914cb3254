package bucketer

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// maxDepth bounds the nesting of a measurement's fields. MongoDB stores 200 levels in all, and a bucket takes some of them.
const maxDepth = 180

// readValue cuts the value off the first element of b. The element is known to be whole and to have a name of this length.
func readValue(b []byte, name int) (value, []byte) {
	kind, data := bson.Type(b[0]), b[name+2:]
	size := rawbson.Size(kind, data)
	return value{kind: kind, data: data[:size]}, data[size:]
}

// ranks holds timeseries.CanonicalType of every type byte.
var ranks = func() (table [256]int8) {
	for kind := range table {
		table[kind] = int8(timeseries.CanonicalType(bson.Type(kind)))
	}
	return table
}()
