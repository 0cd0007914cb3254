package measurement

import (
	"bytes"
	"unicode/utf8"
)

const (
	// maxKnownNames bounds the names, and objects with names, that a walker knows. Events with more go the longer way.
	maxKnownNames = 1024
	// maxKnownBytes is how long a known name may be.
	maxKnownBytes = 128
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
	index   map[string]*bsonName
	visit   uint32 // counts the objects
}

// bsonName is a known name.
type bsonName struct {
	text   []byte    // with its NUL, as it stands in an element
	next   *bsonName // that followed the last time; nil: none has
	rising bool      // the next one is greater
	visit  uint32    // of its level, when it was seen last
	node   *node     // of the paths that lead there; nil: none does
	// reserved: a stored measurement has its time or meta under this name.
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

// find returns the name at the start of a list behind its kind, as one that follows another: the prediction was wrong. Nil:
// it is not known, and cannot be.
func (n *bsonNames) find(l *bsonLevel, before *bsonName, list []byte) *bsonName {
	end := bytes.IndexByte(list, 0)
	if end < 0 {
		return nil
	}
	found := l.index[string(list[:end])]
	if found == nil {
		if found = n.learn(l, list[:end+1]); found == nil {
			return nil
		}
	}
	before.next = found
	before.rising = before == &l.before || bytes.Compare(before.text, found.text) < 0
	return found
}

// learn adds a name, with its NUL, to a level; nil: it is none that is always right there, or there are too many.
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
	if !l.outside && (len(name) == 0 || name[0] == '$') {
		return nil
	}
	learned := &bsonName{text: bytes.Clone(text), node: nodeOf(l.paths, name), visit: l.visit - 1}
	o := n.options
	learned.reserved = l.top && (string(name) == o.StoredTime || string(name) == o.StoredMeta)
	if learned.reserved && learned.node == nil {
		return nil
	}
	if l.index == nil {
		l.index = map[string]*bsonName{}
	}
	l.index[string(name)] = learned
	n.count++
	return learned
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
