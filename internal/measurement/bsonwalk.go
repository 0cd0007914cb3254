package measurement

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// bsonWalker makes a measurement of a BSON document in one walk, which validates it, takes time and meta out and copies the rest.
// It knows the names of former events and their order, so an expected name costs one comparison. It leaves wrong and rare events
// to bsonChecker and shape, which report what is wrong.
//
// Its methods take and return indexes of the document. The index -1 means that the walker does not take the document.
type bsonWalker struct {
	backoff
	d     *Decoder
	names bsonNames

	// The state of the event being walked:
	document []byte
	start    int    // start of the measurement's elements in the decoder's out
	run      int    // start of the document's bytes that are to be copied next
	elements []byte // elements of the measurement, after the walk
	sorted   bool   // the names of all objects in the current value rise
	odd      bool   // the current value holds a rare type, which perhaps cannot name a series
	normal   []byte // the normal form of meta, or of the part of it that was taken last. Nil means that the form is not known.
	members  []bsonMember
	arranged []byte // a buffer for sorted members
}

func newBSONWalker(d *Decoder) *bsonWalker {
	w := &bsonWalker{d: d, names: bsonNames{options: &d.options}}
	w.names.forget(&d.paths.event)
	return w
}

// decode makes a measurement of an event. False means that the walker does not take the event.
func (w *bsonWalker) decode(document []byte, m *Measurement) bool {
	if w.rests() {
		return false
	}
	w.start = len(w.d.out)
	ok := w.walk(document) && w.measure(m)
	if w.note(ok); !ok {
		w.d.out = w.d.out[:w.start]
		if w.names.unknown > patience {
			w.names.forget(&w.d.paths.event)
		}
	}
	return ok
}

// walk goes through the event.
func (w *bsonWalker) walk(document []byte) bool {
	d := w.d
	d.beginEvent(d.options.DottedNames == Reject) // with Nest, the walker takes no name that holds a dot
	w.document, d.event = document, document
	event := &d.paths.event
	if event.isRoot {
		d.foundRoot = document
	}
	end := 0
	if event.isStored {
		end = w.stored(w.names.event, 0, len(document), 1)
	} else {
		end = w.search(w.names.event, 0, len(document), 1)
	}
	return end == len(document) && d.foundRoot != nil && d.foundStored
}

// measure makes the measurement of the event that was walked.
func (w *bsonWalker) measure(m *Measurement) bool {
	d := w.d
	if !fitsDocument(len(w.elements), d.topCount) {
		return false
	}
	var err *DecodeError
	if m.Time, err = d.timeOf(); err != nil {
		return false
	}
	m.Elements = w.elements
	if d.options.MetaFrom == MetaFromValue && !d.paths.joined {
		if meta := &d.foundMeta[0]; meta.Kind != 0 && w.normal != nil && len(w.normal) <= maxMetaBytes {
			m.Meta = bson.RawValue{Type: meta.Kind, Value: w.normal}
			return true
		}
	}
	m.Meta, err = d.metaOf()
	return err == nil
}

// stored walks the stored object.
func (w *bsonWalker) stored(l *bsonLevel, start, limit, depth int) int {
	d := w.d
	d.foundStored = true
	w.run = start + 4
	end := w.copy(l, start, limit, depth)
	if end < 0 {
		return -1
	}
	// The elements are one run of the document, or none, and need no copy.
	if len(d.out) == w.start {
		w.elements = w.document[w.run : end-1 : end-1]
		return end
	}
	w.flush(end - 1)
	w.elements = d.out[w.start:len(d.out):len(d.out)]
	return end
}

// flush copies the pending bytes before an index.
func (w *bsonWalker) flush(to int) {
	w.d.out = append(w.d.out, w.document[w.run:to]...)
}

// open begins an object, and returns the index of its end.
func (w *bsonWalker) open(l *bsonLevel, start, limit, depth int) (end int) {
	n := rawbson.DocumentSize(w.document[start:limit])
	if n < 0 || depth > maxWalked {
		return -1
	}
	l.visit++
	return start + n - 1
}

// copy walks an object from which paths take something out.
func (w *bsonWalker) copy(l *bsonLevel, start, limit, depth int) int {
	end := w.open(l, start, limit, depth)
	if end < 0 {
		return -1
	}
	name, kept := &l.before, 0
	for at := start + 4; at < end; {
		if name = w.names.name(l, name, w.document, at+1, end); name == nil || name.visit == l.visit {
			return -1
		}
		name.visit = l.visit
		kind, value := bson.Type(w.document[at]), at+1+len(name.text)
		switch {
		case name.node == nil:
			at = w.value(&name.inside, kind, value, end, depth)
			kept++
		case name.node.role != through:
			w.flush(at)
			at = w.take(name, kind, value, end, depth)
			w.run = at
		case kind == bson.TypeEmbeddedDocument:
			var emptied bool
			at, emptied = w.reduce(name, at, value, end, depth)
			if !emptied && name.reserved {
				return -1
			} else if !emptied {
				kept++
			}
		case name.reserved, kind == bson.TypeArray && name.node.toPart:
			return -1
		default:
			at = w.value(&name.inside, kind, value, end, depth)
			kept++
		}
		if uint(at) > uint(end) { // also -1
			return -1
		}
	}
	if l.top {
		w.d.topCount = kept
	}
	return end + 1
}

// reduce copies an object into which paths lead, after the header of its element. It drops an object that held nothing but values
// that were taken out.
func (w *bsonWalker) reduce(name *bsonName, at, value, limit, depth int) (end int, emptied bool) {
	d := w.d
	w.flush(value)
	length, taken := len(d.out), d.taken
	d.out = append(d.out, 0, 0, 0, 0)
	w.run = value + 4
	end = w.copy(w.names.level(&name.inside, name.node, false), value, limit, depth+1)
	if end < 0 {
		return -1, false
	}
	w.flush(end - 1)
	w.run = end
	d.out = rawbson.EndDocument(d.out, length)
	if emptied = d.taken > taken && len(d.out)-length == rawbson.Empty; emptied {
		d.out = d.out[:length-(value-at)]
	}
	return end, emptied
}

// take keeps a value to which a path leads.
func (w *bsonWalker) take(name *bsonName, kind bson.Type, value, limit, depth int) (end int) {
	switch name.node.role {
	case isDropped:
		end = w.skip(kind, value, limit, depth)
	case isMeta:
		end = w.meta(name, kind, value, limit, depth)
	default:
		end = w.value(&name.inside, kind, value, limit, depth)
	}
	if uint(end) > uint(limit) {
		return -1
	}
	w.d.take(rawbson.Element{Kind: kind, Name: name.text[:len(name.text)-1], Value: w.document[value:end:end]}, name.node)
	return end
}

// search walks an object outside of the stored object.
func (w *bsonWalker) search(l *bsonLevel, start, limit, depth int) int {
	end := w.open(l, start, limit, depth)
	if end < 0 {
		return -1
	}
	name := &l.before
	for at := start + 4; at < end; {
		if name = w.names.name(l, name, w.document, at+1, end); name == nil {
			return -1
		}
		kind, value := bson.Type(w.document[at]), at+1+len(name.text)
		switch {
		case name.node == nil:
			at = w.skip(kind, value, end, depth)
		case name.visit == l.visit:
			return -1
		default:
			name.visit = l.visit
			at = w.enter(name, kind, value, end, depth)
		}
		if uint(at) > uint(end) {
			return -1
		}
	}
	return end + 1
}

// enter continues in a value to which a path leads, or through which it leads.
func (w *bsonWalker) enter(name *bsonName, kind bson.Type, value, limit, depth int) (end int) {
	at := name.node
	switch {
	case at.role != through:
		return w.take(name, kind, value, limit, depth)
	case kind != bson.TypeEmbeddedDocument:
		return -1
	case at.isStored:
		end = w.stored(w.names.level(&name.inside, at, false), value, limit, depth+1)
	default:
		end = w.search(w.names.level(&name.inside, at, true), value, limit, depth+1)
	}
	if at.isRoot && end > 0 {
		w.d.foundRoot = w.document[value:end]
	}
	return end
}
