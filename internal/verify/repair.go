package verify

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

// wait waits before a repair until no more writes of buckets below the committed offsets can arrive. A late write would bring
// back a removed copy.
func (v *Verifier) wait(ctx context.Context, r Range) error {
	if v.o.Repair != Repair || v.waited {
		return nil
	}
	claims, err := v.o.Claims.Claims(ctx)
	if err != nil {
		return fmt.Errorf("reading the claims before a repair: %w", err)
	}
	writeGrace := claim.Pending(v.o.WriteGrace, claims)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < writeGrace; {
		if v.o.Progress != nil {
			v.o.Progress(Progress{
				Partition: r.Source.Partition, Operation: "waiting until pending writes can no longer arrive", Seconds: true,
				Offset: int64(time.Since(begin).Seconds()), To: int64(writeGrace.Seconds()),
			})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	v.waited = true
	return nil
}

// repairPasses bounds how often a bucket is read again because a live owner changed it between its reading and its repair.
const repairPasses = 10

// repair removes all copies but one, document by document, or only counts what it would remove. counted are the documents whose
// copies were counted.
//
// Segments may be compacted meanwhile. The copy that stays is safe. In a bucket it stays there. In a segment it stays there or
// moves into a bucket with the same content. So repair must only remove other copies. It removes copies only from documents that
// were counted, because these existed before the copy that stays was found. It changes a segment only on the condition that no
// compaction has frozen it. Otherwise the bucket of that compaction would bring the copy back, or would merge two copies.
func (w *window) repair(ctx context.Context, some map[timeseries.Position]*copies, counted map[string]bool) error {
	w.progress("removing doubled measurements", w.end)
	if err := w.compactions.begin(ctx); err != nil {
		return err
	}
	var moved map[string]bool // the buckets that were changed meanwhile. Nil before the first pass.
	for pass := 1; pass == 1 || len(moved) > 0; pass++ {
		again := map[string]bool{}
		err := w.scanOnce(ctx, some, true, func(b *listing, id string) error {
			if moved != nil && !moved[id] {
				return nil
			}
			if counts, how := w.compactions.judge(b); !counted[id] {
				if counts || how == unsure {
					w.found.Repair.Left.add(b.fault("", "has copies that were written during the repair: run the repair again"), w.Examples)
				}
				return nil
			}
			done, err := w.repairBucket(ctx, b, id, some)
			switch {
			case err != nil:
				return err
			case done:
			case pass == repairPasses:
				w.found.Repair.Left.add(b.fault("", "kept changing during the repair: run the repair again"), w.Examples)
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

// repairBucket removes the surplus from one bucket. It returns false if the bucket is no longer as it was read.
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

// surplus returns the measurements of a bucket, by index, that are copies to be removed, and their number. Such a copy is also in
// another document with a smaller idOf, or in this one at a smaller index, and both are the same. left explains why other copies
// are left.
func (w *window) surplus(b *listing, id string, some map[timeseries.Position]*copies) (drop []bool, removed int, left []Fault) {
	sums := w.sums(b)
	drop = make([]bool, len(b.positions))
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
		fault := Fault{Bucket: b.id(), Position: &p}
		switch {
		case id < c.keep: // another repair would keep this copy
			fault.Text = "was written during the repair: run the repair again"
		case b.segment && b.compaction != claim.Token{}: // The segment is frozen, or has ended since.
			fault.Text = "is being compacted: run the repair again after the compaction"
		case !c.kept:
			fault.Text = "the copy that stays was being compacted: run the repair again"
		case c.damaged || sums == nil:
			fault.Text = "a bucket that lists this measurement is damaged: repair or delete that bucket by hand"
		case sums[i] != c.sum:
			fault.Text = "the copies differ: use --content to see which one agrees with the record"
		default:
			drop[i] = true
			removed++
			continue
		}
		left = append(left, fault)
	}
	return drop, removed, left
}

// remove removes measurements from a bucket, if it is still as it was read, and counts them.
func (w *window) remove(ctx context.Context, b *listing, drop []bool, removed int) (done bool, err error) {
	kept := len(b.positions) - removed
	r := &w.found.Repair
	if w.Repair == Repair {
		if done, err = w.write(ctx, b, drop, kept); err != nil || !done {
			return false, err
		}
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

// write removes measurements from a bucket, if it is still as it was read. It deletes a bucket that keeps none.
func (w *window) write(ctx context.Context, b *listing, drop []bool, kept int) (done bool, err error) {
	filter, err := bson.Marshal(w.condition(b))
	if err != nil {
		return false, err
	}
	if kept == 0 {
		return w.Buckets.Delete(ctx, filter)
	}
	update, err := bson.Marshal(w.remainder(b, drop))
	if err != nil {
		return false, err
	}
	return w.Buckets.Update(ctx, filter, update)
}

// condition finds the bucket only while it has the measurements that were read. A live owner's write increases count or closes
// the bucket. Only repairs change the measurements of a closed bucket, and each of them decreases count. So count and closed
// together never return to earlier values. The condition includes the shard key as well, so it notices that another command has
// changed the meta. It does not find a segment that was frozen meanwhile.
func (w *window) condition(b *listing) bson.D {
	timeField := w.Collection.TimeField
	filter := timeseries.FullKey(
		lookup(b.document, timeseries.FieldID), lookup(b.document, timeseries.FieldMeta), timeField, b.control(timeseries.FieldMin, timeField))
	if b.segment {
		filter = append(filter,
			timeseries.IsAsRead(timeseries.PathSegmentCompaction, b.control(timeseries.FieldSegment, timeseries.FieldCompaction)),
			timeseries.IsAsRead(timeseries.PathVisibleUntil, b.control(timeseries.FieldSegment, timeseries.FieldVisibleUntil)))
	}
	filter = append(filter, bson.E{Key: timeseries.PathCount, Value: b.control(timeseries.FieldCount)})
	if closed, _ := b.control(timeseries.FieldClosed).BooleanOK(); closed {
		return append(filter, bson.E{Key: timeseries.PathClosed, Value: true})
	}
	return append(filter, bson.E{Key: timeseries.PathClosed, Value: bson.D{{Key: "$ne", Value: true}}})
}

// remainder is the update that removes the dropped measurements from a bucket and closes it. A live owner's next update of the
// bucket then meets a conflict, and the owner reads the bucket again.
func (w *window) remainder(b *listing, drop []bool) bson.D {
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
	latest := bson.RawValue{Type: bson.TypeDateTime, Value: bsoncore.AppendDateTime(nil, made.latest)}
	return bson.D{{Key: "$set", Value: bson.D{
		{Key: timeseries.PathCount, Value: int32(len(kept.positions))},
		{Key: timeseries.PathSize, Value: int32(min(made.size(), math.MaxInt32))},
		{Key: timeseries.PathClosed, Value: true},
		{Key: timeseries.Path(timeseries.FieldControl, timeseries.FieldMin), Value: made.lower.withTime(timeField, b.control(timeseries.FieldMin, timeField))},
		{Key: timeseries.Path(timeseries.FieldControl, timeseries.FieldMax), Value: made.upper.withTime(timeField, latest)},
		{Key: timeseries.PathFirst, Value: kept.smallest},
		{Key: timeseries.PathLast, Value: kept.largest},
		{Key: timeseries.PathOffsets, Value: bson.A{bson.Binary{Data: timeseries.AppendPositions(nil, kept.positions)}}},
		{Key: timeseries.FieldData, Value: bson.Raw(data)},
	}}}
}

// withTime returns control.min or control.max: the time, then the fields.
func (x *extreme) withTime(timeField string, time bson.RawValue) bson.Raw {
	start, dst := bsoncore.AppendDocumentStart(nil)
	dst = x.appendMembers(appendValue(dst, timeField, time))
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
