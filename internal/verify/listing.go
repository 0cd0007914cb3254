package verify

import (
	"bytes"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
)

// listing is what a bucket or segment lists. It can be reused.
type listing struct {
	document bson.Raw
	// positions are the positions that could be decoded, in the order of the columns' indexes.
	positions []timeseries.Position
	// smallest and largest are the smallest and the largest offset in positions, if there are any.
	smallest, largest int64
	// segment means that the document is a segment. Otherwise it is a bucket.
	segment bool
	// compaction made the bucket, or froze the segment. Zero means that there is none.
	compaction claim.Token
	// ended means that the document is a segment whose measurements are in the buckets of that compaction.
	ended bool
	// moment is when the bucket begins, or the segment ceases, to be shown, in milliseconds since 1970. Zero means always shown.
	moment int64
	// broken is why the positions could not be decoded. Empty means that they could.
	broken string
}

// read parses a bucket's control.source.offsets. It trusts nothing in it.
func (b *listing) read(document bson.Raw) {
	*b = listing{document: document, positions: b.positions[:0]}
	b.readCompaction()
	offsets := lookup(document, timeseries.FieldControl, timeseries.FieldSource, timeseries.FieldOffsets)
	if offsets.Type != bson.TypeArray {
		b.broken = fmt.Sprintf("%s is not an array", timeseries.PathOffsets)
		return
	}
	for e := range elementsOf(offsets.Value) {
		subtype, encoded, ok := e.value.BinaryOK()
		if !ok || subtype != bson.TypeBinaryGeneric {
			b.broken = fmt.Sprintf("%s.%s is not binary data of subtype 0", timeseries.PathOffsets, e.name)
			return
		}
		var err error
		if b.positions, err = timeseries.DecodePositions(b.positions, encoded); err != nil {
			b.broken = fmt.Sprintf("%s.%s: %v", timeseries.PathOffsets, e.name, err)
			return
		}
	}
	b.bound()
}

func (b *listing) bound() {
	for i, p := range b.positions {
		if i == 0 {
			b.smallest, b.largest = p.Offset, p.Offset
		}
		b.smallest, b.largest = min(b.smallest, p.Offset), max(b.largest, p.Offset)
	}
}

// begins returns the smallest offset that the bucket lists, or else the one in control.source.first.
func (b *listing) begins() int64 {
	if b.broken == "" && len(b.positions) > 0 {
		return b.smallest
	}
	first, _ := b.number(timeseries.FieldSource, timeseries.FieldFirst)
	return first
}

// control returns the value of a field below control.
func (b *listing) control(path ...string) bson.RawValue {
	return lookup(b.document, append([]string{timeseries.FieldControl}, path...)...)
}

// number reads a field below control.
func (b *listing) number(path ...string) (int64, bool) {
	return b.control(path...).AsInt64OK()
}

// id returns the bucket's _id for messages.
func (b *listing) id() string {
	id := lookup(b.document, timeseries.FieldID)
	if object, ok := id.ObjectIDOK(); ok {
		return object.Hex()
	}
	return show(id)
}

// fault returns a fault of the bucket.
func (b *listing) fault(path, format string, args ...any) Fault {
	return Fault{Bucket: b.id(), Path: path, Text: fmt.Sprintf(format, args...)}
}

// check checks that the fields of a bucket agree with the positions that it lists.
func (w *window) check(b *listing) {
	count, counted := b.number(timeseries.FieldCount)
	first, hasFirst := b.number(timeseries.FieldSource, timeseries.FieldFirst)
	last, hasLast := b.number(timeseries.FieldSource, timeseries.FieldLast)
	switch {
	case b.broken != "":
		w.damaged(b, timeseries.PathOffsets, "%s", b.broken)
	case !counted || count != int64(len(b.positions)):
		w.damaged(b, timeseries.PathCount, "is %s, but %s listed", shown(count, counted), words.Count(len(b.positions), "position")+words.Form(len(b.positions), " is", " are"))
	case len(b.positions) == 0:
		w.damaged(b, timeseries.PathOffsets, "lists no positions")
	case !hasFirst || first != b.smallest:
		w.damaged(b, timeseries.PathFirst, "is %s, but the smallest listed offset is %d", shown(first, hasFirst), b.smallest)
	case !hasLast || last != b.largest:
		w.damaged(b, timeseries.PathLast, "is %s, but the largest listed offset is %d", shown(last, hasLast), b.largest)
	default:
		if path, text := b.compactionFault(); path != "" {
			w.damaged(b, path, "%s", text)
		} else if w.Content {
			w.checkContent(b)
		}
	}
}

// damaged records that a bucket contradicts itself.
func (w *window) damaged(b *listing, path, format string, args ...any) {
	w.found.Damaged.add(b.fault(path, format, args...), w.Examples)
}

func shown(n int64, ok bool) string {
	if !ok {
		return "not a number"
	}
	return fmt.Sprint(n)
}

// maxShown bounds how much of a value a report repeats, in bytes.
const maxShown = 80

// show formats a value as Extended JSON, and truncates it.
func show(v bson.RawValue) string {
	if v.Type == 0 {
		return "nothing"
	}
	if v.Validate() != nil {
		return fmt.Sprintf("a malformed %s", v.Type)
	}
	if len(v.Value) > 16*maxShown {
		return fmt.Sprintf("%s of %d bytes", v.Type, len(v.Value))
	}
	text := []rune(v.String())
	if len(text) > maxShown {
		return string(text[:maxShown]) + "…"
	}
	return string(text)
}

// readCompaction reads whether the document is a segment, and which compaction it belongs to.
func (b *listing) readCompaction() {
	b.segment = b.control(timeseries.FieldSegment).Type == bson.TypeEmbeddedDocument
	within, moment, id := b.compactionFields()
	var dated bool
	b.moment, dated = b.control(within, moment).DateTimeOK()
	b.ended = b.segment && dated
	b.compaction, _ = tokenOf(b.control(within, id))
}

// compactionFields returns the names of the object in control that is about the document's compaction, and of its fields: the
// moment from or until which the document is shown, and the id.
func (b *listing) compactionFields() (within, moment, id string) {
	if b.segment {
		return timeseries.FieldSegment, timeseries.FieldVisibleUntil, timeseries.FieldCompaction
	}
	return timeseries.FieldCompaction, timeseries.FieldVisibleFrom, timeseries.FieldCompactionID
}

func tokenOf(v bson.RawValue) (id claim.Token, ok bool) {
	subtype, data, binary := v.BinaryOK()
	if ok = binary && subtype == bson.TypeBinaryUUID && len(data) == len(id); ok {
		copy(id[:], data)
	}
	return id, ok
}

// compactionFault returns the path at which the document's compaction fields have a wrong form, and a text about it. An empty
// path means that they are right. A segment may lack both fields.
func (b *listing) compactionFault() (path, text string) {
	if about := b.control(timeseries.FieldSegment); about.Type != 0 && !b.segment {
		return timeseries.PathSegment, fmt.Sprintf("is %s, not an object", show(about))
	}
	within, moment, id := b.compactionFields()
	at, by := b.control(within, moment), b.control(within, id)
	if at.Type == 0 && by.Type == 0 && (b.segment || b.control(within).Type == 0) {
		return "", ""
	}
	if _, ok := at.DateTimeOK(); !ok && (at.Type != 0 || !b.segment) { // a frozen segment has no such moment
		return timeseries.Path(timeseries.FieldControl, within, moment), fmt.Sprintf("is %s, not a date", show(at))
	}
	if _, ok := tokenOf(by); !ok {
		return timeseries.Path(timeseries.FieldControl, within, id), fmt.Sprintf("is %s, not a UUID", show(by))
	}
	return "", ""
}

// checkSegment checks the fields that must have certain values in a segment with these metas.
func (w *window) checkSegment(b *listing, metas *timeseries.Bloom) {
	closed, _ := b.control(timeseries.FieldClosed).BooleanOK()
	meta := lookup(b.document, timeseries.FieldMeta)
	id, _ := lookup(b.document, timeseries.FieldID).ObjectIDOK()
	switch {
	case !meta.Equal(timeseries.SegmentMetaOf(id)):
		w.damaged(b, timeseries.FieldMeta, "is %s, but a segment with this _id has %s", show(meta), show(timeseries.SegmentMetaOf(id)))
	case !closed:
		w.damaged(b, timeseries.PathClosed, "is %s, but every segment is closed", show(b.control(timeseries.FieldClosed)))
	default:
		about, _ := b.control(timeseries.FieldSegment).DocumentOK()
		if path := metas.Lacks(about); path != "" {
			w.damaged(b, path, "is not the Bloom filter of the segment's metas, so `query` may miss measurements: remove this field with $unset")
		}
	}
}

// element is one BSON element that aliases the document.
type element struct {
	name  []byte
	value bson.RawValue
	whole []byte // type byte, name, NUL, value
}

// elementsOf iterates over the elements of a document or array. It ends early at a malformed element.
func elementsOf(document []byte) iter.Seq[element] {
	length, _, ok := bsoncore.ReadLength(document)
	if !ok || length < 5 || int64(length) != int64(len(document)) {
		return func(func(element) bool) {}
	}
	return elementsIn(document[4 : length-1])
}

// elementsIn iterates over consecutive elements.
func elementsIn(b []byte) iter.Seq[element] {
	return func(yield func(element) bool) {
		for rest := b; len(rest) > 0; {
			end := bytes.IndexByte(rest[1:], 0)
			if end < 0 {
				return
			}
			value, after, ok := bsoncore.ReadValue(rest[end+2:], bsoncore.Type(rest[0]))
			if !ok {
				return
			}
			e := element{
				name: rest[1 : end+1], value: bson.RawValue{Type: bson.Type(rest[0]), Value: value.Data},
				whole: rest[:len(rest)-len(after)],
			}
			if !yield(e) {
				return
			}
			rest = after
		}
	}
}

// lookup returns the value at a path through objects. Type 0 means that there is none. The driver's Lookup panics if a document
// is malformed at a deeper level.
func lookup(document []byte, path ...string) bson.RawValue {
	value := bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: document}
	for _, name := range path {
		if value.Type != bson.TypeEmbeddedDocument {
			return bson.RawValue{}
		}
		value = find(elementsOf(value.Value), name)
	}
	return value
}

// find returns the value of the first element of a name. Type 0 means that there is none.
func find(elements iter.Seq[element], name string) bson.RawValue {
	for e := range elements {
		if string(e.name) == name {
			return e.value
		}
	}
	return bson.RawValue{}
}
