package rawbson

import (
	"bytes"
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Empty is the size of a document without elements.
const Empty = 5

// fixed holds the sizes of values by type byte. The size is -1 if the value states its size, or if the type is unknown.
var fixed = func() (table [256]int8) {
	for kind := range table {
		table[kind] = -1
	}
	for size, kinds := range map[int8][]bson.Type{
		0:  {bson.TypeNull, bson.TypeUndefined, bson.TypeMinKey, bson.TypeMaxKey},
		1:  {bson.TypeBoolean},
		4:  {bson.TypeInt32},
		8:  {bson.TypeDouble, bson.TypeInt64, bson.TypeDateTime, bson.TypeTimestamp},
		12: {bson.TypeObjectID},
		16: {bson.TypeDecimal128},
	} {
		for _, kind := range kinds {
			table[kind] = size
		}
	}
	return table
}()

// Size returns the size of the value of this type at the start of b. For a malformed value it returns a number outside 0 to
// len(b). It does not check the contents of objects, arrays and texts.
func Size(kind bson.Type, b []byte) int {
	if size := fixed[kind]; size >= 0 {
		return int(size)
	}
	return ownSize(kind, b)
}

// IsFixed reports whether all values of a type have the same size.
func IsFixed(kind bson.Type) bool { return fixed[kind] >= 0 }

// ownSize is Size for the types whose values state their size.
func ownSize(kind bson.Type, b []byte) int {
	switch kind {
	case bson.TypeString, bson.TypeSymbol, bson.TypeJavaScript:
		return stringSize(b)
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		return DocumentSize(b)
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
	if n < 4+5+Empty || n > len(b) {
		return -1
	}
	code := stringSize(b[4:n])
	if code < 0 || DocumentSize(b[4+code:n]) != n-4-code {
		return -1
	}
	return n
}

// stringSize returns the size of a BSON string with its length, its bytes and its NUL. It returns -1 for a malformed string.
func stringSize(b []byte) int {
	n := length(b)
	if n < 1 || n > len(b)-4 || b[4+n-1] != 0 {
		return -1
	}
	return 4 + n
}

// DocumentSize returns the size of the document at the start of b, or -1 if the document does not end there.
func DocumentSize(b []byte) int {
	n := length(b)
	if n < Empty || n > len(b) || b[n-1] != 0 {
		return -1
	}
	return n
}

// length returns the int32 at the start of b, or -1 if there is none or it is negative.
func length(b []byte) int {
	if len(b) < 4 {
		return -1
	}
	return max(-1, int(int32(binary.LittleEndian.Uint32(b))))
}
