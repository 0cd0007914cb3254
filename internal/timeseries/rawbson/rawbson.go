// Package rawbson reads and appends BSON in place, as elements one after the other. A document has its elements in this form between
// its length and its end. The package copies and allocates only the bytes that it appends.
package rawbson

import (
	"bytes"
	"encoding/binary"
	"iter"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Element is one BSON element in place. Name and value point into the bytes from which it was read.
type Element struct {
	Kind  bson.Type
	Name  []byte // without its NUL
	Value []byte
}

// Read cuts the first element off a list. False means that it is malformed. Read does not check the contents of objects and
// arrays.
func Read(list []byte) (e Element, rest []byte, ok bool) {
	if len(list) < 2 {
		return Element{}, nil, false
	}
	end := bytes.IndexByte(list[1:], 0)
	if end < 0 {
		return Element{}, nil, false
	}
	value := list[end+2:]
	size := Size(bson.Type(list[0]), value)
	if size < 0 || size > len(value) {
		return Element{}, nil, false
	}
	return Element{Kind: bson.Type(list[0]), Name: list[1 : end+1], Value: value[:size]}, value[size:], true
}

// Cut sets e to the first element of a list, and returns the rest. The list must be well-formed.
func (e *Element) Cut(list []byte) (rest []byte) {
	end := 1
	for list[end] != 0 { // names are short, so this is quicker than bytes.IndexByte
		end++
	}
	e.Kind, e.Name = bson.Type(list[0]), list[1:end]
	list = list[end+1:]
	n := Size(e.Kind, list)
	e.Value = list[:n]
	return list[n:]
}

// All yields the elements of a list. The list must be well-formed.
func All(list []byte) iter.Seq[Element] {
	return func(yield func(Element) bool) {
		for rest := list; len(rest) > 0; {
			var e Element
			if rest = e.Cut(rest); !yield(e) {
				return
			}
		}
	}
}

// Content returns the list of a document's elements, that is, the bytes between its length and its end.
func Content(document []byte) []byte { return document[4 : len(document)-1] }

// Text returns the text of a string value.
func Text(value []byte) []byte { return value[4 : len(value)-1] }

// IsNested reports whether a type is an object or an array.
func IsNested(kind bson.Type) bool {
	return kind == bson.TypeEmbeddedDocument || kind == bson.TypeArray
}

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

// AppendInt32 appends an element with an integer.
func AppendInt32[Text ~string | ~[]byte](dst []byte, name Text, n int32) []byte {
	return binary.LittleEndian.AppendUint32(AppendHeader(dst, bson.TypeInt32, name), uint32(n))
}

// AppendInt64 appends an element with a long integer.
func AppendInt64[Text ~string | ~[]byte](dst []byte, name Text, n int64) []byte {
	return binary.LittleEndian.AppendUint64(AppendHeader(dst, bson.TypeInt64, name), uint64(n))
}

// AppendDate appends an element with a date, in milliseconds since 1970.
func AppendDate[Text ~string | ~[]byte](dst []byte, name Text, ms int64) []byte {
	return binary.LittleEndian.AppendUint64(AppendHeader(dst, bson.TypeDateTime, name), uint64(ms))
}

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
