package measurement

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// opened is an open object.
type opened struct {
	place *place
	start int // start of its element in out or in metas. Negative means that it has no element.
	taken int // the value of taken when it was opened
	first int // for an object in meta, the index of its first member in names and starts
}

// metaSpan is the place of a value of meta in metas. Kind 0 means that the value was not seen.
type metaSpan struct {
	kind       bson.Type
	start, end int
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
		q.out = q.out[:o.start] // it held nothing but values that were taken out
		return true
	}
	return q.kept(o.place)
}

// endMeta ends an object in meta.
func (q *quick) endMeta(o *opened) bool {
	if !q.takeMembers(q.metas, o.first, true) {
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

// kept counts a field. False means that the field has the name of the stored time or meta.
func (q *quick) kept(p *place) bool {
	if p.atTop {
		q.topCount++
	}
	return !p.reserved
}
