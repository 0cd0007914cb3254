package rawbson

import (
	"bytes"
	"iter"

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
