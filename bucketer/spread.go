package bucketer

import (
	"bytes"

	"waterwheel/internal/timeseries/rawbson"
)

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
