package reader

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// fields is a tree of the names to return. A node that is whole returns everything below it.
type fields struct {
	name     string
	children []*fields
	whole    bool
}

// add adds a path. If a shorter path is there already, it covers the new one.
func (f *fields) add(path []string) {
	for _, name := range path {
		if f.whole {
			return
		}
		child := f.child([]byte(name))
		if child == nil {
			child = &fields{name: name}
			f.children = append(f.children, child)
		}
		f = child
	}
	f.whole, f.children = true, nil
}

func (f *fields) child(name []byte) *fields {
	for _, c := range f.children {
		if c.name == string(name) {
			return c
		}
	}
	return nil
}

// trims reports whether any path is dotted. If none is, the server has returned exactly the right columns.
func (f *fields) trims() bool {
	if f == nil {
		return false
	}
	for _, c := range f.children {
		if !c.whole {
			return true
		}
	}
	return false
}

// appendTrimmed appends the elements that the fields name, as a projection of MongoDB does. Objects and arrays on the way are
// kept even if they become empty. Plain values on the way are not kept. False means that the elements are malformed.
func (f *fields) appendTrimmed(dst, elements []byte) ([]byte, bool) {
	for len(elements) > 0 {
		e, rest, ok := rawbson.Read(elements)
		if !ok {
			return dst, false
		}
		switch c := f.child(e.Name); {
		case c == nil:
		case c.whole:
			dst = rawbson.AppendElement(dst, e.Kind, e.Name, e.Value)
		case rawbson.IsNested(e.Kind):
			if dst, ok = c.appendNested(rawbson.AppendHeader(dst, e.Kind, e.Name), e); !ok {
				return dst, false
			}
		}
		elements = rest
	}
	return dst, true
}

// appendNested appends a trimmed object or array.
func (f *fields) appendNested(dst []byte, nested rawbson.Element) (_ []byte, ok bool) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	if nested.Kind == bson.TypeArray {
		dst, ok = f.appendItems(dst, rawbson.Content(nested.Value))
	} else {
		dst, ok = f.appendTrimmed(dst, rawbson.Content(nested.Value))
	}
	return rawbson.EndDocument(dst, start), ok
}

// appendItems appends the objects and arrays of an array, trimmed.
func (f *fields) appendItems(dst, list []byte) ([]byte, bool) {
	for n := 0; len(list) > 0; {
		e, rest, ok := rawbson.Read(list)
		if !ok {
			return dst, false
		}
		if list = rest; !rawbson.IsNested(e.Kind) {
			continue
		}
		if dst, ok = f.appendNested(rawbson.AppendIndexHeader(dst, e.Kind, n), e); !ok {
			return dst, false
		}
		n++
	}
	return dst, true
}
