package sink

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

const (
	maxEditedSegments = 16 // in a batch
	maxSegmentTries   = 8  // of a segment that others write to between reading and writing
)

// segmentEdits edits the measurements in segments, each segment once, before the buckets are edited. Each edit names the count, the
// edits and the settling that the segment was read with, and counts one edit more. A settling reads segments, inserts buckets that
// are not shown yet, and ends the segments if their edits are those that it read. So of a settling and the edit of one of its
// segments
//
//   - the edit comes before the settling reads the segment: the buckets are made of what was edited;
//   - the edit comes between reading and end: the segment does not end, the settling is undone, and its buckets are deleted, edited
//     or not. The next one reads what was edited;
//   - the edit comes after the end: all buckets of the settling have been inserted by then, so that the pass over buckets finds them.
//     The segment is edited as well: it is shown for a while yet, and a settling that has ended some of its segments only is undone.
//
// What is written to segments while the edits go on may have the former meta, as what is written to buckets then. A segment gets no
// measurements after its insert: one edit is enough. An edit whose answer did not come is known by the columns that it makes;
// one that is executed late finds other edits than it names.
//
// Where a series becomes one that is changed as well, the buckets of a settling must not be changed again if they were made of
// edited segments: see isBefore.
type segmentEdits struct {
	e    *editing
	done map[string]bool // by _id: edited
	sent map[string]sentSegment
	most int // segments in a batch

	began int64 // MongoDB's clock before the first edit, in milliseconds since 1970; 0: there was none yet
	// Settlings that had ended segments with something to edit: before the first edit, and when these were edited.
	endedBefore, ended map[string]bool
	unclear            map[string]bool // buckets, by _id
	damaged            error           // of the last run
}

// sentSegment is an edit that was sent, and of which it is not known whether it was executed.
type sentSegment struct {
	data    bson.Raw // the columns afterwards; nil: it is deleted
	changed int64
	by      string // the settling that had ended it
	ended   bool
}

// errDamaged: a segment cannot be edited. The rest was.
var errDamaged = errors.New("a segment cannot be edited")

func newSegmentEdits(e *editing) *segmentEdits {
	return &segmentEdits{
		e: e, done: map[string]bool{}, sent: map[string]sentSegment{}, most: maxEditedSegments,
		ended: map[string]bool{}, unclear: map[string]bool{},
	}
}

// becoming tells what becomes of a measurement's meta, and whether it stays.
type becoming func(meta bson.RawValue) (after bson.RawValue, stays bool)

func (b becoming) changes(meta bson.RawValue) bool {
	after, stays := b(meta)
	return !stays || seriesOf(after) != seriesOf(meta)
}

// run edits the segments that there are. Its error is errDamaged only when nothing else went wrong.
func (g *segmentEdits) run(ctx context.Context, become becoming) error {
	const doing = "editing segments"
	if g.e.s.segments == nil || g.e.s.segments.none {
		return nil
	}
	if err := g.account(ctx); err != nil {
		return failure(doing, err)
	}
	open, err := g.find(ctx, become)
	if err != nil {
		return failure(doing, err)
	}
	g.damaged = nil
	for try := 0; len(open) > 0; try++ {
		if try == maxSegmentTries {
			g.e.edited.Missed += int64(len(open))
			break
		}
		var again []bson.RawValue
		for len(open) > 0 {
			n := min(g.most, len(open))
			left, err := g.edit(ctx, open[:n], become)
			if err != nil {
				return failure(doing, err)
			}
			again, open = append(again, left...), open[n:]
		}
		open = again
	}
	return g.damaged
}

func (g *segmentEdits) isDamage(err error) bool { return errors.Is(err, errDamaged) }

// find looks for the segments that are to be edited.
func (g *segmentEdits) find(ctx context.Context, become becoming) (ids []bson.RawValue, err error) {
	s := g.e.s.segments
	if g.began == 0 {
		now, err := s.clock(ctx)
		if err != nil {
			return nil, err
		}
		g.began = now.UnixMilli()
	}
	before := map[string]bool{}
	err = g.e.s.buckets.Find(ctx, s.query(), func(d bson.Raw) error {
		affected := false
		s.collection.SegmentMetas(d, func(meta bson.RawValue, _ int64) { affected = affected || become.changes(meta) })
		id := d.Lookup(timeseries.FieldID)
		if !affected || g.done[keyOf(id)] {
			return nil
		}
		ids = append(ids, cloned(id))
		if by, ended := endedBy(d); ended {
			before[by] = true
		}
		return nil
	})
	if err == nil && g.endedBefore == nil {
		g.endedBefore = before
	}
	return ids, err
}

// edit reads segments and edits them, and returns those that somebody else wrote to meanwhile.
func (g *segmentEdits) edit(ctx context.Context, ids []bson.RawValue, become becoming) (again []bson.RawValue, err error) {
	batch := segmentBatch{g: g, become: become, notes: newNotes(g.e.kind)}
	query := Query{Filter: document(bson.D{{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: ids}}}, isSegment()}), Batch: storedBatch}
	if err := g.e.s.buckets.Find(ctx, query, batch.add); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, g.e.s.timeout)
	defer cancel()
	if err := batch.notes.write(limited, g.e.s.options); err != nil {
		clear(g.sent) // nothing of it was
		return nil, err
	}
	n, err := batch.send(limited)
	if err == nil && n == int64(len(g.sent)) {
		for key := range g.sent {
			g.finish(key)
		}
	}
	if err != nil {
		g.e.countUnsure()
		if refused := (*CommandError)(nil); errors.As(err, &refused) {
			_ = g.account(ctx) // some of them may have been edited; else they stay unsure
		} else {
			g.most = max(1, g.most/4)
		}
		g.e.progress(g.e.edited)
		return nil, err
	}
	if err := g.account(ctx); err != nil {
		return nil, err
	}
	g.e.progress(g.e.edited)
	for _, id := range ids {
		if batch.has[keyOf(id)] && !g.done[keyOf(id)] {
			again = append(again, id)
		}
	}
	return again, nil
}

// account reads the segments back that are not known to be edited. Those that were not are edited again.
func (g *segmentEdits) account(ctx context.Context) error {
	if len(g.sent) == 0 {
		return nil
	}
	ids := make(bson.A, 0, len(g.sent))
	gone := make(map[string]bool, len(g.sent))
	for key := range g.sent {
		gone[key] = true
		ids = append(ids, bson.RawValue{Type: bson.Type(key[0]), Value: []byte(key[1:])})
	}
	var edited []string
	query := Query{Filter: document(bson.D{{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: ids}}}}), Batch: storedBatch}
	err := g.e.s.buckets.Find(ctx, query, func(d bson.Raw) error {
		key := keyOf(d.Lookup(timeseries.FieldID))
		delete(gone, key)
		if data := d.Lookup(timeseries.FieldData).Value; g.sent[key].data != nil && bytes.Equal(data, g.sent[key].data) {
			edited = append(edited, key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range edited {
		g.finish(key)
	}
	for key := range gone {
		if g.sent[key].data == nil {
			g.finish(key)
		}
		g.done[key] = true // it was settled
	}
	clear(g.sent)
	g.e.countUnsure()
	return nil
}

// finish notes that a segment is edited. Measurements that are in buckets as well are counted with those.
func (g *segmentEdits) finish(key string) {
	one := g.sent[key]
	delete(g.sent, key)
	g.done[key] = true
	if one.ended {
		g.ended[one.by] = true
		return
	}
	g.e.edited.Done.Add(staged(one.changed))
}

// isBefore tells of a bucket whether it has the meta from before the edits. One that was made of segments has it if these had
// ended before they were edited. A settling that ended segments while others were edited may have made its buckets of both: they
// are left alone.
func (g *segmentEdits) isBefore(b edited) bool {
	switch {
	case g.e.s.segments == nil || g.e.s.segments.none || b.by == "" || g.endedBefore[b.by]:
		return true
	case g.ended[b.by]:
		if !g.unclear[b.key()] {
			g.unclear[b.key()] = true
			g.e.edited.Missed++
		}
		return false
	default:
		return b.from <= g.began
	}
}

// segmentBatch are edits that are sent together.
type segmentBatch struct {
	g       *segmentEdits
	become  becoming
	updates []Update
	deletes bson.A          // conditions
	has     map[string]bool // by _id
	notes   *notes          // of all edits of the batch
}

// add adds the edit of a segment.
func (b *segmentBatch) add(d bson.Raw) error {
	if b.has == nil {
		b.has = map[string]bool{}
	}
	id := cloned(d.Lookup(timeseries.FieldID))
	key := keyOf(id)
	edit, err := b.g.e.s.segments.collection.EditSegment(d, b.become)
	if err != nil {
		b.g.damaged = cmp.Or(b.g.damaged, fmt.Errorf("%w, and was left alone: %v: %w; look with `waterwheel verify --content`", errDamaged, id, err))
		return nil
	}
	if len(edit.Changed) == 0 {
		b.g.done[key] = true
		return nil
	}
	b.has[key] = true
	b.notes.add(d, edit.Changed)
	by, ended := endedBy(d)
	b.g.sent[key] = sentSegment{slices.Clone(edit.Data), int64(len(edit.Changed)), by, ended}
	condition := asRead(d)
	if edit.Kept == 0 {
		b.deletes = append(b.deletes, condition)
	} else {
		b.updates = append(b.updates, Update{Filter: document(condition), Update: edit.Update})
	}
	return nil
}

// asRead finds a segment as long as nobody has changed or ended it since it was read. Its bounds tell it from another one that
// an owner wrote under the same _id after it was deleted.
func asRead(d bson.Raw) bson.D {
	condition := bson.D{{Key: timeseries.FieldID, Value: cloned(d.Lookup(timeseries.FieldID))}}
	for _, path := range [][]string{
		{timeseries.FieldControl, timeseries.FieldCount},
		{timeseries.FieldControl, timeseries.FieldSource, timeseries.FieldFirst},
		{timeseries.FieldControl, timeseries.FieldSource, timeseries.FieldLast},
		{timeseries.FieldControl, timeseries.FieldSegment, timeseries.FieldEdits},
		{timeseries.FieldControl, timeseries.FieldSegment, timeseries.FieldBy},
	} {
		one := bson.E{Key: timeseries.Path(path...), Value: bson.D{{Key: "$exists", Value: false}}}
		if v := d.Lookup(path...); v.Type != 0 {
			one.Value = cloned(v)
		}
		condition = append(condition, one)
	}
	return condition
}

// send sends the edits, and returns how many segments they found.
func (b *segmentBatch) send(ctx context.Context) (found int64, err error) {
	if len(b.updates) > 0 {
		if found, err = executed(b.g.e.s.buckets.Update(ctx, b.updates)); err != nil {
			return 0, err
		}
	}
	if len(b.deletes) > 0 {
		n, err := b.g.e.s.buckets.Delete(ctx, document(bson.D{{Key: "$or", Value: b.deletes}}))
		return found + n, err
	}
	return found, nil
}

// keyOf is an _id as bytes.
func keyOf(id bson.RawValue) string { return string(byte(id.Type)) + string(id.Value) }
