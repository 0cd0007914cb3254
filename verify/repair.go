package verify

import (
	"context"
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/timeseries"
)

// repairPasses bounds how often a bucket is read again because a live owner changed it between its reading and its repair.
const repairPasses = 10

// repair takes all copies but one out, bucket by bucket, or tells what it would do.
func (w *window) repair(ctx context.Context, some map[timeseries.Position]*copies) error {
	w.progress("taking doubles out", w.end)
	var moved map[string]bool // the buckets that were changed meanwhile; nil before the first pass
	for pass := 1; pass == 1 || len(moved) > 0; pass++ {
		again := map[string]bool{}
		err := w.scanOnce(ctx, some, true, func(b *listing, id string) error {
			if moved != nil && !moved[id] {
				return nil
			}
			done, err := w.repairBucket(ctx, b, id, some)
			switch {
			case err != nil:
				return err
			case done:
			case pass == repairPasses:
				w.found.Repair.Left.add(b.fault("", "was changed again and again meanwhile: run the repair again"), w.Examples)
			default:
				again[id] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
		moved = again
	}
	for _, c := range some {
		if c.removed != c.count-1 {
			continue
		}
		if w.Repair == Repair {
			w.found.Repair.Repaired++
		} else {
			w.found.Repair.Planned++
		}
	}
	return nil
}

// repairBucket takes the surplus out of one bucket; not done: the bucket is not any more what was read.
func (w *window) repairBucket(ctx context.Context, b *listing, id string, some map[timeseries.Position]*copies) (done bool, err error) {
	drop, removed, left := w.surplus(b, id, some)
	if removed > 0 {
		if done, err = w.remove(ctx, b, drop, removed); err != nil || !done {
			return false, err
		}
	}
	for _, fault := range left {
		w.found.Repair.Left.add(fault, w.Examples)
	}
	for i, p := range b.positions {
		if drop[i] {
			some[p].removed++
		}
	}
	return true, nil
}

// surplus tells which measurements of a bucket, by index, are copies to be taken out, and how many: those that another bucket with a
// smaller _id, or this one at a smaller index, holds as well, if both are the same. What is left though it is a copy is told.
func (w *window) surplus(b *listing, id string, some map[timeseries.Position]*copies) (drop []bool, removed int, left []Fault) {
	sums := w.sums(b)
	drop = make([]bool, len(b.positions))
	newer := false
	kept := map[timeseries.Position]bool{}
	for i, p := range b.positions {
		c := some[p]
		if c == nil {
			continue
		}
		if id == c.keep && !kept[p] {
			kept[p] = true
			continue
		}
		if id < c.keep {
			newer = true // it came meanwhile, and another repair would keep just this copy
			continue
		}
		fault := Fault{Bucket: b.id(), Position: &p}
		switch {
		case c.damaged || sums == nil:
			fault.Text = "a bucket that lists it is damaged: repair or delete that bucket by hand"
		case sums[i] != c.sum:
			fault.Text = "its copies differ: look with --content which one the record agrees with"
		default:
			drop[i] = true
			removed++
			continue
		}
		left = append(left, fault)
	}
	if newer {
		left = append(left, b.fault("", "holds copies that came meanwhile: run the repair again"))
	}
	return drop, removed, left
}

// remove takes measurements out of a bucket, if it still is as it was read, and counts that.
func (w *window) remove(ctx context.Context, b *listing, drop []bool, removed int) (done bool, err error) {
	kept := len(b.positions) - removed
	r := &w.found.Repair
	switch {
	case w.Repair == DryRun:
		done = true
	case kept == 0:
		done, err = w.Buckets.Delete(ctx, w.condition(b))
	default:
		done, err = w.Buckets.Update(ctx, w.condition(b), w.remainder(b, drop))
	}
	if err != nil || !done {
		return false, err
	}
	r.Copies += int64(removed)
	if kept == 0 {
		r.Deleted++
	} else {
		r.Updated++
	}
	if len(r.First) < w.Examples {
		r.First = append(r.First, RepairedBucket{Bucket: b.id(), Removed: removed, Kept: kept})
	}
	return true, nil
}

// condition finds the bucket as long as it has the measurements it was read with: each write of a live owner makes its
// count larger or closes it, and the measurements of a closed bucket are changed by repairs alone, each of which makes its
// count smaller. So the two together never come back to what they were. It names the shard key as well: who gives the bucket
// another meta meanwhile is noticed.
func (w *window) condition(b *listing) bson.Raw {
	start, dst := bsoncore.AppendDocumentStart(nil)
	dst = appendValue(dst, timeseries.FieldID, lookup(b.document, timeseries.FieldID))
	inner, dst := bsoncore.AppendDocumentElementStart(dst, timeseries.FieldMeta)
	if meta := lookup(b.document, timeseries.FieldMeta); meta.Type != 0 {
		dst = appendValue(dst, "$eq", meta)
	} else {
		dst = bsoncore.AppendBooleanElement(dst, "$exists", false)
	}
	dst, _ = bsoncore.AppendDocumentEnd(dst, inner)
	if least := b.control(timeseries.FieldMin, w.Collection.TimeField); least.Type != 0 {
		dst = appendValue(dst, timeseries.MinPath(w.Collection.TimeField), least)
	}
	dst = appendValue(dst, timeseries.PathCount, b.control(timeseries.FieldCount))
	if closed, _ := b.control(timeseries.FieldClosed).BooleanOK(); closed {
		dst = bsoncore.AppendBooleanElement(dst, timeseries.PathClosed, true)
	} else {
		inner, dst = bsoncore.AppendDocumentElementStart(dst, timeseries.PathClosed)
		dst = bsoncore.AppendBooleanElement(dst, "$ne", true)
		dst, _ = bsoncore.AppendDocumentEnd(dst, inner)
	}
	dst, _ = bsoncore.AppendDocumentEnd(dst, start)
	return dst
}

// remainder is the update that leaves a bucket with the measurements that are not dropped, closed: a live owner's next
// update of it meets a conflict and asks again.
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

// remainingColumns is the object data without the dropped measurements, its indexes without gaps again.
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
			dst = grown[:begin] // nobody has the field any more
			continue
		}
		dst, _ = bsoncore.AppendDocumentEnd(grown, inner)
	}
	dst, _ = bsoncore.AppendDocumentEnd(dst, start)
	return dst
}
