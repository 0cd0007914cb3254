package rawbson

import (
	"encoding/binary"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// AppendHeader begins an element.
func AppendHeader[Text ~string | ~[]byte](dst []byte, kind bson.Type, name Text) []byte {
	return append(append(append(dst, byte(kind)), name...), 0)
}

// AppendIndexHeader begins the i-th element of an array.
func AppendIndexHeader(dst []byte, kind bson.Type, i int) []byte {
	return append(strconv.AppendInt(append(dst, byte(kind)), int64(i), 10), 0)
}

// AppendElement appends an element.
func AppendElement(dst []byte, kind bson.Type, name, value []byte) []byte {
	return append(AppendHeader(dst, kind, name), value...)
}

// AppendString appends the value of a BSON string.
func AppendString[Text ~string | ~[]byte](dst []byte, text Text) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(text)+1))
	return append(append(dst, text...), 0)
}

// EndDocument ends the document that begins at start, where four bytes are reserved for its length.
func EndDocument(dst []byte, start int) []byte {
	dst = append(dst, 0)
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst
}

// AppendDate appends an element with a date, in milliseconds since 1970.
func AppendDate[Text ~string | ~[]byte](dst []byte, name Text, ms int64) []byte {
	return binary.LittleEndian.AppendUint64(AppendHeader(dst, bson.TypeDateTime, name), uint64(ms))
}
