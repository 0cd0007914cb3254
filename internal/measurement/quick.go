package measurement

import (
	"bytes"
	"encoding/binary"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// quick turns the JSON text of an event into a measurement in one pass, without tokens in between. It reads only usual events. It
// leaves all others, including wrong ones, to the slower reader in jsonreader.go.
//
// Events of one source have nearly always the same names in the same order. For each place of a value, quick therefore remembers
// the step to the next value. A step holds the text between the values, with its braces, quoted names, colons, commas and white
// space, and the effect of that text. If the text is the same again, one comparison replaces all checks of names. Otherwise quick
// reads the step and remembers it.
type quick struct {
	off      bool // the slower reader reads everything
	options  *Options
	paths    *paths
	time     *timeParser
	nest     bool
	extended bool
	numbers  bool // texts may be numbers
	noNulls  bool // fields that are null are left out

	top     *place
	places  int    // number of remembered places
	full    bool   // more places were met than may be remembered
	missed  int    // number of consecutive records that quick could not read
	records int    // number of records since the places were last forgotten
	event   uint64 // counts events, so that marks of earlier events need not be cleared

	// The state of the current record and event:
	draft
	text     []byte
	out      []byte // the fields, behind the fields of earlier events
	open     []opened
	names    [][]byte // names of open objects in arrays and in meta
	unquoted []byte   // buffer for a name with escapes
	starts   []int    // where the members of open objects in meta begin in metas
	spare    []byte
	members  []member
	isDotted bool // a dotted name was seen
	isOpaque bool // an object was skipped without comparing its names
}

func newQuick(d *Decoder) quick {
	return quick{
		options: &d.options, paths: &d.paths, time: &d.time, nest: d.options.DottedNames == Nest,
		extended: d.options.Format == ExtJSON, top: newTop(&d.paths), draft: newDraft(d),
		numbers: d.options.Numbers == NumbersInText, noNulls: d.options.Nulls == DropNulls,
	}
}

// read reads the event that begins at i, and returns its end. The fields of q hold the result.
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
		if i < len(text) && text[i] <= ' ' {
			i = skipSpace(text, i)
		}
		if i >= len(text) {
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

// clear forgets the previous event.
func (q *quick) clear() {
	q.event++
	q.open = append(q.open[:0], opened{place: q.top, start: -1})
	q.names, q.starts = q.names[:0], q.starts[:0]
	q.beginEvent(q.top.fields)
	q.isDotted, q.isOpaque = false, false
}

// field appends a field that is not an object.
func (q *quick) field(p *place, i int) int {
	if !q.kept(p) {
		return unknown
	}
	var value uint64
	var kind bson.Type
	end := unknown
	switch c := q.text[i]; {
	case c-'0' <= 9 || c == '-':
		value, kind, end = scanNumber(q.text, i)
	case c == '{':
		value, kind, end = q.wrappedNumber(i, p.depth)
	case c == '"' && q.numbers:
		return q.textField(p, i)
	}
	if end < 0 {
		return q.longField(p, i)
	}
	at, n := len(q.out), len(p.header)
	if cap(q.out)-at < n+16 {
		q.out = slices.Grow(q.out, n+16)
	}
	out := q.out[:at+n+16]
	putHeader(out[at:], p.header) // the value and later fields overwrite the bytes behind it
	out[at] = byte(kind)
	binary.LittleEndian.PutUint64(out[at+n:], value)
	size := 8
	if kind == bson.TypeInt32 {
		size = 4
	}
	q.out = out[:at+n+size]
	return end
}

// longField appends a field whose value has more than eight bytes, or fewer than four.
func (q *quick) longField(p *place, i int) int {
	at := len(q.out)
	out, kind, end := q.appendValue(append(q.out, p.header...), i, p.depth, false)
	if kind == bson.TypeArray && p.node != nil && p.node.toPart {
		return unknown // the array is in the way of the path
	}
	if kind == bson.TypeNull && q.noNulls {
		if out = out[:at]; p.atTop {
			q.topCount--
		}
	} else {
		out[at] = byte(kind)
	}
	q.out = out
	return end
}

// other reads a value that is not a field.
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
			return unknown // the root or the stored object must lie here or below
		}
		if n := p.node; n.toPart && q.text[i] == '[' {
			return unknown // the array is in the way of the path
		}
	}
	return q.skip(i, p.depth)
}

func (q *quick) readTime(p *place, i int) int {
	text := q.text
	if len(q.paths.times) > 1 {
		if q.rank >= 0 && q.rank < p.part || text[i] == 'n' {
			return q.skip(i, p.depth)
		}
		q.rank = p.part
	}
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

// textField appends a text field, or the number that the text writes.
func (q *quick) textField(p *place, i int) int {
	end, how := scanString(q.text, i+1)
	if end < 0 || how != plain {
		return unknown
	}
	text, at := q.text[i+1:end], len(q.out)
	kind, out := bson.TypeString, append(q.out, p.header...)
	if mayBeNumeral(text) {
		var number bson.Type
		if number, out = appendNumeral(out, text); number != 0 {
			kind = number
		} else if bytes.IndexByte(text, ',') >= 0 {
			return unknown // it may be a number with a comma
		}
	}
	if kind == bson.TypeString {
		out = rawbson.AppendString(out, text)
	}
	out[at] = byte(kind)
	q.out = out
	return end + 1
}

func (q *quick) readMeta(p *place, i int) int {
	start := len(q.metas)
	out, kind, end := q.appendValue(q.metas, i, p.depth, true)
	q.metas = out
	q.parts[p.part] = metaSpan{kind, start, len(out)}
	return end
}

const (
	// manyUnknown is the number of consecutive unknown records after which the quick reader tries only some of them.
	manyUnknown = 16
	// retried means that the quick reader then tries one of this many records.
	retried = 16
	// relearned is the number of records after which all places are forgotten, if there is no room for more.
	relearned = 1 << 16
)

// decodeQuickly fills the results with the measurements of the record's text. False means only that the slower reader must read
// the record. The results are then unchanged.
func (d *Decoder) decodeQuickly() bool {
	q := &d.quick
	if q.off || !q.worthwhile() {
		return false
	}
	written := len(d.out)
	q.text, q.out = d.text, d.out
	q.beginRecord(d)
	ok := d.readQuickly()
	if d.out = q.out; ok {
		q.missed = 0
		return true
	}
	q.missed++
	d.out, d.results = d.out[:written], d.results[:0]
	return false
}

// worthwhile reports whether to try the next record.
func (q *quick) worthwhile() bool {
	if q.records++; q.full && q.records >= relearned {
		q.top, q.places, q.full, q.records = newTop(q.paths), 0, false, 0
	}
	return q.missed < manyUnknown || q.records%retried == 0
}

func (d *Decoder) readQuickly() bool {
	text := d.text
	i := skipSpace(text, 0)
	if i == len(text) {
		return false
	}
	if text[i] != '[' {
		i = d.readEventQuickly(i, 0)
		return i == len(text) || i >= 0 && d.readTextsQuickly(i)
	}
	i = skipSpace(text, i+1)
	for part := range int32(timeseries.MaxParts) {
		if i = d.readEventQuickly(i, part); i < 0 {
			return false
		}
		more, next := d.quick.separator(i, ']')
		if i = next; !more {
			return i >= 0 && skipSpace(text, i) == len(text)
		}
	}
	return false
}

// readTextsQuickly reads the objects that follow the first, which ends at i.
func (d *Decoder) readTextsQuickly(i int) bool {
	for part := int32(1); part < timeseries.MaxParts; part++ {
		if i = skipSpace(d.text, i); i == len(d.text) {
			return true
		}
		if i = d.readEventQuickly(i, part); i < 0 {
			return false
		}
	}
	return skipSpace(d.text, i) == len(d.text)
}

// readEventQuickly appends the result of the event at i, and returns the end of the event.
func (d *Decoder) readEventQuickly(i int, part int32) int {
	q := &d.quick
	start := len(q.out)
	if i = q.read(i); i < 0 {
		return unknown
	}
	if q.isDotted && q.isOpaque || !d.finish(&q.draft, q.out[start:], part) {
		return unknown
	}
	if d.time.exact {
		var ok bool
		if q.out, ok = d.options.appendExact(q.out, q.when.millis, d.time.below); !ok {
			return unknown
		}
		d.results[len(d.results)-1].Measurement.Elements = q.out[start:len(q.out):len(q.out)]
	}
	return i
}

// drop drops the buffers that a large record enlarges.
func (q *quick) drop() {
	q.text, q.out, q.metas, q.names, q.starts, q.spare, q.members = nil, nil, nil, nil, nil, nil, nil
}

// bufferBytes estimates the size of these buffers, without the buffers that the Decoder owns.
func (q *quick) bufferBytes() int {
	const nameBytes, memberBytes = 24 + 8, 24 + 24
	return cap(q.metas) + cap(q.spare) + nameBytes*cap(q.names) + memberBytes*cap(q.members)
}
