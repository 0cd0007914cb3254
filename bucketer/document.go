package bucketer

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// uuidSubtype is BSON's binary subtype of a UUID.
const uuidSubtype = 4

// insert builds the whole document of a bucket from what gather found. It is valid until the next write is encoded.
func (e *encoder) insert(b *bucket, w *Write) []byte {
	dst := append(e.document[:0], 0, 0, 0, 0)
	dst = append(appendHeader(dst, bson.TypeObjectID, timeseries.FieldID), b.id[:]...)
	dst = e.appendControl(dst, b, w)
	if w.Meta.Type != 0 {
		dst = append(appendHeader(dst, w.Meta.Type, timeseries.FieldMeta), w.Meta.Value...)
	}
	dst, data := startDocument(dst, bson.TypeEmbeddedDocument, timeseries.FieldData)
	dst = appendColumn(dst, e.timeField, e.times)
	for at := range e.columns {
		dst = appendColumn(dst, b.shape.members[at].name, e.columns[at])
	}
	dst = endDocument(dst, data)
	e.document = endDocument(dst, 0)
	return e.document
}

// appendColumn appends one column of data, of which elements are the content.
func appendColumn(dst []byte, name string, elements []byte) []byte {
	dst, start := startDocument(dst, bson.TypeEmbeddedDocument, name)
	return endDocument(append(dst, elements...), start)
}

func (e *encoder) appendControl(dst []byte, b *bucket, w *Write) []byte {
	dst, control := startDocument(dst, bson.TypeEmbeddedDocument, timeseries.FieldControl)
	dst = appendInt32Named(dst, timeseries.FieldVersion, timeseries.Version)
	dst = e.appendBound(dst, timeseries.FieldMin, b.minTime, e.lower)
	dst = e.appendBound(dst, timeseries.FieldMax, e.maxTime, e.upper)
	dst = appendInt32Named(dst, timeseries.FieldCount, w.Count)
	dst = appendInt32Named(dst, timeseries.FieldSize, b.size)
	if w.Closes {
		dst = appendBoolNamed(dst, timeseries.FieldClosed, true)
	}
	return endDocument(e.appendSource(dst, w), control)
}

// appendBound appends control.min or control.max: the time, then the fields of a document without it.
func (e *encoder) appendBound(dst []byte, name string, time int64, fields []byte) []byte {
	dst, start := startDocument(dst, bson.TypeEmbeddedDocument, name)
	dst = appendDateNamed(dst, e.timeField, time)
	return endDocument(append(dst, content(fields)...), start)
}

func (e *encoder) appendSource(dst []byte, w *Write) []byte {
	dst, source := startDocument(dst, bson.TypeEmbeddedDocument, timeseries.FieldSource)
	dst = appendStringNamed(dst, timeseries.FieldTopic, e.source.Topic)
	dst = appendInt32Named(dst, timeseries.FieldPartition, e.source.Partition)
	dst = appendBinaryNamed(dst, timeseries.FieldTopicID, uuidSubtype, e.source.TopicID[:])
	dst = appendInt64Named(dst, timeseries.FieldFirst, e.first)
	dst = appendInt64Named(dst, timeseries.FieldLast, e.last)
	dst, offsets := startDocument(dst, bson.TypeArray, timeseries.FieldOffsets)
	dst = appendBinaryNamed(dst, "0", 0, w.Offsets)
	return endDocument(endDocument(dst, offsets), source)
}
