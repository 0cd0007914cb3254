package measurement

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// draft is a measurement in the making. The readers in one pass fill it without making the event's document: quick, and the plans of
// formats with schemas.
type draft struct {
	metas []byte     // the values of meta of all events of the record
	own   []metaSpan // the parts of meta that come from the record itself. Kind 0 means that the part comes from the events, nil that all do.

	// The state of the current event:
	parts    []metaSpan // Kind 0 means that the part was not seen.
	when     reading
	hasTime  bool
	rank     int  // rank of the path that led to the time. -1 means that none was found.
	isStored bool // the object with the fields was seen
	taken    int  // how many values were taken out
	topCount int  // fields at the top level
}

// metaSpan is the place of a value of meta in metas. Kind 0 means that the value was not seen.
type metaSpan struct {
	kind       bson.Type
	start, end int
}

func newDraft(d *Decoder) draft {
	r := draft{parts: make([]metaSpan, len(d.paths.meta))}
	if d.paths.ofRecord {
		r.own = make([]metaSpan, len(d.paths.meta))
	}
	return r
}

// beginRecord forgets the previous record, and copies the parts of meta that come from the record itself.
func (r *draft) beginRecord(d *Decoder) {
	r.metas = r.metas[:0]
	for i := range r.own {
		e, start := &d.recordMeta[i], len(r.metas)
		r.metas = append(r.metas, e.Value...)
		r.own[i] = metaSpan{e.Kind, start, len(r.metas)}
	}
}

// beginEvent forgets the previous event. isStored means that the event itself is the stored object.
func (r *draft) beginEvent(isStored bool) {
	for i := range r.parts {
		r.parts[i].kind = 0
	}
	if r.own != nil {
		copy(r.parts, r.own)
	}
	r.hasTime, r.rank, r.isStored, r.taken, r.topCount = false, -1, isStored, 0, 0
}

// endObject ends the object of a field that begins at start. It removes an object that held nothing but values that were taken out.
func (r *draft) endObject(out []byte, start int, header []byte, takenBefore int, atTop bool) []byte {
	out = rawbson.EndDocument(out, start+len(header))
	if r.taken > takenBefore && len(out)-start == len(header)+rawbson.Empty {
		return out[:start]
	}
	if atTop {
		r.topCount++
	}
	return out
}

// finish adds the result of an event with these fields. False means that the slower reader must read the event.
func (d *Decoder) finish(r *draft, fields []byte, part int32) bool {
	timestamp := d.record.Timestamp
	if len(d.paths.times) == 0 {
		r.when, r.hasTime, d.time.below = readingOf(timestamp), timestamp >= 0, 0
	}
	if !r.isStored || !r.hasTime || d.options.side(r.when.millis, timestamp) != 0 || !fitsDocument(len(fields), r.topCount) {
		return false
	}
	if len(d.results) == cap(d.results) {
		d.results = slices.Grow(d.results, 1)
	}
	d.results = d.results[:len(d.results)+1] // the result is set in place, because copying it takes long
	result := &d.results[len(d.results)-1]
	m := &result.Measurement
	m.Position, result.Err = timeseries.Position{Offset: d.record.Offset, Part: part}, nil
	m.Time, m.Elements = r.when.millis, fields[:len(fields):len(fields)]
	switch d.options.MetaFrom {
	case MetaFromNone:
		m.Meta = bson.RawValue{}
		return true
	case MetaFromKey:
		m.Meta = d.keyMeta
		return true
	}
	meta := r.parts[0]
	if d.paths.joined {
		meta = r.joinParts(&d.paths)
	}
	m.Meta.Type, m.Meta.Value = meta.kind, r.metas[meta.start:meta.end:meta.end]
	isSegment := meta.kind == bson.TypeBinary && timeseries.IsSegmentMeta(m.Meta) // copying meta takes long right after it was written
	return meta.kind != 0 && meta.end-meta.start <= maxMetaBytes && !isSegment
}

// joinParts makes an object of the parts of meta, which are in the order of their names. Kind 0 means that there are none, or
// that only the slower reader knows whether a part may be absent.
func (r *draft) joinParts(p *paths) metaSpan {
	start := len(r.metas)
	out := append(r.metas, 0, 0, 0, 0)
	for i, part := range r.parts {
		if part.kind != 0 {
			out = rawbson.AppendHeader(out, part.kind, p.meta[i].name)
			out = append(out, out[part.start:part.end]...)
		} else if p.indexed {
			return metaSpan{}
		}
	}
	r.metas = rawbson.EndDocument(out, start)
	if len(r.metas)-start == rawbson.Empty {
		return metaSpan{}
	}
	return metaSpan{bson.TypeEmbeddedDocument, start, len(r.metas)}
}

// backoff spares the work of a reader in one pass that takes few of the events. After an event that it did not take, the reader
// rests for 2^lost-1 events.
type backoff struct {
	rest int // how many of the next events the reader leaves to the slower path
	lost int // how many consecutive events it did not take, at most mostLost
}

// mostLost bounds the rest.
const mostLost = 8

// rests reports whether the reader leaves the next event to the slower path.
func (b *backoff) rests() bool {
	if b.rest == 0 {
		return false
	}
	b.rest--
	return true
}

// note notes whether the reader took an event.
func (b *backoff) note(taken bool) {
	if taken {
		b.lost = 0
		return
	}
	b.rest = 1<<b.lost - 1
	b.lost = min(b.lost+1, mostLost)
}

// plan is the common part of the plans of formats with schemas.
type plan struct {
	draft
	backoff
}

// planStep says what becomes of the value at one place of the events.
type planStep struct {
	use      use
	part     int  // for meta, the index of its part; for the time, the rank of its path
	room     int  // the bytes that the fields of an object into which paths lead take at most, if they are numbers
	isPlain  bool // a field that no path leads into
	isNormal bool // for meta: values are encoded in their normal form, or can be
	atTop    bool
	isFields bool // the members of the object are stored
	isRoot   bool // the value must be an object, because the root or the stored object lies here or below
}

func newPlanStep(p *place) planStep {
	s := planStep{use: p.use, part: p.part, atTop: p.atTop}
	if n := p.node; n != nil {
		s.isFields, s.isRoot = n.isStored, n.onRoot || n.isRoot || n.isStored
	}
	return s
}

// takesPlans reports whether a plan supports the options.
func (d *Decoder) takesPlans() bool {
	o := &d.options
	return !d.stages.active && !d.paths.inHeader && o.Numbers == NumbersInJSON && o.TimeExact == ""
}

// readPlanned makes the result of the record's event with a plan, unless the plan rests. measure reads the event. False means only
// that the slower reader must read the event.
func (d *Decoder) readPlanned(p *plan, measure func() bool) bool {
	if p.rests() {
		return false
	}
	p.beginRecord(d)
	ok := measure()
	if p.note(ok); !ok {
		d.results = d.results[:0]
	}
	return ok
}

// plannedTime reads a time. rank is the rank of the path that leads to it. If several paths lead to times, the first whose value
// is not null counts.
func (d *Decoder) plannedTime(p *plan, rank int, kind bson.Type, value []byte) bool {
	p.taken++
	if len(d.paths.times) > 1 && (kind == bson.TypeNull || p.rank >= 0 && p.rank < rank) {
		return true
	}
	p.rank = rank
	var err *DecodeError
	p.when, err = d.time.parse(kind, value)
	p.hasTime = err == nil
	return p.hasTime
}

// plannedPart appends a part of meta in its normal form. isNormal says that the value is in this form already.
func (d *Decoder) plannedPart(p *plan, part int, isNormal bool, kind bson.Type, value []byte) bool {
	p.taken++
	start := len(p.metas)
	if isNormal {
		p.metas = append(p.metas, value...)
	} else {
		written := len(d.out)
		d.beginEvent(false)
		normal, err := d.normalize(kind, value)
		d.out = d.out[:written]
		if err != nil {
			return false
		}
		p.metas = append(p.metas, normal.Value...)
	}
	p.parts[part] = metaSpan{kind, start, len(p.metas)}
	return true
}

// cutText reads a text without copying it. False means that there is no valid text.
func (r *avroReader) cutText() ([]byte, bool) {
	if at := r.at; at < len(r.text) && r.text[at]&0x81 == 0 { // a length of one byte that is not negative
		if end := at + 1 + int(r.text[at]>>1); end <= len(r.text) {
			r.at = end
			text := r.text[at+1 : end]
			return text, isShortASCII(text) || utf8.Valid(text)
		}
	}
	size, ok := r.long()
	text, there := r.cut(size)
	return text, ok && there && (isShortASCII(text) || utf8.Valid(text))
}

// appendText appends an element with a text. The header's capacity must be a multiple of eight.
func appendText(out, header, text []byte) []byte {
	at, n := len(out), len(header)
	if cap(out)-at < n+len(text)+16 {
		out = slices.Grow(out, n+len(text)+16)
	}
	dst := out[:at+n+len(text)+16]
	putHeader(dst[at:], header) // the text overwrites the bytes behind it
	dst[at] = byte(bson.TypeString)
	binary.LittleEndian.PutUint32(dst[at+n:], uint32(len(text)+1))
	end := at + n + 4 + copy(dst[at+n+4:], text)
	dst[end] = 0
	return dst[:end+1]
}

// isShortASCII reports whether a text has up to 32 bytes, none of them above 127.
func isShortASCII(text []byte) bool {
	if len(text) > 32 {
		return false
	}
	var seen uint64
	for len(text) >= 8 {
		seen |= binary.LittleEndian.Uint64(text)
		text = text[8:]
	}
	for _, c := range text {
		seen |= uint64(c)
	}
	return seen&0x8080808080808080 == 0
}

// appendBits appends an element with a number. The header's capacity must be a multiple of eight.
func appendBits(out, header []byte, kind bson.Type, bits uint64, size int) []byte {
	at, n := len(out), len(header)
	if cap(out)-at < n+16 {
		out = slices.Grow(out, n+16)
	}
	dst := out[:at+n+16]
	putHeader(dst[at:], header) // the number overwrites the bytes behind it
	dst[at] = byte(kind)
	binary.LittleEndian.PutUint64(dst[at+n:], bits)
	return dst[:at+n+size]
}
