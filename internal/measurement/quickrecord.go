package measurement

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

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
	q.text, q.metas, q.out = d.text, q.metas[:0], d.out
	if q.given {
		q.give(d.recordMeta)
	}
	ok := d.readQuickly()
	if d.out = q.out; ok {
		q.missed = 0
		return true
	}
	q.missed++
	d.out, d.results = d.out[:written], d.results[:0]
	return false
}

// give copies the parts of meta that come from the record itself.
func (q *quick) give(parts []rawbson.Element) {
	for i, e := range parts {
		start := len(q.metas)
		q.metas = append(q.metas, e.Value...)
		q.own[i] = metaSpan{e.Kind, start, len(q.metas)}
	}
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
	fields := q.out[start:len(q.out):len(q.out)]
	if !q.isStored || q.isDotted && q.isOpaque || 3*len(fields)+columnBytes*q.topCount > maxStoredBytes {
		return unknown
	}
	timestamp := d.record.Timestamp
	if !q.timed {
		q.when, q.hasTime, q.time.below = readingOf(timestamp), timestamp >= 0, 0
	}
	if !q.hasTime || d.options.side(q.when.millis, timestamp) != 0 {
		return unknown
	}
	if q.exact {
		var ok bool
		if q.out, ok = d.options.appendExact(q.out, q.when.millis, q.time.below); !ok {
			return unknown
		}
		fields = q.out[start:len(q.out):len(q.out)]
	}
	if len(d.results) == cap(d.results) {
		d.results = slices.Grow(d.results, 1)
	}
	d.results = d.results[:len(d.results)+1]
	r := &d.results[len(d.results)-1]
	r.Measurement.Position = timeseries.Position{Offset: d.record.Offset, Part: part}
	r.Measurement.Time, r.Measurement.Elements, r.Err = q.when.millis, fields, nil
	if !d.quickMeta(&r.Measurement.Meta) {
		return unknown
	}
	return i
}

// quickMeta sets the meta of the event that was read.
func (d *Decoder) quickMeta(meta *bson.RawValue) bool {
	switch d.options.MetaFrom {
	case MetaFromNone:
		*meta = bson.RawValue{}
		return true
	case MetaFromKey:
		*meta = d.keyMeta
		return true
	}
	q := &d.quick
	var part metaSpan
	if d.paths.joined {
		part = q.joinMeta()
	} else {
		part = q.parts[0]
	}
	meta.Type, meta.Value = part.kind, q.metas[part.start:part.end:part.end]
	return part.kind != 0 && part.end-part.start <= maxMetaBytes
}

// joinMeta makes an object of the parts of meta, which are in the order of their names. Kind 0 means that the event has no part.
func (q *quick) joinMeta() metaSpan {
	start := len(q.metas)
	out := append(q.metas, 0, 0, 0, 0)
	for i, part := range q.parts {
		if part.kind == 0 && q.paths.indexed {
			return metaSpan{}
		}
		if part.kind != 0 {
			out = rawbson.AppendHeader(out, part.kind, q.paths.meta[i].name)
			out = append(out, out[part.start:part.end]...)
		}
	}
	q.metas = rawbson.EndDocument(out, start)
	end := len(q.metas)
	if end-start == rawbson.Empty {
		return metaSpan{}
	}
	return metaSpan{bson.TypeEmbeddedDocument, start, end}
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
