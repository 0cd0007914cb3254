package measurement

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// plan is the common part of the plans of formats with schemas. A plan makes a measurement of an event in one pass, without its
// document. Reading an event that the plan does not take is in vain. The plan then rests longer the more consecutive events it
// does not take, as a bsonWalker does.
type plan struct {
	rest, lost int

	// The state of the current event:
	metas    []byte     // the values of meta
	parts    []metaSpan // Kind 0 means that the part was not seen.
	when     reading
	hasTime  bool
	rank     int // rank of the path that led to the time. -1 means that none was found.
	isStored bool
	taken    int
	topCount int
}

func newPlan(d *Decoder) plan { return plan{parts: make([]metaSpan, len(d.paths.meta))} }

// takesPlans reports whether a plan supports the options.
func (d *Decoder) takesPlans() bool {
	o := &d.options
	return !d.stages.active && !d.paths.inHeader && o.Numbers == NumbersInJSON && o.TimeExact == ""
}

// beginPlanned begins the result of a record with one event. It returns nil while the plan rests.
func (d *Decoder) beginPlanned(p *plan) *Measurement {
	if p.rest > 0 {
		p.rest--
		return nil
	}
	d.results = slices.Grow(d.results[:0], 1)[:1]
	result := &d.results[0]
	result.Measurement.Position, result.Err = timeseries.Position{Offset: d.record.Offset}, nil
	return &result.Measurement
}

// endPlanned ends the result. made says whether the plan has read the event, and endPlanned returns it.
func (d *Decoder) endPlanned(p *plan, made bool) bool {
	if made {
		p.lost = 0
		return true
	}
	d.results = d.results[:0]
	p.rest = 1<<p.lost - 1
	p.lost = min(p.lost+1, mostLost)
	return false
}

// begin forgets the previous event. isStored means that the event itself is the stored object.
func (p *plan) begin(d *Decoder, isStored bool) {
	p.metas, p.hasTime, p.rank, p.isStored, p.taken, p.topCount = p.metas[:0], false, -1, isStored, 0, 0
	clear(p.parts)
	if d.paths.ofRecord {
		for i, e := range d.recordMeta {
			start := len(p.metas)
			p.metas = append(p.metas, e.Value...)
			p.parts[i] = metaSpan{e.Kind, start, len(p.metas)}
		}
	}
}

// planned sets the measurement of an event that was read. elements are its fields.
func (d *Decoder) planned(p *plan, elements []byte, m *Measurement) bool {
	if !p.isStored {
		return false
	}
	timestamp := d.record.Timestamp
	if len(d.paths.times) == 0 {
		p.when, p.hasTime = readingOf(timestamp), timestamp >= 0
	}
	if !p.hasTime || d.options.side(p.when.millis, timestamp) != 0 || !fitsDocument(len(elements), p.topCount) {
		return false
	}
	m.Time, m.Elements = p.when.millis, elements[:len(elements):len(elements)]
	return d.plannedMeta(p, &m.Meta)
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

// plannedMeta sets the meta of the event.
func (d *Decoder) plannedMeta(p *plan, meta *bson.RawValue) bool {
	switch d.options.MetaFrom {
	case MetaFromNone:
		*meta = bson.RawValue{}
		return true
	case MetaFromKey:
		*meta = d.keyMeta
		return true
	}
	part := &p.parts[0]
	if d.paths.joined {
		start := len(p.metas)
		out := append(p.metas, 0, 0, 0, 0)
		for i, part := range p.parts {
			if part.kind == 0 && d.paths.indexed {
				return false
			}
			if part.kind != 0 {
				out = rawbson.AppendHeader(out, part.kind, d.paths.meta[i].name)
				out = append(out, out[part.start:part.end]...)
			}
		}
		p.metas = rawbson.EndDocument(out, start)
		if part = (&metaSpan{bson.TypeEmbeddedDocument, start, len(p.metas)}); part.end-start == rawbson.Empty {
			return false
		}
	}
	meta.Type, meta.Value = part.kind, p.metas[part.start:part.end:part.end]
	isSegment := part.kind == bson.TypeBinary && timeseries.IsSegmentMeta(*meta) // copying meta takes long right after it was written
	return part.kind != 0 && part.end-part.start <= maxMetaBytes && !isSegment
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
