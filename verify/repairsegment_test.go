package verify_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
	"waterwheel/verify"
)

// doubledWorld is a world with the last three measurements of 100 in two segments each, or (dense) in a segment and a bucket.
func doubledWorld(t *testing.T, dense bool) *world {
	t.Helper()
	w := newSparseWorld(t, 100)
	if dense {
		w.dense = 0
	}
	rival(w, 4)
	if r := w.verify(content); r.Doubled.Count != 3 || r.Damaged.Count != 0 {
		t.Fatalf("planted: %+v", r)
	}
	return w
}

// lists are the documents that list a position.
func (w *world) lists(p timeseries.Position) (ids []bson.ObjectID) {
	w.t.Helper()
	for _, id := range w.ids() {
		if slices.Contains(w.positions(id), p) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (w *world) isSegment(id bson.ObjectID) bool {
	return w.docs[id].Lookup("control", "segment", "low").Type != 0
}

// afterCounting is an option that does something once, when the copies were counted and before any is taken out.
func afterCounting(do func()) func(*verify.Options) {
	return func(o *verify.Options) {
		o.Progress = func(at verify.Progress) {
			if at.Doing == "taking doubles out" && do != nil {
				once := do
				do = nil
				once()
			}
		}
	}
}

// whole settles segments from beginning to end.
func (w *world) whole(segments ...bson.ObjectID) *settling {
	s := w.settle(noon+2_000_000, segments...)
	for i := range s.buckets {
		s.insert(i)
	}
	for i := range s.segments {
		s.end(i)
	}
	return s
}

func TestRepairTakesCopiesOutOfSegments(t *testing.T) {
	for _, dense := range []bool{false, true} {
		w := doubledWorld(t, dense)
		before := map[bson.ObjectID]bson.Raw{}
		for id, d := range w.docs {
			before[id] = d
		}
		r := w.verify(repair)
		if r.Wrong() || r.Repair.Repaired != 3 {
			t.Fatalf("dense %v: %+v", dense, r.Repair)
		}
		for _, b := range r.Repair.First {
			id, _ := bson.ObjectIDFromHex(b.Bucket)
			d := w.docs[id]
			if before[id].Lookup("control", "segment").Type == 0 {
				t.Errorf("dense %v: the bucket %v was changed", dense, id)
			}
			if edits, _ := d.Lookup("control", "segment", "edits").Int32OK(); b.Kept > 0 && edits != 1 {
				t.Errorf("dense %v: the edits were not counted: %v", dense, d.Lookup("control"))
			}
			if b.Kept == 0 && d != nil {
				t.Errorf("dense %v: an empty segment stays", dense)
			}
		}
		if r := w.verify(content, repair); r.Wrong() || r.Doubled.Count != 0 || r.StoredOnce != 107 {
			t.Errorf("dense %v, afterwards: %+v", dense, r)
		}
		w.whole(w.segmentIDs()...)
		if r := w.verify(content); r.Wrong() || r.StoredOnce != 107 {
			t.Errorf("dense %v, settled: %+v", dense, r)
		}
	}
}

// TestRepairCountsEditsFromWhatItRead: and names them in its condition.
func TestRepairCountsEditsFromWhatItRead(t *testing.T) {
	w := doubledWorld(t, false)
	var changed bson.ObjectID
	writes := 0
	w.beaten = func() bool {
		if writes++; writes == 1 { // somebody else edits all segments
			for _, id := range w.segmentIDs() {
				w.edit(id, "control.segment.edits", int32(6))
			}
		}
		return false
	}
	r := w.verify(repair)
	for _, b := range r.Repair.First {
		if b.Kept > 0 {
			changed, _ = bson.ObjectIDFromHex(b.Bucket)
			if edits := w.docs[changed].Lookup("control", "segment", "edits").Int32(); edits != 7 {
				t.Errorf("edits are %d", edits)
			}
		}
	}
	if r.Wrong() || r.Repair.Repaired != 3 || writes < 2 || changed.IsZero() {
		t.Errorf("after %d writes: %+v", writes, r.Repair)
	}
}

// TestASettlingThatReadASegmentBeforeItsRepairIsUndone: it does not end the segment that it does not know.
func TestASettlingThatReadASegmentBeforeItsRepairIsUndone(t *testing.T) {
	w := doubledWorld(t, false)
	s := w.settle(noon, w.segmentIDs()...)
	for i := range s.buckets {
		s.insert(i)
	}
	if r := w.verify(repair); r.Wrong() || r.Repair.Repaired != 3 {
		t.Fatalf("%+v", r)
	}
	ended := 0
	for i := range s.segments {
		if s.end(i) {
			ended++
		}
	}
	if ended == len(s.segments) {
		t.Error("all segments ended")
	}
}

func TestRepairLeavesWhatIsBeingSettled(t *testing.T) {
	for name, end := range map[string]func(w *world, s *settling, o *verify.Options){
		"before": func(_ *world, s *settling, _ *verify.Options) {
			for i := range s.segments {
				s.end(i)
			}
		},
		"between reading and writing": func(w *world, s *settling, _ *verify.Options) {
			w.beaten = func() bool {
				for i := range s.segments {
					s.end(i)
				}
				return false
			}
		},
	} {
		w := doubledWorld(t, false)
		s := w.settle(noon, w.segmentIDs()...)
		for i := range s.buckets {
			s.insert(i)
		}
		r := w.verify(repair, func(o *verify.Options) { end(w, s, o) })
		if !r.Wrong() || r.Repair.Copies != 0 || r.Repair.Left.Count == 0 || !strings.Contains(r.Repair.Left.First[0].Text, "is being settled") {
			t.Errorf("%s: %+v", name, r.Repair)
		}
		w.beaten = nil
		if r := w.verify(repair); r.Wrong() || r.Repair.Repaired != 3 {
			t.Errorf("%s: when it was over: %+v", name, r.Repair)
		}
		if r := w.verify(content); r.Wrong() || r.StoredOnce != 107 {
			t.Errorf("%s: afterwards: %+v", name, r)
		}
	}
}

// TestRepairLeavesWhatWasSettledMeanwhile: the copy that was to stay moves into a new bucket, which must not lose it.
func TestRepairLeavesWhatWasSettledMeanwhile(t *testing.T) {
	w := doubledWorld(t, false)
	keep := w.lists(w.verify().Doubled.First[0])[0]
	r := w.verify(repair, func(o *verify.Options) { o.Examples = 100 }, afterCounting(func() { w.whole(keep) }))
	for p, n := range w.counted() {
		if n == 0 {
			t.Fatalf("%v is lost: %+v", p, r.Repair)
		}
	}
	if r.Repair.Left.Count == 0 || !strings.Contains(r.Repair.Left.First[0].Text, "was settled meanwhile") {
		t.Errorf("%+v", r.Repair)
	}
	if r := w.verify(repair); r.Wrong() {
		t.Errorf("the next repair: %+v", r)
	}
	if r := w.verify(content); r.Wrong() || r.StoredOnce != 107 {
		t.Errorf("afterwards: %+v", r)
	}
}

// TestRepairLeavesBucketsOfASettlingThatIsNotOver: it began after the copies were counted, and may be undone.
func TestRepairLeavesBucketsOfASettlingThatIsNotOver(t *testing.T) {
	w := doubledWorld(t, true)
	var s *settling
	h := &hooked{world: w, before: func(query int) {
		if query != 3 { // the repair's own
			return
		}
		s = w.settle(noon, w.segmentIDs()...)
		for i := range s.buckets {
			s.insert(i)
		}
	}}
	r := w.verify(repair, func(o *verify.Options) { o.Buckets, o.Examples = h, 100 })
	for _, id := range s.buckets {
		if string(w.docs[id]) != string(s.made[id]) {
			t.Errorf("the bucket %v was changed", id)
		}
	}
	if r.Repair.Left.Count == 0 || !strings.Contains(r.Repair.Left.First[0].Text, "was settled meanwhile") {
		t.Errorf("%+v", r.Repair)
	}
}

// TestRepairLeavesALateBucketToTheNextSettling: a bucket of a settling that was undone comes late. The next settling deletes it, so the
// segment's copy must stay.
func TestRepairLeavesALateBucketToTheNextSettling(t *testing.T) {
	w := newSparseWorld(t, 100)
	s := w.settle(noon, w.segmentIDs()...)
	for i := range s.segments {
		s.restore(i)
	}
	s.insert(0)
	before := w.content()
	r := w.verify(repair)
	if r.Doubled.Count == 0 || r.Repair.Copies != 0 || r.Repair.Left.Count != r.Doubled.Count || w.content() != before ||
		!strings.Contains(r.Repair.Left.First[0].Text, "when that segment is settled") {
		t.Errorf("%+v", r)
	}
	s.withdraw(0)
	if r := w.verify(repair); r.Wrong() || r.StoredOnce != 106 {
		t.Errorf("afterwards: %+v", r)
	}
}

// TestTwoRepairsBesideASettlingKeepOneCopy: the second begins and ends in the middle of the first, when a segment that held a copy has
// been settled. Whatever order their ids have, both must keep the copy of the bucket that was there all the time.
func TestTwoRepairsBesideASettlingKeepOneCopy(t *testing.T) {
	w := doubledWorld(t, true)
	var segments []bson.ObjectID
	for _, p := range w.verify().Doubled.First {
		for _, id := range w.lists(p) {
			if !w.isSegment(id) {
				larger := id // than the segments', and smaller than those of the buckets made of them
				larger[0] = 0xfe
				w.docs[larger] = w.renamed(w.docs[id], larger)
				delete(w.docs, id)
			} else if !slices.Contains(segments, id) {
				segments = append(segments, id)
			}
		}
	}
	r := w.verify(repair, afterCounting(func() {
		s := w.settle(noon, segments...)
		for i, id := range s.buckets {
			last := id
			last[0] = 0xff
			s.made[last] = w.renamed(s.made[id], last)
			s.buckets[i] = last
			s.insert(i)
		}
		for i := range s.segments {
			s.end(i)
		}
		if r := w.verify(repair); r.Repair.Repaired != 3 {
			t.Errorf("the second repair: %+v", r.Repair)
		}
	}))
	for p, n := range w.counted() {
		if n != 1 {
			t.Errorf("%v is stored %d times: %+v", p, n, r.Repair)
		}
	}
}

// hooked are the buckets of a world in which something happens before each query.
type hooked struct {
	*world
	queries int
	before  func(query int)
}

func (h *hooked) Find(ctx context.Context, source timeseries.Source, from, to int64, whole bool, each func(bson.Raw) error) error {
	h.queries++
	h.before(h.queries)
	return h.world.Find(ctx, source, from, to, whole, each)
}

// TestADoubleIsFoundThoughItsSegmentIsDeletedMeanwhile: the settling ends while it is read what is stored, and takes its segments along.
func TestADoubleIsFoundThoughItsSegmentIsDeletedMeanwhile(t *testing.T) {
	for _, query := range []int{1, 2} {
		w := doubledWorld(t, true)
		s := w.settle(noon, w.segmentIDs()...)
		for i := range s.buckets {
			s.insert(i)
		}
		for i := range s.segments {
			s.end(i)
		}
		h := &hooked{world: w, before: func(n int) {
			for i := range s.segments {
				if n == query {
					s.sweep(i)
				}
			}
		}}
		if r := w.verify(func(o *verify.Options) { o.Buckets = h }); r.Doubled.Count != 3 || r.Missing.Count != 0 {
			t.Errorf("in query %d: %+v", query, r)
		}
	}
}

// TestASettlingFromBeginningToEndInOneReading: and its segments are deleted before the reading comes to them.
func TestASettlingFromBeginningToEndInOneReading(t *testing.T) {
	w := newSparseWorld(t, 100)
	hidden := map[bson.ObjectID]bool{}
	h := &hooked{world: w}
	h.before = func(query int) {
		if query == 1 {
			s := w.whole(w.segmentIDs()...)
			for i := range s.segments {
				s.sweep(i)
			}
			for _, id := range s.buckets {
				hidden[id] = true
			}
		} else {
			clear(hidden)
		}
	}
	r := w.verify(func(o *verify.Options) { o.Buckets = passing{h, hidden} })
	if r.Wrong() || r.StoredOnce != 106 {
		t.Errorf("%+v", r)
	}
}

// passing passes documents over.
type passing struct {
	*hooked
	over map[bson.ObjectID]bool
}

func (p passing) Find(ctx context.Context, source timeseries.Source, from, to int64, whole bool, each func(bson.Raw) error) error {
	return p.hooked.Find(ctx, source, from, to, whole, func(d bson.Raw) error {
		if p.over[d.Lookup("_id").ObjectID()] {
			return nil
		}
		return each(d)
	})
}

// TestEndlessSettlingIsAnError: what cannot be told is not reported as missing or doubled.
func TestEndlessSettlingIsAnError(t *testing.T) {
	w := newSparseWorld(t, 30)
	segments := w.segmentIDs()
	var last *settling
	h := &hooked{world: w, before: func(int) {
		for i := range segments {
			if last != nil {
				last.restore(i)
			}
		}
		if last != nil {
			for i := range last.buckets {
				last.withdraw(i)
			}
		}
		last = w.whole(segments...)
	}}
	v, err := verify.New(verify.Options{
		Collection: w.options, Decoder: w.newDecoder(), Log: w, Buckets: h, Letters: &w.letters, Claims: w,
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := v.Partition(t.Context(), verify.Range{Source: w.source, From: 100, To: 130})
	if err == nil || !strings.Contains(err.Error(), "verify again") || r.Missing.Count+r.Doubled.Count > 0 || h.queries > 20 {
		t.Errorf("after %d queries: %v, %+v", h.queries, err, r)
	}
}
