package bucketer

import (
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// uuidSubtype is BSON's binary subtype of a UUID.
const uuidSubtype = 4

// insert appends the whole document of a bucket, from what gather found.
func (e *encoder) insert(b *bucket, w *Write) {
	start := len(e.out)
	dst := append(e.out, e.forms.head.bytes...)
	dst = e.fillControl(dst, start, b, w)
	if w.Meta.Type != 0 {
		dst = append(rawbson.AppendHeader(dst, w.Meta.Type, timeseries.FieldMeta), w.Meta.Value...)
	}
	dst, data := startDocument(dst, bson.TypeEmbeddedDocument, timeseries.FieldData)
	if w.Count == 1 {
		dst = e.appendOnly(dst, b.shape)
	} else {
		dst = e.appendColumns(dst, b.shape)
	}
	e.out = rawbson.EndDocument(rawbson.EndDocument(dst, data), start)
	w.Document = e.made(start)
}

func (e *encoder) appendColumns(dst []byte, s *shape) []byte {
	dst = appendColumn(dst, e.timeField, e.times)
	for at := range e.columns {
		dst = appendColumn(dst, s.members[at].name, e.columns[at])
	}
	return dst
}

// appendColumn appends one column of data with the given elements.
func appendColumn(dst []byte, name string, elements []byte) []byte {
	dst, start := startDocument(dst, bson.TypeEmbeddedDocument, name)
	return rawbson.EndDocument(append(dst, elements...), start)
}

// appendOnly appends the columns of the only measurement. It reads the row itself, because the processor would have to wait for
// the bytes that were just made of it.
func (e *encoder) appendOnly(dst []byte, s *shape) []byte {
	dst = appendCell(dst, e.timeField, value{kind: bson.TypeDateTime, data: e.times})
	rest := e.lower
	for at := range s.members {
		var v value
		name := s.members[at].name
		v, rest = readValue(rest, len(name))
		dst = appendCell(dst, name, v)
	}
	return dst
}

// appendCell appends a column of one value.
func appendCell(dst []byte, name string, v value) []byte {
	dst = rawbson.AppendHeader(dst, bson.TypeEmbeddedDocument, name)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(4+3+len(v.data)+1))
	return append(appendData(append(dst, byte(v.kind), '0', 0), v.data), 0)
}

// fillControl fills the gaps in the head of a document, which begins at start, and appends the rest of control.
func (e *encoder) fillControl(dst []byte, start int, b *bucket, w *Write) []byte {
	head := &e.forms.head
	copy(dst[start+head.gaps[0]:], b.id[:])
	binary.LittleEndian.PutUint64(dst[start+head.gaps[1]:], uint64(b.minTime))
	dst = rawbson.EndDocument(append(dst, e.lower...), start+e.forms.min)
	dst = e.appendMax(dst)
	dst = appendInt32Named(dst, timeseries.FieldCount, w.Count)
	dst = appendInt32Named(dst, timeseries.FieldSize, b.size)
	if w.Closes {
		dst = bsoncore.AppendBooleanElement(dst, timeseries.FieldClosed, true)
	}
	if e.segment != nil {
		dst = e.segment.append(dst)
	}
	if e.compaction != nil {
		dst = e.compaction.append(dst)
	}
	return rawbson.EndDocument(e.appendSource(dst, w), start+e.forms.control)
}

// appendMax appends control.max: the time, then the fields.
func (e *encoder) appendMax(dst []byte) []byte {
	dst, start := startDocument(dst, bson.TypeEmbeddedDocument, timeseries.FieldMax)
	dst = appendDateNamed(dst, e.timeField, e.maxTime)
	return rawbson.EndDocument(append(dst, e.upper...), start)
}

func (e *encoder) appendSource(dst []byte, w *Write) []byte {
	start, f := len(dst), &e.forms
	dst = append(f.source.appendRange(dst, e.first, e.last), w.Offsets...)
	binary.LittleEndian.PutUint32(dst[start+f.binary:], uint32(len(w.Offsets)))
	return rawbson.EndDocument(rawbson.EndDocument(dst, start+f.offsets), start+f.sourceStart)
}
