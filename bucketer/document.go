package bucketer

import (
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// uuidSubtype is BSON's binary subtype of a UUID.
const uuidSubtype = 4

// insert appends the whole document of a bucket, of what gather found.
func (e *encoder) insert(b *bucket, w *Write) {
	start := len(e.out)
	dst := append(e.out, e.forms.head.bytes...)
	dst = e.fillControl(dst, start, b, w)
	if w.Meta.Type != 0 {
		dst = append(appendHeader(dst, w.Meta.Type, timeseries.FieldMeta), w.Meta.Value...)
	}
	dst, data := startDocument(dst, bson.TypeEmbeddedDocument, timeseries.FieldData)
	dst = appendColumn(dst, e.timeField, e.times)
	if w.Count == 1 {
		dst = appendOnly(dst, content(e.lower))
	} else {
		for at := range e.columns {
			dst = appendColumn(dst, b.shape.members[at].name, e.columns[at])
		}
	}
	e.out = endDocument(endDocument(dst, data), start)
	w.Document = e.out[start:]
}

// appendColumn appends one column of data, of which elements are the content.
func appendColumn(dst []byte, name string, elements []byte) []byte {
	dst, start := startDocument(dst, bson.TypeEmbeddedDocument, name)
	return endDocument(append(dst, elements...), start)
}

// appendOnly appends a column of one value for each element of the only measurement.
func appendOnly(dst, elements []byte) []byte {
	for rest := elements; len(rest) > 0; {
		var one element
		one, rest, _ = readElement(rest)
		dst = append(append(dst, byte(bson.TypeEmbeddedDocument)), one.name...)
		size := uint32(4 + 3 + len(one.value) + 1)
		dst = binary.LittleEndian.AppendUint32(append(dst, 0), size)
		dst = append(appendData(append(dst, byte(one.kind), '0', 0), one.value), 0)
	}
	return dst
}

// fillControl fills the head of a document, which begins at start, and appends the rest of control.
func (e *encoder) fillControl(dst []byte, start int, b *bucket, w *Write) []byte {
	head := &e.forms.head
	copy(dst[start+head.gaps[0]:], b.id[:])
	binary.LittleEndian.PutUint64(dst[start+head.gaps[1]:], uint64(b.minTime))
	dst = endDocument(append(dst, content(e.lower)...), start+e.forms.min)
	dst = e.appendMax(dst)
	dst = appendInt32Named(dst, timeseries.FieldCount, w.Count)
	dst = appendInt32Named(dst, timeseries.FieldSize, b.size)
	if w.Closes {
		dst = appendBoolNamed(dst, timeseries.FieldClosed, true)
	}
	return endDocument(e.appendSource(dst, w), start+e.forms.control)
}

// appendMax appends control.max: the time, then the fields.
func (e *encoder) appendMax(dst []byte) []byte {
	dst, start := startDocument(dst, bson.TypeEmbeddedDocument, timeseries.FieldMax)
	dst = appendDateNamed(dst, e.timeField, e.maxTime)
	return endDocument(append(dst, content(e.upper)...), start)
}

func (e *encoder) appendSource(dst []byte, w *Write) []byte {
	start, f := len(dst), &e.forms
	dst = append(f.source.appendRange(dst, e.first, e.last), w.Offsets...)
	binary.LittleEndian.PutUint32(dst[start+f.binary:], uint32(len(w.Offsets)))
	return endDocument(endDocument(dst, start+f.offsets), start+f.sourceStart)
}
