package bucketer

import (
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// forms are the parts of writes that are equal in all writes of a catalog, except for gaps of fixed size. Appending a form and
// filling its gaps takes a fraction of the time that building it takes.
type forms struct {
	head   form // of an insert, up to the time in control.min; gaps: the _id, that time
	source form // control.source of an insert, up to the length of its offsets; gaps: the first and the last offset
	ends   form // of an update's operators, the part after $push; gaps: the first and the last offset
	series form // of a filter, up to the comparison of the meta; gap: the _id
	state  form // of a filter, the part after that; gaps: control.min.<time>, control.count

	control, min    int // where these begin in head
	sourceStart     int // where the document begins in source, behind its name
	offsets, binary int // where the list of offsets and the length of its element begin in source
	meta            int // where the meta's document begins in series
}

// form is a byte sequence with gaps.
type form struct {
	bytes []byte
	gaps  [2]int // where the gaps begin
}

func newForms(timeField string, source timeseries.Source) forms {
	var f forms
	f.buildHead(timeField)
	f.buildSource(source)
	f.buildEnds()
	f.buildFilter(timeField)
	return f
}

func (f *forms) buildHead(timeField string) {
	dst := rawbson.AppendHeader([]byte{0, 0, 0, 0}, bson.TypeObjectID, timeseries.FieldID)
	f.head.gaps[0] = len(dst)
	dst = append(dst, make([]byte, 12)...)
	dst, f.control = startDocument(dst, bson.TypeEmbeddedDocument, timeseries.FieldControl)
	dst = appendInt32Named(dst, timeseries.FieldVersion, timeseries.Version)
	dst, f.min = startDocument(dst, bson.TypeEmbeddedDocument, timeseries.FieldMin)
	dst = appendDateNamed(dst, timeField, 0)
	f.head.gaps[1] = len(dst) - 8
	f.head.bytes = dst
}

func (f *forms) buildSource(source timeseries.Source) {
	dst, start := startDocument(nil, bson.TypeEmbeddedDocument, timeseries.FieldSource)
	f.sourceStart = start
	dst = bsoncore.AppendStringElement(dst, timeseries.FieldTopic, source.Topic)
	dst = appendInt32Named(dst, timeseries.FieldPartition, source.Partition)
	dst = bsoncore.AppendBinaryElement(dst, timeseries.FieldTopicID, uuidSubtype, source.TopicID[:])
	dst = appendInt64(rawbson.AppendHeader(dst, bson.TypeInt64, timeseries.FieldFirst), 0)
	f.source.gaps[0] = len(dst) - 8
	dst = appendInt64(rawbson.AppendHeader(dst, bson.TypeInt64, timeseries.FieldLast), 0)
	f.source.gaps[1] = len(dst) - 8
	dst, f.offsets = startDocument(dst, bson.TypeArray, timeseries.FieldOffsets)
	dst = bsoncore.AppendBinaryElement(dst, "0", 0, nil)
	f.binary = len(dst) - 5
	f.source.bytes = dst
}

func (f *forms) buildEnds() {
	dst, lowest := startDocument(nil, bson.TypeEmbeddedDocument, "$min")
	dst = appendInt64(rawbson.AppendHeader(dst, bson.TypeInt64, timeseries.PathFirst), 0)
	f.ends.gaps[0] = len(dst) - 8
	dst = rawbson.EndDocument(dst, lowest)
	dst, highest := startDocument(dst, bson.TypeEmbeddedDocument, "$max")
	dst = appendInt64(rawbson.AppendHeader(dst, bson.TypeInt64, timeseries.PathLast), 0)
	f.ends.gaps[1] = len(dst) - 8
	f.ends.bytes = rawbson.EndDocument(dst, highest)
}

func (f *forms) buildFilter(timeField string) {
	dst := rawbson.AppendHeader([]byte{0, 0, 0, 0}, bson.TypeObjectID, timeseries.FieldID)
	f.series.gaps[0] = len(dst)
	dst = append(dst, make([]byte, 12)...)
	f.series.bytes, f.meta = startDocument(dst, bson.TypeEmbeddedDocument, timeseries.FieldMeta)

	dst = appendDateNamed(nil, timeseries.MinPath(timeField), 0)
	f.state.gaps[0] = len(dst) - 8
	dst = appendInt32Named(dst, timeseries.PathCount, 0)
	f.state.gaps[1] = len(dst) - 4
	dst, closed := startDocument(dst, bson.TypeEmbeddedDocument, timeseries.PathClosed)
	f.state.bytes = rawbson.EndDocument(bsoncore.AppendBooleanElement(dst, "$ne", true), closed)
}

// appendRange appends a form whose two gaps are the first and the last offset.
func (f *form) appendRange(dst []byte, first, last int64) []byte {
	start := len(dst)
	dst = append(dst, f.bytes...)
	binary.LittleEndian.PutUint64(dst[start+f.gaps[0]:], uint64(first))
	binary.LittleEndian.PutUint64(dst[start+f.gaps[1]:], uint64(last))
	return dst
}
