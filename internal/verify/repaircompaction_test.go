package verify_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/verify"
)

// doubledWorld returns a world with 100 measurements. The last three are in two segments each, or (dense) in a segment and a
// bucket.
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

// lists returns the documents that list a position.
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
	return w.docs[id].Lookup("control", "segment", "owner").Type != 0
}

// afterCounting returns an option that calls do once, after the copies were counted and before any is removed.
func afterCounting(do func()) func(*verify.Options) {
	return func(o *verify.Options) {
		o.Progress = func(at verify.Progress) {
			if at.Operation == "removing doubled measurements" && do != nil {
				once := do
				do = nil
				once()
			}
		}
	}
}

func TestRepairTakesCopiesOutOfSegments(t *testing.T) {
	for _, dense := range []bool{false, true} {
		w := doubledWorld(t, dense)
		before := maps.Clone(w.docs)
		r := w.verify(repair)
		if r.Wrong() || r.Repair.Repaired != 3 {
			t.Fatalf("dense %v: %+v", dense, r.Repair)
		}
		for _, b := range r.Repair.First {
			id, _ := bson.ObjectIDFromHex(b.Bucket)
			if before[id].Lookup("control", "segment").Type == 0 {
				t.Errorf("dense %v: the bucket %v was changed", dense, id)
			}
			if b.Kept == 0 && w.docs[id] != nil {
				t.Errorf("dense %v: an empty segment stays", dense)
			}
		}
		if r := w.verify(content, repair); r.Wrong() || r.Doubled.Count != 0 || r.StoredOnce != 107 {
			t.Errorf("dense %v, afterwards: %+v", dense, r)
		}
		w.whole(w.segmentIDs()...)
		if r := w.verify(content); r.Wrong() || r.StoredOnce != 107 {
			t.Errorf("dense %v, compacted: %+v", dense, r)
		}
	}
}

// TestRepairLeavesFrozenSegments covers segments frozen before they are read, and between the read and the write. After the
// compaction the next repair removes the remaining copies from its buckets.
func TestRepairLeavesFrozenSegments(t *testing.T) {
	for name, meet := range map[string]func(w *world) *compaction{
		"before": func(w *world) *compaction { return w.inserted(noon, w.segmentIDs()...) },
		"between reading and writing": func(w *world) (c *compaction) {
			c = &compaction{}
			w.beaten = func() bool {
				if c.w == nil {
					*c = *w.inserted(noon, w.segmentIDs()...)
				}
				return false
			}
			return c
		},
	} {
		w := doubledWorld(t, true)
		c := meet(w)
		r := w.verify(repair)
		if !r.Wrong() || r.Repair.Copies != 0 || r.Repair.Left.Count == 0 || !strings.Contains(r.Repair.Left.First[0].Text, "is being compacted") {
			t.Errorf("%s: %+v", name, r.Repair)
		}
		w.beaten = nil
		for i := range c.segments {
			w.compactions[len(w.compactions)-1].end(i)
		}
		if r := w.verify(repair); r.Wrong() || r.Repair.Repaired != 3 {
			t.Errorf("%s: when it was over: %+v", name, r.Repair)
		}
		if r := w.verify(content); r.Wrong() || r.StoredOnce != 107 {
			t.Errorf("%s: afterwards: %+v", name, r)
		}
	}
}

// TestACompactionOfBothCopiesMakesThemOne checks that the concurrent repair has nothing to do.
func TestACompactionOfBothCopiesMakesThemOne(t *testing.T) {
	w := doubledWorld(t, false)
	h := &hooked{world: w, before: func(query int) {
		if query == 2 { // the copies are counted
			w.whole(w.segmentIDs()...)
		}
	}}
	if r := w.verify(repair, func(o *verify.Options) { o.Buckets = h }); r.Wrong() || r.Doubled.Count != 0 || r.Repair.Copies != 0 {
		t.Errorf("%+v", r)
	}
	if r := w.verify(content); r.Wrong() || r.StoredOnce != 107 {
		t.Errorf("afterwards: %+v", r)
	}
}

// TestRepairFollowsTheCopyThatStays has a segment that is compacted after the copies were counted, and before its copy was found
// again. The repair counts again, and keeps the copy in the new bucket.
func TestRepairFollowsTheCopyThatStays(t *testing.T) {
	w := doubledWorld(t, false)
	keep := w.lists(w.verify().Doubled.First[0])[0]
	h := &hooked{world: w, before: func(query int) {
		if query == 3 { // the copies were counted
			w.whole(keep)
		}
	}}
	r := w.verify(repair, func(o *verify.Options) { o.Buckets = h })
	if r.Wrong() || r.Repair.Repaired != 3 || h.queries < 5 {
		t.Errorf("after %d queries: %+v", h.queries, r)
	}
	for p, n := range w.counted() {
		if n != 1 {
			t.Errorf("%v is stored %d times: %+v", p, n, r.Repair)
		}
	}
}

// TestRepairLosesNothingWhenTheCopyThatStaysMoves has a segment that is compacted after it was found. The repair removes the
// other copy.
func TestRepairLosesNothingWhenTheCopyThatStaysMoves(t *testing.T) {
	w := doubledWorld(t, false)
	keep := w.lists(w.verify().Doubled.First[0])[0]
	r := w.verify(repair, func(o *verify.Options) { o.Examples = 100 }, afterCounting(func() { w.whole(keep) }))
	for p, n := range w.counted() {
		if n != 1 {
			t.Fatalf("%v is stored %d times: %+v", p, n, r.Repair)
		}
	}
	if r.Repair.Left.Count == 0 || !strings.Contains(r.Repair.Left.First[0].Text, "written during the repair") {
		t.Errorf("%+v", r.Repair)
	}
	if r := w.verify(repair, content); r.Wrong() || r.StoredOnce != 107 {
		t.Errorf("afterwards: %+v", r)
	}
}

// TestRepairLeavesBucketsOfAnUnfinishedCompaction has a compaction that began after the copies were counted, and may be rolled
// back.
func TestRepairLeavesBucketsOfAnUnfinishedCompaction(t *testing.T) {
	w := doubledWorld(t, true)
	var c *compaction
	r := w.verify(repair, func(o *verify.Options) { o.Examples = 100 }, afterCounting(func() { c = w.inserted(noon, w.segmentIDs()...) }))
	for _, id := range c.buckets {
		if string(w.docs[id]) != string(c.made[id]) {
			t.Errorf("the bucket %v was changed", id)
		}
	}
	if r.Repair.Left.Count != 3 || r.Repair.Copies != 0 || !strings.Contains(r.Repair.Left.First[0].Text, "is being compacted") {
		t.Errorf("%+v", r.Repair)
	}
}

// TestRepairKeepsNoBucketThatMayBeRolledBack checks that a segment's copy stays as long as a roll-back may delete its bucket.
func TestRepairKeepsNoBucketThatMayBeRolledBack(t *testing.T) {
	w := doubledWorld(t, false)
	keep := w.lists(w.verify().Doubled.First[0])[0]
	c := w.inserted(noon, keep)
	w.verify(repair)
	for i := range c.buckets {
		c.withdraw(i)
	}
	for i := range c.segments {
		c.unfreeze(i)
	}
	for p, n := range w.counted() {
		if n != 1 {
			t.Errorf("%v is stored %d times", p, n)
		}
	}
}

// TestALateBucketIsADouble has a bucket of a rolled-back compaction that arrives too late, against all assumptions. Nothing
// deletes it later, so it is a copy like any other.
func TestALateBucketIsADouble(t *testing.T) {
	w := newSparseWorld(t, 100)
	c := w.frozen(noon, w.segmentIDs()...)
	for i := range c.segments {
		c.unfreeze(i)
	}
	c.insert(0)
	r := w.verify(repair)
	if r.Wrong() || r.Doubled.Count == 0 || w.docs[c.buckets[0]] == nil {
		t.Errorf("%+v", r)
	}
	if r := w.verify(repair); r.Wrong() || r.StoredOnce != 106 || r.Doubled.Count > 0 {
		t.Errorf("afterwards: %+v", r)
	}
}

// TestTwoRepairsBesideACompactionKeepOneCopy has a second repair that runs completely during the first, after a segment with a
// copy was compacted. Both must keep the copy of the bucket that existed all the time, for any order of the ids.
func TestTwoRepairsBesideACompactionKeepOneCopy(t *testing.T) {
	w := doubledWorld(t, true)
	var segments []bson.ObjectID
	for _, p := range w.verify().Doubled.First {
		for _, id := range w.lists(p) {
			if !w.isSegment(id) {
				larger := id // larger than the segments' ids, and smaller than those of the buckets made of them
				larger[0] = 0xfe
				w.docs[larger] = w.renamed(w.docs[id], larger)
				delete(w.docs, id)
			} else if !slices.Contains(segments, id) {
				segments = append(segments, id)
			}
		}
	}
	r := w.verify(repair, afterCounting(func() {
		c := w.frozen(noon, segments...)
		for i, id := range c.buckets {
			last := id
			last[0] = 0xff
			c.made[last] = w.renamed(c.made[id], last)
			c.buckets[i] = last
			c.insert(i)
		}
		for i := range c.segments {
			c.end(i)
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

// hooked is the buckets of a world, with a function that is called before each query.
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

// TestADoubleIsFoundThoughItsSegmentIsDeletedMeanwhile deletes the segments of an ended compaction during a read.
func TestADoubleIsFoundThoughItsSegmentIsDeletedMeanwhile(t *testing.T) {
	for _, query := range []int{1, 2} {
		w := doubledWorld(t, true)
		c := w.whole(w.segmentIDs()...)
		h := &hooked{world: w, before: func(n int) {
			for i := range c.segments {
				if n == query {
					c.sweep(i)
				}
			}
		}}
		if r := w.verify(func(o *verify.Options) { o.Buckets = h }); r.Doubled.Count != 3 || r.Missing.Count != 0 {
			t.Errorf("in query %d: %+v", query, r)
		}
	}
}

// TestACompactionFromBeginningToEndInOneReading also deletes its segments before the read reaches them.
func TestACompactionFromBeginningToEndInOneReading(t *testing.T) {
	w := newSparseWorld(t, 100)
	hidden := map[bson.ObjectID]bool{}
	h := &hooked{world: w}
	h.before = func(query int) {
		if query == 1 {
			c := w.whole(w.segmentIDs()...)
			for i := range c.segments {
				c.sweep(i)
			}
			for _, id := range c.buckets {
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

// passing skips documents.
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

// TestEndlessCompactionIsAnError checks that uncertain measurements are not reported as missing or doubled.
func TestEndlessCompactionIsAnError(t *testing.T) {
	w := newSparseWorld(t, 30)
	segments := w.segmentIDs()
	var last *compaction
	h := &hooked{world: w, before: func(int) {
		if last != nil {
			for i := range last.buckets {
				last.withdraw(i)
			}
			for i := range segments {
				last.unfreeze(i)
			}
		}
		last = w.inserted(noon+2_000_000, segments...)
	}}
	v, err := verify.New(verify.Options{
		Collection: w.options, Decoder: w.newDecoder(), Log: w, Buckets: h, DeadLetters: &w.deadLetters, Claims: w,
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := v.Partition(t.Context(), verify.Range{Source: w.source, From: 100, To: 130})
	if err == nil || !strings.Contains(err.Error(), "verify again") || r.Missing.Count+r.Doubled.Count > 0 || h.queries > 20 {
		t.Errorf("after %d queries: %v, %+v", h.queries, err, r)
	}
}
