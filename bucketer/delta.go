package bucketer

import (
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

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
		dst = e.appendSourceOperators(dst, w)
	}
	e.out = rawbson.EndDocument(dst, start)
	w.Document = e.made(start)
}

func (e *encoder) appendSourceOperators(dst []byte, w *Write) []byte {
	dst, push := startDocument(dst, bson.TypeEmbeddedDocument, "$push")
	dst = bsoncore.AppendBinaryElement(dst, timeseries.PathOffsets, 0, w.Offsets)
	return e.forms.ends.appendRange(rawbson.EndDocument(dst, push), e.first, e.last)
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
