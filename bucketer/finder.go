package bucketer

import (
	"bytes"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// finder finds the members of an object by name, of an array by position, each once. It expects to be asked in their
// order, or for names that are not there; otherwise it has to spread them out.
type finder struct {
	kind bson.Type
	rest []byte // the elements that were not found yet, unless they are spread out
	read int    // how often rest was read for a name that it does not hold
	spread
}

// spread is the members of an object, found in any order.
type spread struct {
	members []element
	found   []bool
	left    int
	index   map[string]int // of the first member with a name, for more than indexed members
}

// next returns the member for a name; in an array the next one, whatever the name.
func (f *finder) next(name []byte) (element, bool) {
	if f.members != nil {
		return f.spread.find(name)
	}
	if len(f.rest) == 0 {
		return element{}, false
	}
	e, after, _ := readElement(f.rest)
	if f.kind == bson.TypeArray || bytes.Equal(e.name, name) {
		f.rest = after
		return e, true
	}
	if len(after) == 0 {
		return element{}, false
	}
	if f.read < mostReads && len(after) <= smallDocument && !hasMember(after, name) {
		f.read++
		return element{}, false
	}
	f.spread = spreadOut(f.rest)
	return f.spread.find(name)
}

// Up to so many bytes, so many times, it is quicker to read elements again than to spread them out.
const (
	smallDocument = 256
	mostReads     = 16
)

func hasMember(elements, name []byte) bool {
	for rest := elements; len(rest) > 0; {
		e, after, _ := readElement(rest)
		rest = after
		if bytes.Equal(e.name, name) {
			return true
		}
	}
	return false
}

// isEmpty tells that all members were found.
func (f *finder) isEmpty() bool {
	if f.members != nil {
		return f.left == 0
	}
	return len(f.rest) == 0
}

// appendRest appends the members that were not found, in their order.
func (f *finder) appendRest(dst []byte) []byte {
	if f.members == nil {
		return append(dst, f.rest...)
	}
	for at, e := range f.members {
		if !f.found[at] {
			dst = appendElement(dst, e.kind, e.name, e.value)
		}
	}
	return dst
}

func spreadOut(elements []byte) spread {
	var s spread
	for rest := elements; len(rest) > 0; {
		var e element
		e, rest, _ = readElement(rest)
		s.members = append(s.members, e)
	}
	s.left = len(s.members)
	s.found = make([]bool, s.left)
	if s.left > indexed {
		s.index = make(map[string]int, s.left)
		for at := s.left - 1; at >= 0; at-- {
			s.index[string(s.members[at].name)] = at
		}
	}
	return s
}

func (s *spread) find(name []byte) (element, bool) {
	at, ok := s.locate(name)
	if !ok || s.found[at] {
		return element{}, false
	}
	s.found[at] = true
	s.left--
	return s.members[at], true
}

// locate returns the index of the first member with a name.
func (s *spread) locate(name []byte) (int, bool) {
	if s.index != nil {
		at, ok := s.index[string(name)]
		return at, ok
	}
	for at := range s.members {
		if bytes.Equal(s.members[at].name, name) {
			return at, true
		}
	}
	return 0, false
}
