package measurement

import (
	"bytes"
	"encoding/binary"
	"math"
)

const (
	// maxPlaces bounds how many names of events are remembered: some hundred bytes each.
	maxPlaces = 2048
	// maxLiteral bounds the text of a step that is remembered.
	maxLiteral = 256
	// longMissed is how often a step must differ until the other is remembered.
	longMissed = 4
	// fewChildren is up to how many names an object's are searched one by one.
	fewChildren = 12
)

// use is what becomes of a value at a place.
type use uint8

const (
	asField  use = iota // it is stored
	asTime              // the measurement's time
	asMeta              // meta, or a part of it
	asMember            // in an object in meta
	asDrop              // left out
	asIgnore            // neither stored nor looked at, outside of what is stored
	asWay               // an object that paths lead through, outside of what is stored
)

// place is where values of events stood: the names that lead there, and what the options make of a value there. All that
// depends on names alone is decided when a place is met first.
type place struct {
	header   []byte // of a BSON element: a byte for the kind, the name, NUL; its capacity is a multiple of 8
	node     *node  // of the paths; nil: none leads here
	use      use
	part     int  // of meta: which part
	fields   bool // the members of an object here are fields
	atTop    bool // a field at the top level
	reserved bool // a field whose name time or meta has in what is stored
	depth    int  // of an object here, that of the event being 1

	word, mask uint64 // the quoted name as it begins in a text, and which bits of it count

	children []*place
	byName   map[string]*place // the children, once they are many
	dotted   []*place          // objects that dotted names make: {"a.b": 1} has one for a
	undotted *place            // of such an object, the place of the same name without dots

	seen  uint64 // the event that has had a value here
	first step   // from the brace that opens an object here
	next  step   // from the end of a value here
}

// step is the way from one value to the next as it was last gone: the text between them and what it does.
type step struct {
	literal []byte // empty: not known
	moves   []move
	place   *place // of the next value; nil: the event ends
	opening bool   // it begins behind the brace of an object
	missed  int    // how often in a row another way was gone
}

// matches tells whether a text begins with the literal.
func (s *step) matches(text []byte) bool {
	literal := s.literal
	n := len(literal)
	if n > len(text) {
		return false
	}
	if n < 8 {
		return n > 0 && string(text[:n]) == string(literal)
	}
	// The last eight bytes may have been compared in part before: literals are short.
	for j := 0; j < n-8; j += 8 {
		if binary.LittleEndian.Uint64(text[j:]) != binary.LittleEndian.Uint64(literal[j:]) {
			return false
		}
	}
	return binary.LittleEndian.Uint64(text[n-8:]) == binary.LittleEndian.Uint64(literal[n-8:])
}

// move is a beginning of an object, or the end of the innermost one when begin is nil.
type move struct{ begin *place }

func (p *place) name() []byte { return p.header[1 : len(p.header)-1] }

// child is the place of a name in the object here, nil when it was not met yet.
func (p *place) child(name []byte) *place {
	if p.byName != nil {
		return p.byName[string(name)]
	}
	return placeNamed(p.children, name)
}

// placeNamed is the place of a name among a few.
func placeNamed(places []*place, name []byte) *place {
	for _, p := range places {
		if len(p.header) == len(name)+2 && string(p.header[1:len(name)+1]) == string(name) {
			return p
		}
	}
	return nil
}

// add remembers the place of a name.
func (p *place) add(child *place) {
	p.children = append(p.children, child)
	if p.byName != nil {
		p.byName[string(child.name())] = child
		return
	}
	if len(p.children) > fewChildren {
		p.byName = map[string]*place{}
		for _, c := range p.children {
			p.byName[string(c.name())] = c
		}
	}
}

// newTop is the place of events.
func newTop(p *paths) *place {
	top := &place{node: &p.event, use: asWay, fields: p.event.isStored, depth: 1}
	top.first.opening = true
	return top
}

// newPlace makes the place of a name in the object at a place.
func (o *Options) newPlace(parent *place, name []byte) *place {
	p := &place{header: newHeader(name), depth: parent.depth + 1}
	p.first.opening = true
	var quoted [8]byte
	n := copy(quoted[copy(quoted[:], `"`):], name) + 1
	p.word, p.mask = binary.LittleEndian.Uint64(quoted[:]), math.MaxUint64>>(64-8*n)
	if parent.node != nil {
		p.node = nodeOf(parent.node.children, name)
	}
	switch {
	case parent.use == asMeta || parent.use == asMember:
		p.use = asMember
	case p.node != nil && p.node.role == isTime:
		p.use = asTime
	case p.node != nil && p.node.role == isMeta:
		p.use, p.part = asMeta, p.node.part
	case p.node != nil && p.node.role == isDropped:
		p.use = asDrop
	case parent.fields:
		p.use, p.fields = asField, true
		p.atTop = parent.node != nil && parent.node.isStored
		p.reserved = p.atTop && (string(name) == o.StoredTime || string(name) == o.StoredMeta)
	case p.node == nil:
		p.use = asIgnore
	default:
		p.use, p.fields = asWay, p.node.isStored
	}
	return p
}

// newHeader is the header of a place of this name.
func newHeader(name []byte) []byte {
	n := len(name) + 2
	header := make([]byte, n, (n+7)&^7)
	copy(header[1:], name)
	return header
}

// holds tells whether an object at this place is gone through name by name.
func (p *place) holds() bool { return p.use == asField || p.use == asWay || p.inMeta() }

// inMeta tells whether an object at this place is written to meta.
func (p *place) inMeta() bool { return p.use == asMeta || p.use == asMember }

// isUsualName tells whether a name could be addressed everywhere. Names with dots are for others to judge.
func isUsualName(name []byte) bool { return len(name) > 0 && name[0] != '$' }

// placeOf is the place of a name in the object at a place, nil when it is no usual name or too many were met.
func (q *quick) placeOf(parent *place, name []byte) *place {
	if p := parent.child(name); p != nil {
		return p
	}
	if !isUsualName(name) || !q.room() {
		return nil
	}
	p := q.options.newPlace(parent, name)
	parent.add(p)
	return p
}

// dottedPlaceOf is placeOf of an object that dotted names make.
func (q *quick) dottedPlaceOf(parent *place, name []byte) *place {
	if p := placeNamed(parent.dotted, name); p != nil {
		return p
	}
	undotted := q.placeOf(parent, name)
	if undotted == nil || undotted.use != asField || len(parent.dotted) >= fewChildren || !q.room() {
		return nil
	}
	p := q.options.newPlace(parent, name)
	p.undotted = undotted
	parent.dotted = append(parent.dotted, p)
	return p
}

// room tells whether another place may be remembered.
func (q *quick) room() bool {
	if q.places >= maxPlaces {
		q.full = true
		return false
	}
	q.places++
	return true
}

// learn reads from the end of a value, or the beginning of an object, to the next value, and remembers the way.
func (q *quick) learn(s *step, i int) int {
	text, start, opening := q.text, i, s.opening
	s.literal, s.moves, s.place = s.literal[:0], s.moves[:0], nil
	for {
		if i = skipSpace(text, i); i == len(text) {
			return unknown
		}
		if text[i] == '}' {
			i++
			if !q.leave(s) {
				return unknown
			}
			if opening = false; len(q.open) == 0 {
				break
			}
			continue
		}
		if !opening {
			if text[i] != ',' {
				return unknown
			}
			i = skipSpace(text, i+1)
		}
		var p *place
		if p, i = q.learnName(s, i); i < 0 {
			return unknown
		}
		if text[i] != '{' || !p.holds() || q.wraps(i) {
			s.place = p
			break
		}
		if !q.move(s, p) {
			return unknown
		}
		i, opening = i+1, true
	}
	if i-start <= maxLiteral {
		s.literal = append(s.literal, text[start:i]...)
	}
	return i
}

// learnName reads a name and its colon, up to the value.
func (q *quick) learnName(s *step, i int) (*place, int) {
	text := q.text
	if i == len(text) || text[i] != '"' {
		return nil, unknown
	}
	end, how := scanString(text, i+1)
	if end < 0 || how != plain {
		return nil, unknown
	}
	p := q.find(s, text[i+1:end])
	if i = skipSpace(text, end+1); p == nil || i == len(text) || text[i] != ':' {
		return nil, unknown
	}
	if i = skipSpace(text, i+1); i == len(text) {
		return nil, unknown
	}
	return p, i
}

// find is the place of a name in the innermost object that is open, and opens what its dots say.
func (q *quick) find(s *step, name []byte) *place {
	base := len(q.open) - 1
	for q.open[base].place.undotted != nil {
		base--
	}
	isDotted := bytes.IndexByte(name, '.') >= 0
	if isDotted && (!q.nest || !q.open[base].place.fields) {
		return nil
	}
	rest := name
	for keep := base + 1; ; keep++ {
		first, behind := cutPath(rest)
		if keep < len(q.open) && behind != nil && string(q.open[keep].place.name()) == string(first) {
			rest = behind
			continue
		}
		for len(q.open) > keep {
			if !q.move(s, nil) {
				return nil
			}
		}
		if behind == nil {
			return q.placeOf(q.open[keep-1].place, first)
		}
		p := q.dottedPlaceOf(q.open[keep-1].place, first)
		if p == nil || !q.move(s, p) {
			return nil
		}
		rest = behind
	}
}

// leave ends the innermost object of the text, with what dotted names have opened in it.
func (q *quick) leave(s *step) bool {
	for {
		dotted := q.open[len(q.open)-1].place.undotted != nil
		if !q.move(s, nil) {
			return false
		}
		if !dotted {
			return true
		}
	}
}

// move makes a move and remembers it.
func (q *quick) move(s *step, begin *place) bool {
	s.moves = append(s.moves, move{begin})
	return q.make(move{begin})
}
