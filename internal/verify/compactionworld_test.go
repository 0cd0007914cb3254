package verify_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

// newSparseWorld returns a world whose measurements go into segments, with those of a few records in each.
func newSparseWorld(t testing.TB, records int) *world {
	t.Helper()
	w := newWorld(t)
	w.dense = 64
	w.catalog = w.newCatalog()
	w.fill(records)
	return w
}

// compaction compacts segments into buckets, one step at a time.
type compaction struct {
	w        *world
	id       claim.Token
	segments []bson.ObjectID
	ended    int // number of segments that have ended
	buckets  []bson.ObjectID
	made     map[bson.ObjectID]bson.Raw
	from     int64 // time from which the buckets are shown, in milliseconds since 1970
}

var compactions uint32

// begin returns a new compaction of segments, without any step done.
func (w *world) begin(segments ...bson.ObjectID) *compaction {
	c := &compaction{w: w, segments: segments, made: map[bson.ObjectID]bson.Raw{}}
	compactions++
	binary.BigEndian.PutUint32(c.id[:], compactions) // makes the _ids of its buckets unique
	w.compactions = append(w.compactions, c)
	return c
}

// freeze freezes the segment with this index, unless it is frozen.
func (c *compaction) freeze(i int) {
	c.w.t.Helper()
	if d := c.w.docs[c.segments[i]]; d != nil && d.Lookup("control", "segment", "compaction").Type == 0 {
		c.w.edit(c.segments[i], "control.segment.compaction", bson.Binary{Subtype: bson.TypeBinaryUUID, Data: c.id[:]})
	}
}

// read makes buckets of the segments that the compaction has frozen.
func (c *compaction) read(from int64) {
	c.w.t.Helper()
	c.from = from
	var read []bson.Raw
	for _, id := range c.segments {
		if d := c.w.docs[id]; d != nil && c.froze(d) {
			read = append(read, d)
		}
	}
	limits := timeseries.Limits{MaxCount: 8, MaxBytes: 125 << 10, MinCount: 10}
	flush, err := bucketer.Compact(
		bucketer.Options{Collection: c.w.options, Limits: limits, Source: c.w.source}, bucketer.CompactionMark{ID: c.id, VisibleFrom: from}, read)
	if err != nil {
		c.w.t.Fatal(err)
	}
	for _, write := range flush.Writes {
		c.buckets = append(c.buckets, write.ID)
		c.made[write.ID] = write.Document
	}
}

// frozen begins a compaction, freezes the segments, and reads them.
func (w *world) frozen(from int64, segments ...bson.ObjectID) *compaction {
	w.t.Helper()
	c := w.begin(segments...)
	for i := range segments {
		c.freeze(i)
	}
	c.read(from)
	return c
}

// inserted does the same as frozen, and inserts all buckets.
func (w *world) inserted(from int64, segments ...bson.ObjectID) *compaction {
	w.t.Helper()
	c := w.frozen(from, segments...)
	for i := range c.buckets {
		c.insert(i)
	}
	return c
}

// whole compacts segments completely.
func (w *world) whole(segments ...bson.ObjectID) *compaction {
	w.t.Helper()
	c := w.inserted(noon+2_000_000, segments...)
	for i := range c.segments {
		c.end(i)
	}
	return c
}

// renamed returns a document with another _id.
func (w *world) renamed(document bson.Raw, id bson.ObjectID) bson.Raw {
	w.t.Helper()
	var d bson.D
	if err := bson.Unmarshal(document, &d); err != nil {
		w.t.Fatal(err)
	}
	raw, err := bson.Marshal(set(d, []string{"_id"}, id))
	if err != nil {
		w.t.Fatal(err)
	}
	return raw
}

// insert inserts the bucket with this index.
func (c *compaction) insert(i int) {
	c.w.t.Helper()
	id := c.buckets[i]
	if c.w.docs[id] != nil {
		c.w.t.Fatalf("there is a bucket %v already", id)
	}
	c.w.docs[id] = c.made[id]
}

// end ends the segment with this index, if this compaction has frozen it.
func (c *compaction) end(i int) {
	if d := c.w.docs[c.segments[i]]; d != nil && c.froze(d) && d.Lookup("control", "segment", "visibleUntil").Type == 0 {
		c.w.edit(c.segments[i], "control.segment.visibleUntil", bson.DateTime(c.from))
		c.ended++
	}
}

func (c *compaction) froze(d bson.Raw) bool {
	_, id, ok := d.Lookup("control", "segment", "compaction").BinaryOK()
	return ok && string(id) == string(c.id[:])
}

// sweep deletes the ended segment with this index.
func (c *compaction) sweep(i int) { delete(c.w.docs, c.segments[i]) }

// withdraw deletes the bucket with this index, which is the first step of a roll-back.
func (c *compaction) withdraw(i int) { delete(c.w.docs, c.buckets[i]) }

// unfreeze unfreezes the segment with this index, which is the last step of a roll-back.
func (c *compaction) unfreeze(i int) {
	if d := c.w.docs[c.segments[i]]; d != nil && c.froze(d) {
		c.w.edit(c.segments[i], "control.segment.compaction", nil)
	}
}

// counted returns the number of copies that count for each listed measurement. For unfinished compactions segments count,
// otherwise buckets.
func (w *world) counted() map[timeseries.Position]int {
	w.t.Helper()
	finished := map[string]bool{}
	for _, c := range w.compactions {
		if c.ended > 0 {
			finished[string(c.id[:])] = true
		}
	}
	counted := map[timeseries.Position]int{}
	for id, d := range w.docs {
		counts := true
		if _, of, ok := d.Lookup("control", "segment", "compaction").BinaryOK(); ok {
			counts = !finished[string(of)]
		} else if _, of, ok := d.Lookup("control", "compaction", "id").BinaryOK(); ok {
			counts = finished[string(of)]
		}
		for _, p := range w.positions(id) {
			if counted[p] += 0; counts {
				counted[p]++
			}
		}
	}
	return counted
}

// segmentIDs returns the segments that are not frozen, in order.
func (w *world) segmentIDs() (ids []bson.ObjectID) {
	for _, id := range w.ids() {
		if about, ok := w.docs[id].Lookup("control", "segment").DocumentOK(); ok && about.Lookup("compaction").Type == 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// content returns everything stored, by document.
func (w *world) content() string {
	text := ""
	for _, id := range w.ids() {
		text += fmt.Sprintln(w.docs[id])
	}
	return text
}
