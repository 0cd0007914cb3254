package measurement

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// element is one element of a BSON document: views into it.
type element struct {
	kind  bson.Type
	name  []byte
	value []byte
}

// cut makes e the first element of a list of valid elements, and returns the rest. The list is a document's without its
// length and end.
func (e *element) cut(list []byte) (rest []byte) {
	end := 1
	for list[end] != 0 { // names are short: quicker than bytes.IndexByte
		end++
	}
	e.kind, e.name = bson.Type(list[0]), list[1:end]
	list = list[end+1:]
	n := valueSize(e.kind, list)
	e.value = list[:n]
	return list[n:]
}

// elementsOf returns the list of elements of a document.
func elementsOf(document []byte) []byte { return document[4 : len(document)-1] }

// valueSize is the size in bytes of the valid value of the kind that b begins with.
func valueSize(kind bson.Type, b []byte) int {
	switch kind {
	case bson.TypeDouble, bson.TypeDateTime, bson.TypeTimestamp, bson.TypeInt64:
		return 8
	case bson.TypeInt32:
		return 4
	case bson.TypeBoolean:
		return 1
	case bson.TypeObjectID:
		return 12
	case bson.TypeDecimal128:
		return 16
	case bson.TypeString, bson.TypeJavaScript, bson.TypeSymbol:
		return 4 + size32(b)
	case bson.TypeEmbeddedDocument, bson.TypeArray, bson.TypeCodeWithScope:
		return size32(b)
	case bson.TypeBinary:
		return 5 + size32(b)
	case bson.TypeDBPointer:
		return 4 + size32(b) + 12
	case bson.TypeRegex:
		pattern := bytes.IndexByte(b, 0) + 1
		return pattern + bytes.IndexByte(b[pattern:], 0) + 1
	default: // null, undefined, minKey, maxKey
		return 0
	}
}

// size32 is the length that valid BSON begins with.
func size32(b []byte) int { return int(int32(binary.LittleEndian.Uint32(b))) }

// appendHeader begins an element.
func appendHeader(dst []byte, kind bson.Type, name []byte) []byte {
	dst = append(dst, byte(kind))
	dst = append(dst, name...)
	return append(dst, 0)
}

// appendIndexHeader begins the i-th element of an array.
func appendIndexHeader(dst []byte, kind bson.Type, i int) []byte {
	dst = append(dst, byte(kind))
	dst = strconv.AppendInt(dst, int64(i), 10)
	return append(dst, 0)
}

// endDocument ends the document that begins at start, where four bytes are reserved for its length.
func endDocument(dst []byte, start int) []byte {
	dst = append(dst, 0)
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst
}

// stringOf returns the text of a string value.
func stringOf(value []byte) []byte { return value[4 : len(value)-1] }

// appendString appends the value of a BSON string.
func appendString[Text []byte | string](dst []byte, text Text) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(text)+1))
	dst = append(dst, text...)
	return append(dst, 0)
}
