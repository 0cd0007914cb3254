package bucketer

import (
	"bytes"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// finder finds the members of an object by name, or of an array by position, each once. It expects requests in the members'
// order, or for names that are missing. After a request out of order it reads small objects again, and spreads large ones out.
type finder struct {
	kind  bson.Type
	rest  []byte // elements; the first one was not found yet
	found uint64 // bits of the elements of rest that were found
	reads int    // how often rest was read for a member other than its first element
	spread
}

// Below these limits reading elements again is quicker than spreading them out.
const (
	smallObject = 256
	mostReads   = 32
)

// next returns the member with a name. In an array it returns the next member, whatever the name.
func (f *finder) next(name []byte) (rawbson.Element, bool) {
	if f.members != nil {
		return f.spread.find(name)
	}
	if len(f.rest) == 0 {
		return rawbson.Element{}, false
	}
	e, after, _ := rawbson.Read(f.rest)
	if f.kind == bson.TypeArray || bytes.Equal(e.Name, name) {
		f.rest, f.found = after, f.found>>1
		f.skip()
		return e, true
	}
	if len(after) == 0 {
		return rawbson.Element{}, false
	}
	if len(after) > smallObject || f.reads == mostReads {
		f.spread = spreadOut(f.rest, f.found)
		return f.spread.find(name)
	}
	f.reads++
	return f.search(after, name)
}

// search looks for a name behind the first element. A member beyond the bits of found is not noted there; the elements are
// spread out.
func (f *finder) search(after, name []byte) (rawbson.Element, bool) {
	at := 1
	for e := range rawbson.All(after) {
		switch {
		case !bytes.Equal(e.Name, name) || f.found>>at&1 == 1:
		case at < 64:
			f.found |= 1 << at
			return e, true
		default:
			f.spread = spreadOut(f.rest, f.found)
			return f.spread.find(name)
		}
		at++
	}
	return rawbson.Element{}, false
}

// skip skips members that were already found.
func (f *finder) skip() {
	for ; f.found&1 == 1; f.found >>= 1 {
		_, f.rest, _ = rawbson.Read(f.rest)
	}
}

// isEmpty reports whether all members were found.
func (f *finder) isEmpty() bool {
	if f.members != nil {
		return f.left == 0
	}
	return len(f.rest) == 0
}

// appendRest appends the members that were not found, in their order.
func (f *finder) appendRest(dst []byte) []byte {
	if f.members != nil {
		return f.appendLeft(dst)
	}
	found := f.found
	for rest := f.rest; len(rest) > 0; found >>= 1 {
		_, after, _ := rawbson.Read(rest)
		if found&1 == 0 {
			dst = append(dst, rest[:len(rest)-len(after)]...)
		}
		rest = after
	}
	return dst
}

// spread holds the members of an object, which can be found in any order, each once.
type spread struct {
	members []rawbson.Element
	found   []bool
	left    int
	index   map[string]int // of the first member with a name, if there are more than indexed members
}

// spreadOut spreads out the elements that were not found yet. A set bit of found marks an element that was found.
func spreadOut(elements []byte, found uint64) spread {
	var s spread
	for e := range rawbson.All(elements) {
		if found&1 == 0 {
			s.members = append(s.members, e)
		}
		found >>= 1
	}
	s.left = len(s.members)
	s.found = make([]bool, s.left)
	if s.left > indexed {
		s.index = make(map[string]int, s.left)
		for at := s.left - 1; at >= 0; at-- {
			s.index[string(s.members[at].Name)] = at
		}
	}
	return s
}

func (s *spread) find(name []byte) (rawbson.Element, bool) {
	at, ok := s.locate(name)
	if !ok || s.found[at] {
		return rawbson.Element{}, false
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
		if bytes.Equal(s.members[at].Name, name) {
			return at, true
		}
	}
	return 0, false
}

// appendLeft appends the members that were not found, in their order.
func (s *spread) appendLeft(dst []byte) []byte {
	for at, e := range s.members {
		if !s.found[at] {
			dst = rawbson.AppendElement(dst, e.Kind, e.Name, e.Value)
		}
	}
	return dst
}
