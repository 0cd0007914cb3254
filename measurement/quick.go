package measurement

import (
	"encoding/binary"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries/rawbson"
)

// quick turns the JSON text of an event into a measurement in one pass, without tokens in between. It knows events as most
// are: whatever else comes it leaves to the reader of jsonreader.go, which is slower and knows all, errors included.
//
// Events of one source have the same names in the same order, or nearly. So it remembers for each place of a value the step
// to the next: the text between, with braces, quoted names, colons, commas and white space, and what that text does. Where
// the text is the same again, one comparison does for all rules about names; where not, the step is read and remembered.
type quick struct {
	off      bool // everything is left to the other reader: for tests
	options  *Options
	paths    *paths
	time     *timeParser
	nest     bool
	extended bool

	top     *place
	places  int    // remembered
	full    bool   // one more was met than may be remembered
	missed  int    // records in a row that were not known
	records int    // since the places were forgotten
	event   uint64 // counts events, so that what an earlier one has seen need not be wiped off

	// Of the record:
	text  []byte
	metas []byte // the values of meta of all its events

	// Of the event:
	out      []byte // the fields, behind those of events before
	open     []opened
	names    [][]byte // of objects in arrays and in meta that are open
	starts   []int    // of the members of objects in meta that are open, in metas
	spare    []byte
	members  []member
	parts    []metaSpan
	when     reading
	hasTime  bool
	isStored bool // the object with the fields was seen
	isDotted bool // a dotted name was seen
	isOpaque bool // an object was skipped, whose names were not compared
	taken    int  // how often something was taken out
	topCount int  // fields at the top level
}

// opened is an object that is open.
type opened struct {
	place *place
	start int // of its element, in out or in metas; negative: it has none
	taken int // before it
	first int // of its members in names and starts, in meta
}

// metaSpan is a value of meta, in metas; kind 0: not seen.
type metaSpan struct {
	kind       bson.Type
	start, end int
}

func newQuick(d *Decoder) quick {
	return quick{
		options: &d.options, paths: &d.paths, time: &d.time, nest: d.options.DottedNames == Nest,
		extended: d.options.Format == ExtJSON, top: newTop(&d.paths), parts: make([]metaSpan, len(d.paths.meta)),
	}
}

// read reads the event that begins at i, and returns where it ends. What it makes of it is in the fields of the event.
func (q *quick) read(i int) int {
	text := q.text
	if i >= len(text) || text[i] != '{' {
		return unknown
	}
	q.clear()
	s := &q.top.first
	for i++; ; {
		var p *place
		if p, i = q.take(s, i); i < 0 || p == nil {
			return i
		}
		if i = skipSpace(text, i); i == len(text) {
			return unknown
		}
		if text[i] == '{' && p.holds() && !q.wraps(i) {
			if !q.begin(p) {
				return unknown
			}
			i, s = i+1, &p.first
			continue
		}
		if p.seen == q.event {
			return unknown
		}
		p.seen = q.event
		if p.use == asField {
			i = q.field(p, i)
		} else {
			i = q.other(p, i)
		}
		if i < 0 {
			return unknown
		}
		s = &p.next
	}
}

// clear forgets the event before.
func (q *quick) clear() {
	q.event++
	q.open = append(q.open[:0], opened{place: q.top, start: -1})
	q.names, q.starts = q.names[:0], q.starts[:0]
	clear(q.parts)
	q.hasTime, q.isStored, q.isDotted, q.isOpaque, q.taken, q.topCount = false, q.top.fields, false, false, 0, 0
}

// take goes a step, and returns the place of the next value; nil: the event ends.
func (q *quick) take(s *step, i int) (*place, int) {
	if !s.matches(q.text[i:]) {
		return q.turn(s, i)
	}
	s.missed = 0
	for _, m := range s.moves {
		if !q.make(m) {
			return nil, unknown
		}
	}
	return s.place, i + len(s.literal)
}

// turn goes a step that differs from the one before. Names may come in any order: only when it has differed for some times
// it is remembered.
func (q *quick) turn(s *step, i int) (*place, int) {
	if s.missed++; s.missed < longMissed {
		if p, next := q.sibling(s, i); next >= 0 {
			return p, next
		}
	}
	s.missed = 0
	i = q.learn(s, i)
	return s.place, i
}

// sibling goes on with another name that the innermost object is known to have, or ends the event, where nothing but that is
// to be done.
func (q *quick) sibling(s *step, i int) (*place, int) {
	text, object := q.text, q.open[len(q.open)-1].place
	if i >= len(text) || object.undotted != nil {
		return nil, unknown
	}
	if text[i] == '}' && len(q.open) == 1 {
		if !q.end() {
			return nil, unknown
		}
		return nil, i + 1
	}
	if !s.opening {
		if text[i] != ',' {
			return nil, unknown
		}
		i++
	}
	if len(text)-i <= 8 || len(object.children) > fewChildren {
		return nil, unknown
	}
	w := binary.LittleEndian.Uint64(text[i:])
	for _, p := range object.children {
		if (w^p.word)&p.mask != 0 {
			continue
		}
		// The name between its quotes, and the colon.
		name := p.name()
		colon := i + len(name) + 2
		if colon+1 < len(text) && text[colon] == ':' && text[colon-1] == '"' && string(text[i+1:colon-1]) == string(name) {
			return p, colon + 1
		}
	}
	return nil, unknown
}

func (q *quick) make(m move) bool {
	if m.begin != nil {
		return q.begin(m.begin)
	}
	return q.end()
}

// begin begins an object.
func (q *quick) begin(p *place) bool {
	own := p
	if p.undotted != nil {
		own, q.isDotted = p.undotted, true
	}
	if own.seen == q.event || p.depth > maxDepth {
		return false
	}
	own.seen = q.event
	o := opened{place: p, start: -1, taken: q.taken, first: len(q.names)}
	switch p.use {
	case asField:
		o.start = len(q.out)
		q.out = append(append(q.out, p.header...), 0, 0, 0, 0)
		q.out[o.start] = byte(bson.TypeEmbeddedDocument)
	case asMember:
		q.beginMember(p, bson.TypeEmbeddedDocument)
		o.first = len(q.names)
		fallthrough
	case asMeta:
		o.start = len(q.metas)
		q.metas = append(q.metas, 0, 0, 0, 0)
	default:
		q.isStored = q.isStored || p.fields
	}
	q.open = append(q.open, o)
	return true
}

// end ends the innermost object.
func (q *quick) end() bool {
	last := len(q.open) - 1
	o := &q.open[last]
	if q.open = q.open[:last]; o.start < 0 {
		return true
	}
	if o.place.inMeta() {
		return q.endMeta(o)
	}
	document := o.start + len(o.place.header)
	q.out = rawbson.EndDocument(q.out, document)
	if q.taken > o.taken && len(q.out)-document == rawbson.Empty {
		q.out = q.out[:o.start] // it held what was taken out and nothing else
		return true
	}
	return q.kept(o.place)
}

// endMeta ends an object in meta.
func (q *quick) endMeta(o *opened) bool {
	if !q.settle(q.metas, o.first, true) {
		return false
	}
	q.metas = rawbson.EndDocument(q.metas, o.start)
	if o.place.use == asMeta {
		q.parts[o.place.part] = metaSpan{bson.TypeEmbeddedDocument, o.start, len(q.metas)}
		q.taken++
	}
	return true
}

// beginMember begins a member of an object in meta.
func (q *quick) beginMember(p *place, kind bson.Type) {
	at := len(q.metas)
	q.names, q.starts = append(q.names, p.name()), append(q.starts, at)
	q.metas = append(q.metas, p.header...)
	q.metas[at] = byte(kind)
}

// kept counts a field.
func (q *quick) kept(p *place) bool {
	if p.atTop {
		q.topCount++
	}
	return !p.reserved
}

// field appends a field that is no object.
func (q *quick) field(p *place, i int) int {
	if !q.kept(p) {
		return unknown
	}
	at := len(q.out)
	if c := q.text[i]; c-'0' <= 9 || c == '-' {
		value, kind, end := scanNumber(q.text, i)
		q.out = p.appendNumber(q.out, value, kind)
		return end
	} else if c == '{' {
		if value, kind, end := q.wrappedNumber(i, p.depth); end >= 0 {
			q.out = p.appendNumber(q.out, value, kind)
			return end
		}
	}
	out, kind, end := q.appendValue(append(q.out, p.header...), i, p.depth, false)
	out[at] = byte(kind)
	q.out = out
	return end
}

// appendNumber appends an element with a number, of which it gets the bits.
func (p *place) appendNumber(out []byte, value uint64, kind bson.Type) []byte {
	at, n := len(out), len(p.header)
	if cap(out)-at < n+16 {
		out = slices.Grow(out, n+16)
	}
	// Eight bytes at a time, up to seven too many, which the value and what comes later overwrite.
	header, out := p.header[:cap(p.header)], out[:at+n+16]
	for j := 0; j+8 <= len(header); j += 8 {
		binary.LittleEndian.PutUint64(out[at+j:], binary.LittleEndian.Uint64(header[j:]))
	}
	out[at] = byte(kind)
	binary.LittleEndian.PutUint64(out[at+n:], value)
	if kind == bson.TypeInt32 {
		return out[:at+n+4]
	}
	return out[:at+n+8]
}

// other reads a value that is no field.
func (q *quick) other(p *place, i int) int {
	switch p.use {
	case asTime:
		q.taken++
		return q.readTime(p, i)
	case asMeta:
		q.taken++
		return q.readMeta(p, i)
	case asMember:
		at := len(q.metas)
		q.beginMember(p, 0)
		out, kind, end := q.appendValue(q.metas, i, p.depth, true)
		out[at] = byte(kind)
		q.metas = out
		return end
	case asDrop:
		q.taken++
	case asWay:
		if n := p.node; n.onRoot || n.isRoot || n.isStored {
			return unknown // something must be found behind it
		}
	}
	return q.skip(i, p.depth)
}

func (q *quick) readTime(p *place, i int) int {
	text := q.text
	if text[i] == '"' {
		end, how := scanString(text, i+1)
		if end < 0 || how != plain {
			return unknown
		}
		q.when, q.hasTime = q.time.parseText(text[i+1 : end])
		return end + 1
	}
	if text[i] == '{' {
		return q.readWrappedTime(i, p.depth)
	}
	if c := text[i]; c-'0' > 9 && c != '-' {
		return unknown
	}
	value, kind, end := scanNumber(text, i)
	if end >= 0 {
		q.when, q.hasTime = q.time.parseScalar(kind, value)
	}
	return end
}

func (q *quick) readMeta(p *place, i int) int {
	start := len(q.metas)
	out, kind, end := q.appendValue(q.metas, i, p.depth, true)
	q.metas = out
	q.parts[p.part] = metaSpan{kind, start, len(out)}
	return end
}
