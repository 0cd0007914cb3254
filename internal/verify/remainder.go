package verify

import (
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/timeseries"
)

// condition finds the bucket only while it has the measurements that were read. A live owner's write increases count or closes
// the bucket. Only repairs change the measurements of a closed bucket, and each of them decreases count. So count and closed
// together never return to earlier values. The condition includes the shard key as well, so it notices that another command has
// changed the meta. It does not find a segment that was frozen meanwhile.
func (w *window) condition(b *listing) bson.Raw {
	start, dst := bsoncore.AppendDocumentStart(nil)
	dst = appendValue(dst, timeseries.FieldID, lookup(b.document, timeseries.FieldID))
	dst = appendAsRead(dst, timeseries.FieldMeta, lookup(b.document, timeseries.FieldMeta))
	if b.segment {
		dst = appendAsRead(dst, timeseries.PathSegmentCompaction, b.control(timeseries.FieldSegment, timeseries.FieldCompaction))
		dst = appendAsRead(dst, timeseries.PathVisibleUntil, b.control(timeseries.FieldSegment, timeseries.FieldVisibleUntil))
	}
	if least := b.control(timeseries.FieldMin, w.Collection.TimeField); least.Type != 0 {
		dst = appendValue(dst, timeseries.MinPath(w.Collection.TimeField), least)
	}
	dst = appendValue(dst, timeseries.PathCount, b.control(timeseries.FieldCount))
	if closed, _ := b.control(timeseries.FieldClosed).BooleanOK(); closed {
		dst = bsoncore.AppendBooleanElement(dst, timeseries.PathClosed, true)
	} else {
		var inner int32
		inner, dst = bsoncore.AppendDocumentElementStart(dst, timeseries.PathClosed)
		dst = bsoncore.AppendBooleanElement(dst, "$ne", true)
		dst, _ = bsoncore.AppendDocumentEnd(dst, inner)
	}
	dst, _ = bsoncore.AppendDocumentEnd(dst, start)
	return dst
}

// appendAsRead appends the condition that a field has the value that was read, or is absent as it was.
func appendAsRead(dst []byte, path string, v bson.RawValue) []byte {
	start, dst := bsoncore.AppendDocumentElementStart(dst, path)
	if v.Type != 0 {
		dst = appendValue(dst, "$eq", v)
	} else {
		dst = bsoncore.AppendBooleanElement(dst, "$exists", false)
	}
	dst, _ = bsoncore.AppendDocumentEnd(dst, start)
	return dst
}

// remainder is the update that removes the dropped measurements from a bucket and closes it. A live owner's next update of the
// bucket then meets a conflict, and the owner reads the bucket again.
func (w *window) remainder(b *listing, drop []bool) bson.Raw {
	timeField := w.Collection.TimeField
	data := remainingColumns(lookup(b.document, timeseries.FieldData).Value, timeField, drop)
	made := account(data, timeField)
	var kept listing
	for i, p := range b.positions {
		if !drop[i] {
			kept.positions = append(kept.positions, p)
		}
	}
	kept.bound()
	least := b.control(timeseries.FieldMin, timeField)

	start, dst := bsoncore.AppendDocumentStart(nil)
	set, dst := bsoncore.AppendDocumentElementStart(dst, "$set")
	dst = bsoncore.AppendInt32Element(dst, timeseries.PathCount, int32(len(kept.positions)))
	dst = bsoncore.AppendInt32Element(dst, timeseries.PathSize, int32(min(made.size(), math.MaxInt32)))
	dst = bsoncore.AppendBooleanElement(dst, timeseries.PathClosed, true)
	dst = appendBound(dst, timeseries.FieldMin, timeField, least, made.lower)
	latest := bson.RawValue{Type: bson.TypeDateTime, Value: bsoncore.AppendDateTime(nil, made.latest)}
	dst = appendBound(dst, timeseries.FieldMax, timeField, latest, made.upper)
	dst = bsoncore.AppendInt64Element(dst, timeseries.PathFirst, kept.smallest)
	dst = bsoncore.AppendInt64Element(dst, timeseries.PathLast, kept.largest)
	offsets, dst := bsoncore.AppendArrayElementStart(dst, timeseries.PathOffsets)
	dst = bsoncore.AppendBinaryElement(dst, "0", 0, timeseries.AppendPositions(nil, kept.positions))
	dst, _ = bsoncore.AppendArrayEnd(dst, offsets)
	dst = bsoncore.AppendDocumentElement(dst, timeseries.FieldData, data)
	dst, _ = bsoncore.AppendDocumentEnd(dst, set)
	dst, _ = bsoncore.AppendDocumentEnd(dst, start)
	return dst
}

// appendBound appends control.min or control.max: the time, then the fields.
func appendBound(dst []byte, field, timeField string, time bson.RawValue, fields *extreme) []byte {
	start, dst := bsoncore.AppendDocumentElementStart(dst, timeseries.Path(timeseries.FieldControl, field))
	dst = fields.appendMembers(appendValue(dst, timeField, time))
	dst, _ = bsoncore.AppendDocumentEnd(dst, start)
	return dst
}

// remainingColumns is the object data without the dropped measurements, with consecutive indexes.
func remainingColumns(data []byte, timeField string, drop []bool) []byte {
	indexes := make(map[string]string, len(drop)) // from old to new
	at := 0
	for e := range elementsOf(lookup(data, timeField).Value) {
		if !drop[at] {
			indexes[string(e.name)] = strconv.Itoa(len(indexes))
		}
		at++
	}
	start, dst := bsoncore.AppendDocumentStart(nil)
	for column := range elementsOf(data) {
		begin := len(dst)
		inner, grown := bsoncore.AppendDocumentElementStart(dst, string(column.name))
		empty := len(grown)
		for e := range elementsOf(column.value.Value) {
			if index, ok := indexes[string(e.name)]; ok {
				grown = appendValue(grown, index, e.value)
			}
		}
		if len(grown) == empty {
			dst = grown[:begin] // no remaining measurement has the field
			continue
		}
		dst, _ = bsoncore.AppendDocumentEnd(grown, inner)
	}
	dst, _ = bsoncore.AppendDocumentEnd(dst, start)
	return dst
}
