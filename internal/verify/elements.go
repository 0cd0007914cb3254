package verify

import (
	"bytes"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// element is one BSON element that aliases the document.
type element struct {
	name  []byte
	value bson.RawValue
	whole []byte // type byte, name, NUL, value
}

// elementsOf iterates over the elements of a document or array. It ends early at a malformed element.
func elementsOf(document []byte) iter.Seq[element] {
	length, _, ok := bsoncore.ReadLength(document)
	if !ok || length < 5 || int64(length) != int64(len(document)) {
		return func(func(element) bool) {}
	}
	return elementsIn(document[4 : length-1])
}

// elementsIn iterates over consecutive elements.
func elementsIn(b []byte) iter.Seq[element] {
	return func(yield func(element) bool) {
		for rest := b; len(rest) > 0; {
			end := bytes.IndexByte(rest[1:], 0)
			if end < 0 {
				return
			}
			value, after, ok := bsoncore.ReadValue(rest[end+2:], bsoncore.Type(rest[0]))
			if !ok {
				return
			}
			e := element{
				name: rest[1 : end+1], value: bson.RawValue{Type: bson.Type(rest[0]), Value: value.Data},
				whole: rest[:len(rest)-len(after)],
			}
			if !yield(e) {
				return
			}
			rest = after
		}
	}
}

// lookup returns the value at a path through objects. Type 0 means that there is none. The driver's Lookup panics if a document
// is malformed at a deeper level.
func lookup(document []byte, path ...string) bson.RawValue {
	value := bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: document}
	for _, name := range path {
		if value.Type != bson.TypeEmbeddedDocument {
			return bson.RawValue{}
		}
		value = find(elementsOf(value.Value), name)
	}
	return value
}

// find returns the value of the first element of a name. Type 0 means that there is none.
func find(elements iter.Seq[element], name string) bson.RawValue {
	for e := range elements {
		if string(e.name) == name {
			return e.value
		}
	}
	return bson.RawValue{}
}

// same reports whether two values are the same to the byte.
func same(a, b bson.RawValue) bool { return a.Type == b.Type && bytes.Equal(a.Value, b.Value) }
