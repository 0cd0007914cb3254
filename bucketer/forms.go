package bucketer

import (
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// forms are the stretches of writes that are the same in all writes of a catalog, but for gaps of fixed size: appending
// one and filling its gaps takes a fraction of what building it takes.
type forms struct {
	head   form // of an insert, up to and with the time in control.min: the _id, that time
	source form // control.source of an insert, up to the bytes of its offsets: their length, the first, the last
	ends   form // of the operators of an update what follows its $push: the first, the last
	series form // of a filter up to the meta's comparison: the _id
	state  form // of a filter what follows that: control.min.<time>, control.count

	control, min    int // where in head these begin
	sourceStart     int // where in source it begins, behind its name
	offsets, binary int // where in source the list of offsets and the length of its element begin
	meta            int // where in series it begins
}

// form is bytes with gaps.
type form struct {
	bytes []byte
	gaps  [2]int // where they begin
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

// appendRange appends a form whose gaps are a first and a last offset.
func (f *form) appendRange(dst []byte, first, last int64) []byte {
	start := len(dst)
	dst = append(dst, f.bytes...)
	binary.LittleEndian.PutUint64(dst[start+f.gaps[0]:], uint64(first))
	binary.LittleEndian.PutUint64(dst[start+f.gaps[1]:], uint64(last))
	return dst
}
