package measurement

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// bsonChecker proves that bytes are BSON, so that later code can walk them without checks. It accepts every name that BSON can
// hold.
type bsonChecker struct {
	dotted bool // a name with a dot was seen
}

// check returns why the bytes are not one BSON document. Nil means that they are.
func (c *bsonChecker) check(document []byte) *DecodeError {
	c.dotted = false
	err := c.document(document, 1)
	if err != nil && err.Reason == NotBSON {
		if form := notBSON(document); form != "" {
			return newError(NotBSON, "", "the value %s", form)
		}
	}
	return err
}

// notBSON names the encoding of a value that is not BSON, with the way out. It is empty if no encoding is recognised.
func notBSON(value []byte) string {
	form := formOf(value)
	switch {
	case form != "":
		return form
	case isJSONStart(value):
		return "begins as JSON does: set EVENT_FORMAT=json, or extjson for Extended JSON"
	case hasFrame(value) && isJSONStart(value[frameBytes:]):
		return "begins with the frame of a schema registry, and JSON follows: set EVENT_FORMAT=json and EVENT_FRAMING=confluent"
	}
	return ""
}

// document checks a document or an array that fills b.
func (c *bsonChecker) document(b []byte, depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep("")
	}
	if rawbson.DocumentSize(b) != len(b) {
		return malformed("the length field of a document differs from its size of %d bytes", len(b))
	}
	for list := rawbson.Content(b); len(list) > 0; {
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
		return 0, malformed("a field name has no terminating zero byte")
	}
	kind, name, b := bson.Type(list[0]), list[1:end], list[end+1:]
	if !utf8.Valid(name) {
		return 0, badText(string(name), name)
	}
	c.dotted = c.dotted || bytes.IndexByte(name, '.') >= 0
	n, err := c.value(kind, b, depth)
	if err != nil {
		return 0, err.within(string(name))
	}
	return end + 1 + n, nil
}

// value checks the value at the start of b, in a document or an array of this depth, and returns its size.
func (c *bsonChecker) value(kind bson.Type, b []byte, depth int) (size int, err *DecodeError) {
	n := rawbson.Size(kind, b)
	if n < 0 || n > len(b) || kind == bson.TypeBoolean && b[0] > 1 || kind == bson.TypeBinary && !isBinary(b[:n]) {
		return 0, malformed("a value of type 0x%02x is malformed or truncated", byte(kind))
	}
	return n, c.content(kind, b[:n], depth)
}

// content checks the content of a value of the right size.
func (c *bsonChecker) content(kind bson.Type, value []byte, depth int) *DecodeError {
	switch kind {
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		return c.document(value, depth+1)
	case bson.TypeString, bson.TypeJavaScript, bson.TypeSymbol:
		return checkText(rawbson.Text(value))
	case bson.TypeDBPointer:
		return checkText(rawbson.Text(value[:len(value)-12]))
	case bson.TypeRegex:
		return checkText(value)
	case bson.TypeCodeWithScope:
		code := 4 + rawbson.Size(bson.TypeString, value[4:])
		if err := checkText(rawbson.Text(value[4:code])); err != nil {
			return err
		}
		return c.document(value[code:], depth+1)
	}
	return nil
}

func checkText(text []byte) *DecodeError {
	if !utf8.Valid(text) {
		return badText("", text)
	}
	return nil
}

func malformed(format string, args ...any) *DecodeError {
	return newError(NotBSON, "", "%s: is EVENT_FORMAT correct, and is the record complete?", fmt.Sprintf(format, args...))
}

// isBinary checks the second length, which values of the old subtype have.
func isBinary(value []byte) bool {
	return value[4] != binaryOld || len(value) >= 9 && int(binary.LittleEndian.Uint32(value[5:])) == len(value)-9
}
