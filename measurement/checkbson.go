package measurement

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// bsonChecker proves that bytes are BSON, so that everything after it can walk them without checking again. Names may
// still be any that BSON can hold.
type bsonChecker struct {
	path   fieldPath // leads to the element being checked
	dotted bool      // a name with a dot was seen
}

// check reports what keeps the bytes from being one BSON document.
func (c *bsonChecker) check(document []byte) *DecodeError {
	c.path, c.dotted = c.path[:0], false
	return c.document(document, 1)
}

// document checks a document or an array that fills b.
func (c *bsonChecker) document(b []byte, depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep(string(c.path))
	}
	if len(b) < emptyDocument || size32(b) != len(b) || b[len(b)-1] != 0 {
		return c.malformed("a document does not fill its %d bytes", len(b))
	}
	for list := elementsOf(b); len(list) > 0; {
		n, err := c.element(list, depth)
		if err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// element checks the first element of a list and returns its size.
func (c *bsonChecker) element(list []byte, depth int) (size int, err *DecodeError) {
	end := 1 + bytes.IndexByte(list[1:], 0)
	if end == 0 {
		return 0, c.malformed("a name does not end")
	}
	kind, name, b := bson.Type(list[0]), list[1:end], list[end+1:]
	above := c.path.push(name)
	if !utf8.Valid(name) {
		return 0, c.badText(name)
	}
	c.dotted = c.dotted || bytes.IndexByte(name, '.') >= 0
	n, ok := checkedSize(kind, b)
	if !ok {
		return 0, c.malformed("a value of type 0x%02x is malformed or cut", byte(kind))
	}
	if err := c.content(kind, b[:n], depth); err != nil {
		return 0, err
	}
	c.path.pop(above)
	return end + 1 + n, nil
}

// content checks what is inside a value of the right size.
func (c *bsonChecker) content(kind bson.Type, value []byte, depth int) *DecodeError {
	switch kind {
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		return c.document(value, depth+1)
	case bson.TypeString, bson.TypeJavaScript, bson.TypeSymbol:
		return c.text(stringOf(value))
	case bson.TypeDBPointer:
		return c.text(stringOf(value[:len(value)-12]))
	case bson.TypeRegex:
		return c.text(value)
	case bson.TypeCodeWithScope:
		code := 4 + 4 + size32(value[4:])
		if err := c.text(stringOf(value[4:code])); err != nil {
			return err
		}
		return c.document(value[code:], depth+1)
	}
	return nil
}

func (c *bsonChecker) text(text []byte) *DecodeError {
	if !utf8.Valid(text) {
		return c.badText(text)
	}
	return nil
}

func (c *bsonChecker) badText(text []byte) *DecodeError { return badText(string(c.path), text) }

func (c *bsonChecker) malformed(format string, args ...any) *DecodeError {
	return newError(NotBSON, string(c.path), "%s: is EVENT_FORMAT right, and the record whole?", fmt.Sprintf(format, args...))
}

// checkedSize is valueSize for bytes that are not known to be valid: not ok when the value is longer than b, or of a
// size or shape that no value of its kind has. It looks at no text and not into documents.
func checkedSize(kind bson.Type, b []byte) (size int, ok bool) {
	switch kind {
	case bson.TypeString, bson.TypeJavaScript, bson.TypeSymbol:
		return checkedString(b)
	case bson.TypeDBPointer:
		n, ok := checkedString(b)
		return n + 12, ok && n+12 <= len(b)
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		return checkedLength(b, 0, emptyDocument)
	case bson.TypeBinary:
		return checkedBinary(b)
	case bson.TypeCodeWithScope:
		return checkedCode(b)
	case bson.TypeRegex:
		pattern := bytes.IndexByte(b, 0) + 1
		options := bytes.IndexByte(b[pattern:], 0) + 1
		return pattern + options, pattern > 0 && options > 0
	case bson.TypeBoolean:
		return 1, len(b) > 0 && b[0] <= 1
	case bson.TypeDouble, bson.TypeDateTime, bson.TypeTimestamp, bson.TypeInt64, bson.TypeInt32, bson.TypeObjectID,
		bson.TypeDecimal128:
		n := valueSize(kind, b)
		return n, n <= len(b)
	case bson.TypeNull, bson.TypeUndefined, bson.TypeMinKey, bson.TypeMaxKey:
		return 0, true
	}
	return 0, false
}

// checkedLength reads a length of at least smallest; the value has so many bytes beyond it.
func checkedLength(b []byte, beyond, smallest int) (size int, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	n := size32(b)
	return n + beyond, n >= smallest && n <= len(b)-beyond
}

func checkedString(b []byte) (size int, ok bool) {
	size, ok = checkedLength(b, 4, 1)
	return size, ok && b[size-1] == 0
}

// checkedBinary also looks at the second length of the old subtype.
func checkedBinary(b []byte) (size int, ok bool) {
	size, ok = checkedLength(b, 5, 0)
	if !ok || b[4] != binaryOld {
		return size, ok
	}
	return size, size >= 9 && size32(b[5:]) == size-9
}

// checkedCode: a length, a string and a document that fill it.
func checkedCode(b []byte) (size int, ok bool) {
	size, ok = checkedLength(b, 0, 4+5+emptyDocument)
	if !ok {
		return 0, false
	}
	code, ok := checkedString(b[4:size])
	return size, ok && size-4-code >= emptyDocument && size32(b[4+code:]) == size-4-code
}
