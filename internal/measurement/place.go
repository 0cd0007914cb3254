package measurement

import (
	"encoding/binary"
	"math"
)

const (
	// maxPlaces bounds the remembered names of events. Each takes some hundred bytes.
	maxPlaces = 2048
	// maxLiteral bounds the bytes of a remembered name, and of the text of a step.
	maxLiteral = 256
	// longMissed is how often a step must differ until the new step replaces it.
	longMissed = 4
	// fewChildren is the largest number of an object's names that are searched one by one.
	fewChildren = 12
	// mostDotted bounds the objects that dotted names make in one object. They are searched one by one, but only to learn a step.
	mostDotted = 64
)

// use says what becomes of a value at a place.
type use uint8

const (
	asField  use = iota // it is stored
	asTime              // the measurement's time
	asMeta              // meta, or a part of it
	asMember            // it is in an object in meta
	asDrop              // left out
	asIgnore            // it is outside of the stored object, and is neither stored nor checked
	asWay               // an object outside of the stored object, through which paths lead
)

// place is a place in events where values stood. It holds the name there, and what the options make of a value there. Everything
// that depends on names alone is decided once, when the place is first met.
type place struct {
	header   []byte // header of a BSON element, that is, a byte for the type, the name, and NUL. Its capacity is a multiple of 8.
	node     *node  // node of the paths. Nil means that no path leads here.
	use      use
	part     int  // for meta, the index of its part; for the time, the rank of its path
	fields   bool // the members of an object here are fields
	atTop    bool // a field at the top level
	reserved bool // the field has the name of the stored time or meta
	depth    int  // depth of an object here. An event has depth 1.

	word, mask uint64 // the first bytes of the quoted name in a text, and the mask of the bits that count

	children []*place
	byName   map[string]*place // the children, once they are many
	dotted   []*place          // objects that dotted names make: {"a.b": 1} has one for a
	undotted *place            // for such an object, the place of the same name without dots

	seen  uint64 // the last event that had a value here
	first step   // step from the brace that opens an object here
	next  step   // step from the end of a value here
}

func (p *place) name() []byte { return p.header[1 : len(p.header)-1] }

// child returns the place of a name in the object here. Nil means that the name was not met yet.
func (p *place) child(name []byte) *place {
	if p.byName != nil {
		return p.byName[string(name)]
	}
	return placeNamed(p.children, name)
}

// placeNamed returns the place of a name among a few places. Nil means that there is none.
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

// newTop returns the place of events.
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
		p.use, p.part = asTime, p.node.part
	case p.node != nil && p.node.role == isMeta:
		p.use, p.part = asMeta, p.node.part
	case p.node != nil && p.node.role == isDropped:
		p.use = asDrop
	case parent.fields:
		p.use, p.fields = asField, true
		p.atTop = parent.node != nil && parent.node.isStored
		p.reserved = p.atTop && o.isReserved(name)
	case p.node == nil:
		p.use = asIgnore
	default:
		p.use, p.fields = asWay, p.node.isStored
	}
	return p
}

// newHeader returns the header of a place with this name.
func newHeader(name []byte) []byte {
	n := len(name) + 2
	header := make([]byte, n, (n+7)&^7)
	copy(header[1:], name)
	return header
}

// wholeHeader returns a header of newHeader of at most 16 bytes, and what follows it up to 16 bytes.
func wholeHeader(header []byte) [2]uint64 {
	var whole [16]byte
	copy(whole[:], header)
	return [2]uint64{binary.LittleEndian.Uint64(whole[:]), binary.LittleEndian.Uint64(whole[8:])}
}

// putHeader copies a header of newHeader, eight bytes at a time. It writes up to seven bytes too many, which the caller must
// overwrite.
func putHeader(dst, header []byte) {
	whole := header[:cap(header)]
	for j := 0; j+8 <= len(whole); j += 8 {
		binary.LittleEndian.PutUint64(dst[j:], binary.LittleEndian.Uint64(whole[j:]))
	}
}

// holds reports whether the members of an object at this place are read one by one.
func (p *place) holds() bool { return p.use == asField || p.use == asWay || p.inMeta() }

// inMeta reports whether an object at this place is written to meta.
func (p *place) inMeta() bool { return p.use == asMeta || p.use == asMember }

// isUsualName reports whether a name can be addressed everywhere. It does not judge names with dots.
func isUsualName(name []byte) bool { return len(name) > 0 && name[0] != '$' }

// isFree reports whether the value of a name in the object here is not stored. Such a name may be anything.
func (p *place) isFree(name []byte) bool {
	if len(name) == 0 || p.node == nil || p.inMeta() {
		return false
	}
	n := nodeOf(p.node.children, name)
	return n != nil && n.role != through || !p.fields
}

// placeOf returns the place of a name in the object at a place. Nil means that the name is unusual, or that too many places were
// met.
func (q *quick) placeOf(parent *place, name []byte) *place {
	if p := parent.child(name); p != nil {
		return p
	}
	if !isUsualName(name) && !parent.isFree(name) || len(name) > maxLiteral || !q.room() {
		return nil
	}
	p := q.options.newPlace(parent, name)
	parent.add(p)
	return p
}

// dottedPlaceOf is placeOf for an object that dotted names make.
func (q *quick) dottedPlaceOf(parent *place, name []byte) *place {
	if p := placeNamed(parent.dotted, name); p != nil {
		return p
	}
	undotted := q.placeOf(parent, name)
	if undotted == nil || undotted.use != asField || len(parent.dotted) >= mostDotted || !q.room() {
		return nil
	}
	p := q.options.newPlace(parent, name)
	p.undotted = undotted
	parent.dotted = append(parent.dotted, p)
	return p
}

// room reports whether another place may be remembered.
func (q *quick) room() bool {
	if q.places >= maxPlaces {
		q.full = true
		return false
	}
	q.places++
	return true
}
