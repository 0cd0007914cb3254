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
		dst = appendColumn(dst, e.timeField, e.times)
		for at := range e.columns {
			dst = appendColumn(dst, b.shape.members[at].name, e.columns[at])
		}
	}
	e.out = rawbson.EndDocument(rawbson.EndDocument(dst, data), start)
	w.Document = e.made(start)
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
	dst, most := startDocument(dst, bson.TypeEmbeddedDocument, timeseries.FieldMax)
	dst = appendDateNamed(dst, e.timeField, e.maxTime)
	dst = rawbson.EndDocument(append(dst, e.upper...), most)
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

func (e *encoder) appendSource(dst []byte, w *Write) []byte {
	start, f := len(dst), &e.forms
	dst = append(f.source.appendRange(dst, e.first, e.last), w.Offsets...)
	binary.LittleEndian.PutUint32(dst[start+f.binary:], uint32(len(w.Offsets)))
	return rawbson.EndDocument(rawbson.EndDocument(dst, start+f.offsets), start+f.sourceStart)
}

// Prefixes of the dotted paths of a measurement's fields.
var (
	minPrefix  = timeseries.MinPath("")
	maxPrefix  = timeseries.MaxPath("")
	dataPrefix = timeseries.DataPath("")
)

// update appends the operators of an update, from what gather found: changes in control, and new values in data.
func (e *encoder) update(b *bucket, w *Write) {
	start := len(e.out)
	dst := append(e.out, 0, 0, 0, 0)
	dst, set := startDocument(dst, bson.TypeEmbeddedDocument, "$set")
	if w.Added > 0 {
		dst = appendInt32Named(dst, timeseries.PathCount, w.Count)
		dst = appendInt32Named(dst, timeseries.PathSize, b.size)
		dst = e.appendBounds(dst, b)
		dst = append(dst, e.places...)
	}
	if w.Closes {
		dst = bsoncore.AppendBooleanElement(dst, timeseries.PathClosed, true)
	}
	dst = rawbson.EndDocument(dst, set)
	if w.Added > 0 {
		var push int
		dst, push = startDocument(dst, bson.TypeEmbeddedDocument, "$push")
		dst = bsoncore.AppendBinaryElement(dst, timeseries.PathOffsets, 0, w.Offsets)
		dst = e.forms.ends.appendRange(rawbson.EndDocument(dst, push), e.first, e.last)
	}
	e.out = rawbson.EndDocument(dst, start)
	w.Document = e.made(start)
}

// appendBounds appends the changes of control.min and control.max.
func (e *encoder) appendBounds(dst []byte, b *bucket) []byte {
	if e.maxTime > b.maxTime {
		dst = appendDateNamed(dst, e.maxPath, e.maxTime)
	}
	for at := range e.fields {
		x, name := &e.fields[at], b.shape.members[at].name
		if x.lowered {
			dst = e.appendBoundChange(dst, minPrefix, name, x.knownLower, x.lower)
		}
		if x.raised {
			dst = e.appendBoundChange(dst, maxPrefix, name, x.knownUpper, x.upper)
		}
	}
	return dst
}

func (e *encoder) appendBoundChange(dst []byte, prefix, name string, known, now value) []byte {
	if known.equals(now) {
		return dst
	}
	if now.kind != bson.TypeEmbeddedDocument {
		dst = append(append(append(dst, byte(now.kind)), prefix...), name...)
		return appendData(append(dst, 0), now.data)
	}
	e.path = append(append(e.path[:0], prefix...), name...)
	return e.appendChange(dst, known, now)
}

// appendChange appends the setting of the difference between a value in the database and its new value. Its path is e.path.
// Within objects only changed members are set. Arrays are set whole, because a path into an array means something else if the
// array is shorter than thought. Objects with names that a path cannot address are set whole, too.
func (e *encoder) appendChange(dst []byte, known, now value) []byte {
	if known.equals(now) {
		return dst
	}
	if known.kind != bson.TypeEmbeddedDocument || now.kind != known.kind || !isAddressable(now.data) {
		return rawbson.AppendElement(dst, now.kind, e.path, now.data)
	}
	length := len(e.path)
	members := finder{kind: known.kind, rest: rawbson.Content(known.data)}
	for member := range rawbson.All(rawbson.Content(now.data)) {
		old, _ := members.next(member.Name)
		e.path = append(append(e.path[:length], '.'), member.Name...)
		dst = e.appendChange(dst, value{old.Kind, old.Value}, value{member.Kind, member.Value})
	}
	e.path = e.path[:length]
	return dst
}

// isAddressable reports whether a path can lead to each member of an object.
func isAddressable(object []byte) bool {
	for e := range rawbson.All(rawbson.Content(object)) {
		if !isColumnName(e.Name) {
			return false
		}
	}
	return true
}

// appendPlace appends the header of an element "data.<name>.<index>". The index ends with a NUL.
func appendPlace(dst []byte, kind bson.Type, prefix, index []byte) []byte {
	return append(append(append(dst, byte(kind)), prefix...), index...)
}

// loadPrefixes makes the prefixes "data.<name>." of a bucket's values, that of the time first. It keeps them if the last bucket
// had the same shape.
func (e *encoder) loadPrefixes(s *shape) {
	if e.shape == s && len(e.prefixEnds) == len(s.members)+2 {
		return
	}
	e.shape = s
	e.prefixes, e.prefixEnds = e.prefixes[:0], append(e.prefixEnds[:0], 0)
	e.addPrefix(e.timeField)
	for at := range s.members {
		e.addPrefix(s.members[at].name)
	}
}

func (e *encoder) addPrefix(name string) {
	e.prefixes = append(append(append(e.prefixes, dataPrefix...), name...), '.')
	e.prefixEnds = append(e.prefixEnds, len(e.prefixes))
}

// prefix returns the prefix of a field's column by its index in the shape. The index of the time is -1.
func (e *encoder) prefix(at int) []byte { return e.prefixes[e.prefixEnds[at+1]:e.prefixEnds[at+2]] }

// filter appends the condition of an update (E5).
func (e *encoder) filter(b *bucket, w *Write) {
	start, f := len(e.out), &e.forms
	dst := append(e.out, f.series.bytes...)
	copy(dst[start+f.series.gaps[0]:], b.id[:])
	if w.Meta.Type != 0 {
		dst = append(rawbson.AppendHeader(dst, w.Meta.Type, "$eq"), w.Meta.Value...)
	} else {
		dst = bsoncore.AppendBooleanElement(dst, "$exists", false)
	}
	dst = rawbson.EndDocument(dst, start+f.meta)
	state := len(dst)
	dst = append(dst, f.state.bytes...)
	binary.LittleEndian.PutUint64(dst[state+f.state.gaps[0]:], uint64(b.minTime))
	binary.LittleEndian.PutUint32(dst[state+f.state.gaps[1]:], uint32(b.stored))
	e.out = rawbson.EndDocument(dst, start)
	w.Filter = e.made(start)
}

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
	f.head.bytes = []byte{0, 0, 0, 0}
	f.head.gap(0, bson.TypeObjectID, timeseries.FieldID, 12)
	f.control = f.head.startDocument(bson.TypeEmbeddedDocument, timeseries.FieldControl)
	f.head.bytes = appendInt32Named(f.head.bytes, timeseries.FieldVersion, timeseries.Version)
	f.min = f.head.startDocument(bson.TypeEmbeddedDocument, timeseries.FieldMin)
	f.head.gap(1, bson.TypeDateTime, timeField, 8)

	f.sourceStart = f.source.startDocument(bson.TypeEmbeddedDocument, timeseries.FieldSource)
	f.source.bytes = bsoncore.AppendStringElement(f.source.bytes, timeseries.FieldTopic, source.Topic)
	f.source.bytes = appendInt32Named(f.source.bytes, timeseries.FieldPartition, source.Partition)
	f.source.bytes = bsoncore.AppendBinaryElement(f.source.bytes, timeseries.FieldTopicID, uuidSubtype, source.TopicID[:])
	f.source.gap(0, bson.TypeInt64, timeseries.FieldFirst, 8)
	f.source.gap(1, bson.TypeInt64, timeseries.FieldLast, 8)
	f.offsets = f.source.startDocument(bson.TypeArray, timeseries.FieldOffsets)
	f.source.bytes = bsoncore.AppendBinaryElement(f.source.bytes, "0", 0, nil)
	f.binary = len(f.source.bytes) - 5

	lowest := f.ends.startDocument(bson.TypeEmbeddedDocument, "$min")
	f.ends.gap(0, bson.TypeInt64, timeseries.PathFirst, 8)
	f.ends.bytes = rawbson.EndDocument(f.ends.bytes, lowest)
	highest := f.ends.startDocument(bson.TypeEmbeddedDocument, "$max")
	f.ends.gap(1, bson.TypeInt64, timeseries.PathLast, 8)
	f.ends.bytes = rawbson.EndDocument(f.ends.bytes, highest)

	f.series.bytes = []byte{0, 0, 0, 0}
	f.series.gap(0, bson.TypeObjectID, timeseries.FieldID, 12)
	f.meta = f.series.startDocument(bson.TypeEmbeddedDocument, timeseries.FieldMeta)

	f.state.gap(0, bson.TypeDateTime, timeseries.MinPath(timeField), 8)
	f.state.gap(1, bson.TypeInt32, timeseries.PathCount, 4)
	closed := f.state.startDocument(bson.TypeEmbeddedDocument, timeseries.PathClosed)
	f.state.bytes = rawbson.EndDocument(bsoncore.AppendBooleanElement(f.state.bytes, "$ne", true), closed)
	return f
}

// gap appends an element whose value, of a fixed size, is a gap.
func (f *form) gap(n int, kind bson.Type, name string, size int) {
	f.bytes = rawbson.AppendHeader(f.bytes, kind, name)
	f.gaps[n] = len(f.bytes)
	f.bytes = append(f.bytes, make([]byte, size)...)
}

// startDocument appends the start of an object or array, and returns where that is.
func (f *form) startDocument(kind bson.Type, name string) (start int) {
	f.bytes, start = startDocument(f.bytes, kind, name)
	return start
}

// appendRange appends a form whose two gaps are the first and the last offset.
func (f *form) appendRange(dst []byte, first, last int64) []byte {
	start := len(dst)
	dst = append(dst, f.bytes...)
	binary.LittleEndian.PutUint64(dst[start+f.gaps[0]:], uint64(first))
	binary.LittleEndian.PutUint64(dst[start+f.gaps[1]:], uint64(last))
	return dst
}

// The functions of this file append BSON to dst, faster than the driver does. An element is a type, a name and a value.

func appendInt64(dst []byte, v int64) []byte { return binary.LittleEndian.AppendUint64(dst, uint64(v)) }

func appendInt32Named(dst []byte, name string, v int32) []byte {
	return binary.LittleEndian.AppendUint32(rawbson.AppendHeader(dst, bson.TypeInt32, name), uint32(v))
}

func appendDateNamed(dst []byte, name string, v int64) []byte {
	return appendInt64(rawbson.AppendHeader(dst, bson.TypeDateTime, name), v)
}

func appendBinaryNamed(dst []byte, name string, data []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(rawbson.AppendHeader(dst, bson.TypeBinary, name), uint32(len(data)))
	return append(append(dst, bson.TypeBinaryGeneric), data...)
}

func appendNamed(dst []byte, v value, name string) []byte {
	return appendData(rawbson.AppendHeader(dst, v.kind, name), v.data)
}

// appendData appends a value's bytes. Most numbers and dates need no call.
func appendData(dst, data []byte) []byte {
	if len(data) == 8 {
		return binary.LittleEndian.AppendUint64(dst, binary.LittleEndian.Uint64(data))
	}
	return append(dst, data...)
}

// appendFields appends a document of elements.
func appendFields(dst, elements []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(4+len(elements)+1))
	return append(append(dst, elements...), 0)
}

// startDocument appends the start of an object or array. endDocument needs the returned start to end it.
func startDocument(dst []byte, kind bson.Type, name string) (_ []byte, start int) {
	dst = rawbson.AppendHeader(dst, kind, name)
	return append(dst, 0, 0, 0, 0), len(dst)
}
