package bucketer

import (
	"bytes"
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// maxDepth bounds the nesting of a measurement's fields; MongoDB stores 200 levels in all, of which a bucket takes some.
const maxDepth = 180

// element is one BSON element in place: name and value point into the bytes it was read from.
type element struct {
	kind  bson.Type
	name  []byte // without its NUL
	value []byte
}

// readElement cuts the first element off b. The contents of objects and arrays are not looked at.
func readElement(b []byte) (e element, rest []byte, ok bool) {
	if len(b) < 2 {
		return element{}, nil, false
	}
	end := bytes.IndexByte(b[1:], 0)
	if end < 0 {
		return element{}, nil, false
	}
	value := b[end+2:]
	size := valueSize(bson.Type(b[0]), value)
	if size < 0 || size > len(value) {
		return element{}, nil, false
	}
	return element{kind: bson.Type(b[0]), name: b[1 : end+1], value: value[:size]}, value[size:], true
}

// readValue cuts the value off the first element of b, which is known to be whole and to have a name of this length.
func readValue(b []byte, name int) (value, []byte) {
	kind, data := bson.Type(b[0]), b[name+2:]
	size := int(fixedSizes[kind])
	if size < 0 {
		size = valueSize(kind, data)
	}
	return value{kind: kind, data: data[:size]}, data[size:]
}

// fixedSizes holds the sizes of values by type byte, -1 where a value tells itself, or the type is unknown.
var fixedSizes = func() (table [256]int8) {
	for kind := range table {
		table[kind] = int8(valueSize(bson.Type(kind), nil))
	}
	return table
}()

// valueSize is the size of the value of this type at the start of b, or a number outside 0 to len(b) for a malformed one.
func valueSize(kind bson.Type, b []byte) int {
	switch kind {
	case bson.TypeDouble, bson.TypeInt64, bson.TypeDateTime, bson.TypeTimestamp:
		return 8
	case bson.TypeInt32:
		return 4
	case bson.TypeDecimal128:
		return 16
	case bson.TypeObjectID:
		return 12
	case bson.TypeBoolean:
		return 1
	case bson.TypeNull, bson.TypeUndefined, bson.TypeMinKey, bson.TypeMaxKey:
		return 0
	case bson.TypeString, bson.TypeSymbol, bson.TypeJavaScript:
		return stringSize(b)
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		return documentSize(b)
	default:
		return rareSize(kind, b)
	}
}

// rareSize is valueSize for the types that measurements hardly ever have.
func rareSize(kind bson.Type, b []byte) int {
	switch kind {
	case bson.TypeBinary:
		if n := length(b); n >= 0 {
			return 4 + 1 + n
		}
	case bson.TypeDBPointer:
		if n := stringSize(b); n >= 0 {
			return n + 12
		}
	case bson.TypeRegex:
		if pattern := bytes.IndexByte(b, 0); pattern >= 0 {
			if flags := bytes.IndexByte(b[pattern+1:], 0); flags >= 0 {
				return pattern + flags + 2
			}
		}
	case bson.TypeCodeWithScope:
		return scopedSize(b)
	}
	return -1
}

func scopedSize(b []byte) int {
	n := length(b)
	if n < 14 || n > len(b) {
		return -1
	}
	code := stringSize(b[4:])
	if code < 0 || 4+code > n || documentSize(b[4+code:]) != n-4-code {
		return -1
	}
	return n
}

// stringSize is the size of a BSON string: its length, its bytes and its NUL.
func stringSize(b []byte) int {
	n := length(b)
	if n < 1 || 4+n > len(b) || b[4+n-1] != 0 {
		return -1
	}
	return 4 + n
}

func documentSize(b []byte) int {
	n := length(b)
	if n < 5 || n > len(b) || b[n-1] != 0 {
		return -1
	}
	return n
}

// length is the int32 at the start of b, -1 when there is none or it is negative.
func length(b []byte) int {
	if len(b) < 4 {
		return -1
	}
	return max(-1, int(int32(binary.LittleEndian.Uint32(b))))
}

// content is what stands between the length and the end of a document that documentSize has accepted.
func content(document []byte) []byte { return document[4 : len(document)-1] }

// isNested tells objects and arrays from plain values.
func isNested(kind bson.Type) bool {
	return kind == bson.TypeEmbeddedDocument || kind == bson.TypeArray
}

// ranks holds timeseries.CanonicalType of every type byte.
var ranks = func() (table [256]int8) {
	for kind := range table {
		table[kind] = int8(timeseries.CanonicalType(bson.Type(kind)))
	}
	return table
}()
