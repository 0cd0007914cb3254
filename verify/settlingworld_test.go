package verify_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/claim"
	"waterwheel/timeseries"
)

// newSparseWorld is a world whose measurements go into segments, with those of a few records in each.
func newSparseWorld(t testing.TB, records int) *world {
	t.Helper()
	w := newWorld(t)
	w.dense = 64
	w.catalog = w.newCatalog()
	w.fill(records)
	return w
}

// settling makes buckets of segments, a step at a time.
type settling struct {
	w        *world
	by       claim.Token
	from     int64 // milliseconds since 1970
	segments []bson.ObjectID
	ended    int
	buckets  []bson.ObjectID
	made     map[bson.ObjectID]bson.Raw
}

var settlings uint64

// settle freezes segments, and reads them.
func (w *world) settle(from int64, segments ...bson.ObjectID) *settling {
	w.t.Helper()
	s := &settling{w: w, from: from, segments: segments, made: map[bson.ObjectID]bson.Raw{}}
	settlings++
	binary.BigEndian.PutUint64(s.by[:], settlings)
	var read []bson.Raw
	for _, id := range segments {
		read = append(read, w.docs[id])
		w.edit(id, "control.segment.compaction", bson.Binary{Subtype: bson.TypeBinaryUUID, Data: s.by[:]})
	}
	limits := timeseries.Limits{MaxCount: 8, MaxBytes: 125 << 10, MinCount: 10}
	flush, err := bucketer.Compact(
		bucketer.Options{Collection: w.options, Limits: limits, Source: w.source}, bucketer.Compaction{ID: s.by, VisibleFrom: from}, read)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, write := range flush.Writes {
		id := write.ID
		for w.docs[id] != nil || s.made[id] != nil { // of the same measurement, which is doubled
			id[11]++
		}
		s.buckets = append(s.buckets, id)
		s.made[id] = w.renamed(write.Document, id)
	}
	return s
}

// renamed is a document with another _id.
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

// insert inserts the bucket of this index.
func (s *settling) insert(i int) {
	s.w.t.Helper()
	id := s.buckets[i]
	if s.w.docs[id] != nil {
		s.w.t.Fatalf("there is a bucket %v already", id)
	}
	s.w.docs[id] = s.made[id]
}

// end ends the segment of this index; false: it is not frozen by this compaction.
func (s *settling) end(i int) bool {
	id := s.segments[i]
	d := s.w.docs[id]
	if d == nil || !s.froze(d) || d.Lookup("control", "segment", "visibleUntil").Type != 0 {
		return false
	}
	s.w.edit(id, "control.segment.visibleUntil", bson.DateTime(s.from))
	s.ended++
	return true
}

func (s *settling) froze(d bson.Raw) bool {
	_, by, ok := d.Lookup("control", "segment", "compaction").BinaryOK()
	return ok && string(by) == string(s.by[:])
}

// sweep deletes the segment of this index.
func (s *settling) sweep(i int) { delete(s.w.docs, s.segments[i]) }

// restore takes the compaction off the segment of this index.
func (s *settling) restore(i int) {
	if d := s.w.docs[s.segments[i]]; d != nil && s.froze(d) {
		s.w.edit(s.segments[i], "control.segment.compaction", nil)
	}
}

// withdraw deletes the bucket of this index.
func (s *settling) withdraw(i int) { delete(s.w.docs, s.buckets[i]) }

// segmentIDs are the segments that are not frozen, in order.
func (w *world) segmentIDs() (ids []bson.ObjectID) {
	for _, id := range w.ids() {
		if about, ok := w.docs[id].Lookup("control", "segment").DocumentOK(); ok && about.Lookup("compaction").Type == 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// content is everything that is stored, by documents.
func (w *world) content() string {
	text := ""
	for _, id := range w.ids() {
		text += fmt.Sprintln(w.docs[id])
	}
	return text
}
