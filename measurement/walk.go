package measurement

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// appendIndexHeader begins the i-th element of an array.
func appendIndexHeader(dst []byte, kind bson.Type, i int) []byte {
	dst = append(dst, byte(kind))
	dst = strconv.AppendInt(dst, int64(i), 10)
	return append(dst, 0)
}
