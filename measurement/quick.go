package measurement

import (
	"encoding/binary"

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
	start int // of its element in out; negative: it has none
	taken int // before it
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
	if i >= len(q.text) || q.text[i] != '{' {
		return unknown
	}
	q.event++
	q.open = append(q.open[:0], opened{place: q.top, start: -1})
	q.names, q.starts = q.names[:0], q.starts[:0]
	clear(q.parts)
	q.hasTime, q.isStored, q.isDotted, q.isOpaque, q.taken, q.topCount = false, q.top.fields, false, false, 0, 0
	s := &q.top.first
	for i++; ; {
		if i = q.take(s, i); i < 0 || s.place == nil {
			return i
		}
		p := s.place
		if i = skipSpace(q.text, i); i == len(q.text) {
			return unknown
		}
		if q.text[i] == '{' && p.holds() {
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
		if i = q.value(p, i); i < 0 {
			return unknown
		}
		s = &p.next
	}
}

// take goes a step.
func (q *quick) take(s *step, i int) int {
	n := len(s.literal)
	if n == 0 || len(q.text)-i < n || string(q.text[i:i+n]) != string(s.literal) {
		return q.learn(s, i)
	}
	for _, m := range s.moves {
		if !q.make(m) {
			return unknown
		}
	}
	return i + n
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
	start := -1
	if p.use == asField {
		start = len(q.out)
		q.out = append(append(q.out, p.header...), 0, 0, 0, 0)
		q.out[start] = byte(bson.TypeEmbeddedDocument)
	}
	q.isStored = q.isStored || p.fields
	q.open = append(q.open, opened{place: p, start: start, taken: q.taken})
	return true
}

// end ends the innermost object.
func (q *quick) end() bool {
	last := len(q.open) - 1
	o := q.open[last]
	if q.open = q.open[:last]; o.start < 0 {
		return true
	}
	document := o.start + len(o.place.header)
	q.out = rawbson.EndDocument(q.out, document)
	if q.taken > o.taken && len(q.out)-document == rawbson.Empty {
		q.out = q.out[:o.start] // it held what was taken out and nothing else
		return true
	}
	return q.kept(o.place)
}

// kept counts a field.
func (q *quick) kept(p *place) bool {
	if p.atTop {
		q.topCount++
	}
	return !p.reserved
}

// value reads the value at a place.
func (q *quick) value(p *place, i int) int {
	switch p.use {
	case asField:
		return q.field(p, i)
	case asTime:
		q.taken++
		return q.readTime(i)
	case asMeta:
		q.taken++
		return q.readMeta(p, i)
	case asDrop:
		q.taken++
	case asWay:
		if n := p.node; n.onRoot || n.isRoot || n.isStored {
			return unknown // something must be found behind it
		}
	case asIgnore:
	}
	return q.skip(i, p.depth)
}

// field appends a field that is no object.
func (q *quick) field(p *place, i int) int {
	if !q.kept(p) {
		return unknown
	}
	text, at := q.text, len(q.out)
	out := append(q.out, p.header...)
	if c := text[i]; c-'0' <= 9 || c == '-' {
		value, kind, end := scanNumber(text, i)
		out[at] = byte(kind)
		if kind == bson.TypeInt32 {
			out = binary.LittleEndian.AppendUint32(out, uint32(value))
		} else {
			out = binary.LittleEndian.AppendUint64(out, value)
		}
		q.out = out
		return end
	}
	out, kind, end := q.appendValue(out, i, p.depth, false)
	out[at] = byte(kind)
	q.out = out
	return end
}

func (q *quick) readTime(i int) int {
	text := q.text
	if text[i] == '"' {
		end, how := scanString(text, i+1)
		if end < 0 || how != plain {
			return unknown
		}
		q.when, q.hasTime = q.time.parseText(text[i+1 : end])
		return end + 1
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
