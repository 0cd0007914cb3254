package measurement

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

const (
	// maxKnownNames bounds the names and levels that a walker knows. The walker does not take events with more names.
	maxKnownNames = 1024
	// maxKnownBytes is how long a known name may be.
	maxKnownBytes = 128
	// fewKnown is the largest number of names of a level that are compared one by one.
	fewKnown = 16
	// patience is how many events with unknown names may come before the walker forgets all names and learns anew.
	patience = 4096
)

// bsonLevel holds the names that were seen in the object at one place of the events. Learning a name decides once whether it may
// be stored, and where the paths lead.
type bsonLevel struct {
	paths   []node // paths that lead on from here
	outside bool   // the object lies outside of the stored object, so any name is allowed
	top     bool   // the object is the stored object
	before  bsonName
	few     []*bsonName          // its names, while they are few
	index   map[string]*bsonName // its names, once they are many
	visit   uint32               // number of objects that were walked
}

// bsonName is a known name.
type bsonName struct {
	text   []byte    // with its NUL, as it stands in an element
	word   uint64    // the first eight bytes of text, or text with zeros behind it
	mask   uint64    // selects the bytes of word that belong to text
	next   *bsonName // the name that followed it last. Nil means that none has followed.
	rising bool      // next is greater than this name
	visit  uint32    // visit of the level in which the name was seen last
	node   *node     // node of the paths that lead to this name. Nil means that none does.
	// reserved means that a stored measurement has its time or meta under this name.
	reserved bool
	inside   bsonInside
}

// bsonInside holds the levels inside a value. They are made on demand.
type bsonInside struct {
	object *bsonLevel  // the names of the value, if it is an object
	array  *bsonInside // the levels inside its elements, if it is an array
}

// bsonNames are all levels of a decoder's events.
type bsonNames struct {
	options *Options
	event   *bsonLevel
	count   int // number of names and levels
	unknown int // events with unknown names since count reached maxKnownNames
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

// is reports whether an element has this name. word holds the first eight bytes of the element's name.
func (n *bsonName) is(word uint64, document []byte, at, limit int) bool {
	const loaded = 8
	end := at + len(n.text)
	return word&n.mask == n.word && end <= limit && (end <= at+loaded || string(document[at+loaded:end]) == string(n.text[loaded:]))
}

// name returns the name that stands at an index, in an element that follows the name before. Nil means that the name is unknown
// and cannot be learned.
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

// follow remembers name as the successor of before.
func (l *bsonLevel) follow(before, name *bsonName) *bsonName {
	before.next = name
	before.rising = before == &l.before || bytes.Compare(before.text, name.text) < 0
	return name
}

// find returns the name at the start of a list, which starts behind the type byte of its first element.
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

// known returns the known name of a text without its NUL. Nil means that the name is not known.
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

// learn adds a name, with its NUL, to a level. Nil means that the name cannot be cached.
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

// level returns the level of the objects inside a value. The paths' node at leads to the value.
func (n *bsonNames) level(in *bsonInside, at *node, outside bool) *bsonLevel {
	if in.object == nil {
		n.count++
		in.object = newBSONLevel(at, outside)
	}
	return in.object
}

// elements returns the levels inside the elements of an array.
func (n *bsonNames) elements(in *bsonInside) *bsonInside {
	if in.array == nil {
		n.count++
		in.array = &bsonInside{}
	}
	return in.array
}
