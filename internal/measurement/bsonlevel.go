package measurement

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

const (
	// maxKnownNames bounds the names, and objects with names, that a walker knows. Events with more go the longer way.
	maxKnownNames = 1024
	// maxKnownBytes is how long a known name may be.
	maxKnownBytes = 128
	// fewKnown is up to how many names of a level are compared one by one.
	fewKnown = 16
	// patience is how many events with unknown names go the longer way before all names are forgotten and learned anew.
	patience = 4096
)

// bsonLevel are the names that were seen in the object at one place of the events. What may be said of a name once and for all
// is said when it is learned: that it may be stored, and where the paths lead.
type bsonLevel struct {
	paths   []node // that lead from here
	outside bool   // of what is stored: names are free
	top     bool   // of what is stored
	before  bsonName
	few     []*bsonName          // its names, while they are
	index   map[string]*bsonName // its names, once they are many
	visit   uint32               // counts the objects
}

// bsonName is a known name.
type bsonName struct {
	text   []byte    // with its NUL, as it stands in an element
	word   uint64    // its first eight bytes, or those before a zero
	mask   uint64    // of the bits of word that are of the name
	next   *bsonName // that followed the last time. Nil means that none has.
	rising bool      // the next one is greater
	visit  uint32    // of its level, when it was seen last
	node   *node     // of the paths that lead there. Nil means that none does.
	// reserved means that a stored measurement has its time or meta under this name.
	reserved bool
	inside   bsonInside
}

// bsonInside are the levels of what is inside a value. They are made when they are needed.
type bsonInside struct {
	object *bsonLevel  // its names
	array  *bsonInside // what is inside its elements
}

// bsonNames are all levels of a decoder's events.
type bsonNames struct {
	options *Options
	event   *bsonLevel
	count   int // of names and levels
	unknown int // events that had more, since there are so many
}

// forget drops all names.
func (n *bsonNames) forget(event *node) {
	n.count, n.unknown = 0, 0
	n.event = newBSONLevel(event, !event.isStored)
}

func newBSONLevel(at *node, outside bool) *bsonLevel {
	l := &bsonLevel{outside: outside}
	if at != nil {
		l.paths, l.top = at.children, at.isStored
	}
	l.before.rising = true
	return l
}

// is reports whether an element has this name, whose first eight bytes were loaded already.
func (n *bsonName) is(word uint64, document []byte, at, limit int) bool {
	const loaded = 8
	end := at + len(n.text)
	return word&n.mask == n.word && end <= limit && (end <= at+loaded || string(document[at+loaded:end]) == string(n.text[loaded:]))
}

// name returns the name at an index, of an element that follows another. Nil means that it is not known, and cannot be.
func (n *bsonNames) name(l *bsonLevel, before *bsonName, document []byte, at, limit int) *bsonName {
	if at+8 > len(document) {
		return n.find(l, before, document[at:limit])
	}
	word := binary.LittleEndian.Uint64(document[at:])
	if next := before.next; next != nil && next.is(word, document, at, limit) {
		return next
	}
	for _, name := range l.few {
		if name.is(word, document, at, limit) {
			return l.follow(before, name)
		}
	}
	return n.find(l, before, document[at:limit])
}

// follow remembers that a name came behind another.
func (l *bsonLevel) follow(before, name *bsonName) *bsonName {
	before.next = name
	before.rising = before == &l.before || bytes.Compare(before.text, name.text) < 0
	return name
}

// find is name for a list that begins behind the kind of its first element.
func (n *bsonNames) find(l *bsonLevel, before *bsonName, list []byte) *bsonName {
	end := bytes.IndexByte(list, 0)
	if end < 0 {
		return nil
	}
	if known := l.known(list[:end]); known != nil {
		return l.follow(before, known)
	}
	if learned := n.learn(l, list[:end+1]); learned != nil {
		return l.follow(before, learned)
	}
	return nil
}

// known returns a name that is known, without its NUL.
func (l *bsonLevel) known(text []byte) *bsonName {
	if l.index != nil {
		return l.index[string(text)]
	}
	for _, name := range l.few {
		if string(name.text[:len(name.text)-1]) == string(text) {
			return name
		}
	}
	return nil
}

// learn adds a name, with its NUL, to a level; nil if the name cannot be cached.
func (n *bsonNames) learn(l *bsonLevel, text []byte) *bsonName {
	name := text[:len(text)-1]
	if n.count >= maxKnownNames {
		n.unknown++
		return nil
	}
	if len(name) > maxKnownBytes || !utf8.Valid(name) {
		return nil
	}
	if dotted := bytes.IndexByte(name, '.') >= 0; dotted && (n.options.DottedNames == Nest || !l.outside) {
		return nil
	}
	node := nodeOf(l.paths, name)
	if kept := node == nil || node.role == through; kept && !l.outside && (len(name) == 0 || name[0] == '$') {
		return nil
	}
	learned := &bsonName{text: bytes.Clone(text), node: node, visit: l.visit - 1}
	o := n.options
	learned.reserved = l.top && o.isReserved(name)
	if learned.reserved && learned.node == nil {
		return nil
	}
	var first [8]byte
	copy(first[:], text)
	learned.word = binary.LittleEndian.Uint64(first[:])
	learned.mask = ^uint64(0) >> (8 * max(0, len(first)-len(text)))
	l.add(learned)
	n.count++
	return learned
}

// add adds a name.
func (l *bsonLevel) add(name *bsonName) {
	if l.index == nil {
		if l.few = append(l.few, name); len(l.few) <= fewKnown {
			return
		}
		l.index = map[string]*bsonName{}
		for _, name := range l.few {
			l.index[string(name.text[:len(name.text)-1])] = name
		}
		l.few = nil
		return
	}
	l.index[string(name.text[:len(name.text)-1])] = name
}

// level returns the level of the objects inside a value to which the node leads.
func (n *bsonNames) level(in *bsonInside, at *node, outside bool) *bsonLevel {
	if in.object == nil {
		n.count++
		in.object = newBSONLevel(at, outside)
	}
	return in.object
}

// elements returns what is inside the elements of an array.
func (n *bsonNames) elements(in *bsonInside) *bsonInside {
	if in.array == nil {
		n.count++
		in.array = &bsonInside{}
	}
	return in.array
}
