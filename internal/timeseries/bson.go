package timeseries

import (
	"bytes"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/timeseries/rawbson"
)

// builder appends the elements of one document.
type builder struct{ bytes []byte }

func newBuilder() *builder { return &builder{bytes: make([]byte, 4)} }

func (b *builder) add(name string, v bson.RawValue) {
	b.bytes = append(rawbson.AppendHeader(b.bytes, v.Type, name), v.Value...)
}

func (b *builder) document() bson.Raw { return rawbson.EndDocument(b.bytes, 0) }

// rewrite builds a document from another, element by element. what begins the sentence about a malformed document.
func rewrite(document bson.Raw, what string, add func(b *builder, name string, v bson.RawValue) error) (bson.Raw, error) {
	b := newBuilder()
	var from cursor
	for from.open(document); from.next(); {
		if err := add(b, string(from.key), from.value()); err != nil {
			return nil, err
		}
	}
	if from.err != nil {
		return nil, refuse(codeBadValue, "%s %v", what, from.err)
	}
	return b.document(), nil
}

func isEmpty(document bson.Raw) bool { return len(document) == rawbson.Empty }

func objectValue(document bson.Raw) bson.RawValue {
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: document}
}

func arrayValue(array bson.Raw) bson.RawValue {
	return bson.RawValue{Type: bson.TypeArray, Value: array}
}

func int32Value(n int32) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt32, Value: bsoncore.AppendInt32(nil, n)}
}

func int64Value(n int64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt64, Value: bsoncore.AppendInt64(nil, n)}
}

func dateValue(ms int64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeDateTime, Value: bsoncore.AppendDateTime(nil, ms)}
}

func stringValue(s string) bson.RawValue {
	return bson.RawValue{Type: bson.TypeString, Value: rawbson.AppendString(nil, s)}
}

var errMalformed = errors.New("malformed BSON")

// cursor walks the elements of one document or array without copying. The current element is valid after next
// returned true.
type cursor struct {
	rest []byte // elements not yet read
	kind bson.Type
	key  []byte
	body []byte // the element's value
	err  error  // errMalformed when the walk ended early
}

// open starts a walk over the bytes of a document. A document with a wrong length is malformed, and has no elements.
func (c *cursor) open(document []byte) {
	*c = cursor{}
	if rawbson.DocumentSize(document) != len(document) {
		c.err = errMalformed
		return
	}
	c.rest = rawbson.Content(document)
}

// next reads the next element. False means the end of the document, or of its readable part.
func (c *cursor) next() bool {
	rest := c.rest
	if len(rest) == 0 {
		return false
	}
	end := 1
	for end < len(rest) && rest[end] != 0 { // names are short, so this is quicker than bytes.IndexByte
		end++
	}
	if end == len(rest) {
		return c.fail()
	}
	kind, body := bson.Type(rest[0]), rest[end+1:]
	size := rawbson.Size(kind, body)
	if size < 0 || size > len(body) {
		return c.fail()
	}
	c.kind, c.key, c.body, c.rest = kind, rest[1:end], body[:size], body[size:]
	return true
}

func (c *cursor) fail() bool {
	c.rest, c.err = nil, errMalformed
	return false
}

// value returns the current element's value.
func (c *cursor) value() bson.RawValue { return bson.RawValue{Type: c.kind, Value: c.body} }

// integer returns the current element as an integer. False means that it is not an integer.
func (c *cursor) integer() (int64, bool) {
	if c.kind != bson.TypeInt32 && c.kind != bson.TypeInt64 {
		return 0, false
	}
	return readInteger(c.body), true
}

// maxNormalDepth bounds the nesting of a value that is brought into normal form. Deeper values stay as they are. No stored meta
// nests deeper.
const maxNormalDepth = 200

// NormalMeta returns a value in the form in which metas are stored. In this form the fields of all objects are sorted by the
// bytes of their names, at every depth. It does not change a value without objects, a sorted value, or a malformed value.
func NormalMeta(v bson.RawValue) bson.RawValue {
	if !rawbson.IsNested(v.Type) {
		return v
	}
	out, ok := appendNormal(make([]byte, 0, len(v.Value)), v.Type, v.Value, 0)
	if !ok {
		return v
	}
	return bson.RawValue{Type: v.Type, Value: out}
}

func appendNormal(dst []byte, kind bson.Type, value []byte, depth int) ([]byte, bool) {
	if !rawbson.IsNested(kind) || depth > maxNormalDepth {
		return append(dst, value...), true
	}
	if rawbson.DocumentSize(value) != len(value) {
		return dst, false
	}
	var elements []rawbson.Element
	for list := rawbson.Content(value); len(list) > 0; {
		e, rest, ok := rawbson.Read(list)
		if !ok {
			return dst, false
		}
		elements, list = append(elements, e), rest
	}
	if kind == bson.TypeEmbeddedDocument {
		slices.SortStableFunc(elements, func(a, b rawbson.Element) int { return bytes.Compare(a.Name, b.Name) })
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for _, e := range elements {
		var ok bool
		if dst, ok = appendNormal(rawbson.AppendHeader(dst, e.Kind, e.Name), e.Kind, e.Value, depth+1); !ok {
			return dst, false
		}
	}
	return rawbson.EndDocument(dst, start), true
}
