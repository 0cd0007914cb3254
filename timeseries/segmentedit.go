package timeseries

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// SegmentEdit is what becomes of a segment whose measurements get other metas, or are taken out of it.
type SegmentEdit struct {
	// Changed are the positions of the measurements that get another meta or are taken out. Kept is how many measurements there
	// are afterwards.
	Changed []Position
	Kept    int
	// Data are the columns afterwards, and Update the update that makes the segment so; nil where nothing changes or nothing is left.
	Data, Update bson.Raw
}

// EditSegment works out the edit of a segment, of whose measurements become tells which meta they get (Type 0: none), and whether
// they stay. What the document says of its end stays as it is; it is one edit more. The error tells that the document is none that
// can be edited: no segment, or one that contradicts itself.
func (o Options) EditSegment(segment bson.Raw, become func(meta bson.RawValue) (after bson.RawValue, stays bool)) (SegmentEdit, error) {
	e := segmentEditing{options: o, low: MaxHash, first: math.MaxInt64}
	if err := e.read(segment, become); err != nil {
		return SegmentEdit{}, err
	}
	edit := SegmentEdit{Changed: e.changed, Kept: len(e.positions)}
	if len(edit.Changed) > 0 && edit.Kept > 0 {
		edit.Data = e.columns(segment)
		edit.Update = e.update(segment, edit.Data)
	}
	return edit, nil
}

// segmentEditing is the making of a SegmentEdit.
type segmentEditing struct {
	options     Options
	changed     []Position      // of the measurements that get another meta or are taken out
	positions   []Position      // of the measurements that stay
	metas       []bson.RawValue // and what they become
	drop        []bool          // of all measurements
	low, high   int32
	first, last int64
}

// read takes up the measurements of a segment.
func (e *segmentEditing) read(segment bson.Raw, become func(meta bson.RawValue) (after bson.RawValue, stays bool)) error {
	u := NewUnpacker(e.options)
	if err := u.Reset(segment); err != nil {
		return err
	}
	if !u.IsSegment() {
		return errors.New("it is no segment")
	}
	for m := (Unpacked{}); u.Next(&m); {
		after, stays := become(m.Meta)
		e.drop = append(e.drop, !stays)
		if !stays {
			e.changed = append(e.changed, m.Position)
			continue
		}
		if after.Type != m.Meta.Type || !after.Equal(m.Meta) {
			e.changed = append(e.changed, m.Position)
		}
		hash := SeriesHash(after)
		e.low, e.high = min(e.low, hash), max(e.high, hash)
		e.first, e.last = min(e.first, m.Position.Offset), max(e.last, m.Position.Offset)
		e.positions, e.metas = append(e.positions, m.Position), append(e.metas, after)
	}
	if err := u.Err(); err != nil {
		return err
	}
	if err := u.Mismatch(); err != nil {
		return fmt.Errorf("it contradicts itself: %w", err)
	}
	return nil
}

// columns is the object data with the metas that the measurements become.
func (e *segmentEditing) columns(segment bson.Raw) bson.Raw {
	metas := newBuilder()
	for i, meta := range e.metas {
		if meta.Type != 0 {
			metas.add(strconv.Itoa(i), meta)
		}
	}
	return e.options.withoutDropped(lookup(segment, FieldData).Value, e.drop, metas.document())
}

// WithoutMeasurements is the object data of a bucket without the measurements that are dropped, by index: the indexes of the
// others are without gaps again, and columns of which nothing is left are gone.
func (o Options) WithoutMeasurements(data bson.Raw, drop []bool) bson.Raw {
	return o.withoutDropped(data, drop, nil)
}

// withoutDropped is WithoutMeasurements; if metas is not nil, the column of metas is this one.
func (o Options) withoutDropped(data bson.Raw, drop []bool, metas bson.Raw) bson.Raw {
	indexes := make(map[string]string, len(drop)) // from old to new
	var time, column cursor
	time.open(lookup(data, o.TimeField).Value)
	for at := 0; time.next(); at++ {
		if !drop[at] {
			indexes[string(time.key)] = strconv.Itoa(len(indexes))
		}
	}
	b := newBuilder()
	for column.open(data); column.next(); {
		name := string(column.key)
		if metas != nil && name == o.MetaField {
			continue
		}
		kept := newBuilder()
		var value cursor
		for value.open(column.body); value.next(); {
			if index, ok := indexes[string(value.key)]; ok {
				kept.add(index, value.value())
			}
		}
		if values := kept.document(); !isEmpty(values) {
			b.add(name, objectValue(values))
		}
		if name == o.TimeField && metas != nil && !isEmpty(metas) { // where the catalog puts it
			b.add(o.MetaField, objectValue(metas))
		}
	}
	return b.document()
}

// update is the update that leaves a segment with the measurements that stay.
func (e *segmentEditing) update(segment, data bson.Raw) bson.Raw {
	o := e.options
	content := o.ContentOf(data)
	least := lookup(segment, FieldControl, FieldMin, o.TimeField)
	offsets := newBuilder()
	offsets.add("0", bson.RawValue{Type: bson.TypeBinary, Value: bsoncore.AppendBinary(nil, 0, AppendPositions(nil, e.positions))})
	set, edits, update := newBuilder(), newBuilder(), newBuilder()
	set.add(PathCount, int32Value(int32(len(e.positions))))
	set.add(PathSize, int32Value(content.Size))
	set.add(Path(FieldControl, FieldMin), objectValue(content.Min(o.TimeField, least)))
	set.add(Path(FieldControl, FieldMax), objectValue(content.Max(o.TimeField)))
	set.add(PathFirst, int64Value(e.first))
	set.add(PathLast, int64Value(e.last))
	set.add(PathOffsets, bson.RawValue{Type: bson.TypeArray, Value: offsets.document()})
	set.add(PathLow, int32Value(e.low))
	set.add(PathHigh, int32Value(e.high))
	set.add(FieldData, objectValue(data))
	edits.add(PathEdits, int32Value(1))
	update.add("$set", objectValue(set.document()))
	update.add("$inc", objectValue(edits.document()))
	return update.document()
}

// lookup is the value at a path through objects; Type 0: there is none.
func lookup(document bson.Raw, path ...string) bson.RawValue {
	v := objectValue(document)
	for _, name := range path {
		if v.Type != bson.TypeEmbeddedDocument {
			return bson.RawValue{}
		}
		var e cursor
		e.open(v.Value)
		for v = (bson.RawValue{}); e.next(); {
			if string(e.key) == name {
				v = e.value()
				break
			}
		}
	}
	return v
}

// SegmentMetas calls each for the meta of each measurement of a segment (Type 0: none), of which control.count and the column of
// metas suffice. The values are those of the document.
func (o Options) SegmentMetas(segment bson.Raw, each func(meta bson.RawValue, measurements int64)) {
	count, _ := lookup(segment, FieldControl, FieldCount).AsInt64OK()
	var metas cursor
	if column := lookup(segment, FieldData, o.MetaField); o.MetaField != "" && column.Type != 0 {
		for metas.open(column.Value); metas.next(); count-- {
			each(metas.value(), 1)
		}
	}
	if count > 0 {
		each(bson.RawValue{}, count)
	}
}
