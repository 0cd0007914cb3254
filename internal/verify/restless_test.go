package verify_test

import (
	"bytes"
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/verify"
)

var restlessRuns = flag.Int("restless", 10, "how many random worlds are verified while they are being compacted")

// restless is a world whose segments are compacted during a verification. A query returns documents by their largest offset, each
// in its state at that moment. It misses a document that is inserted before its present place.
type restless struct {
	*world
	random *rand.Rand
	now    int64 // milliseconds since 1970
	left   int   // number of steps that are left
	within int   // number of running queries

	compaction *compaction
	plan       []func()      // the remaining steps
	over       []*compaction // compactions whose segments wait for deletion
	rival      func()        // called once at some step, if not nil
	rolledBack int
}

// step does the next step, or nothing.
func (r *restless) step() {
	if r.left == 0 || r.random.IntN(3) > 0 {
		return
	}
	r.left--
	r.now += 10_000
	if r.within == 0 {
		r.sweep()
	}
	if r.rival != nil && r.random.IntN(20) == 0 {
		rival := r.rival
		r.rival = nil
		rival()
	}
	r.advance()
}

// sweep deletes segments that ended minutes ago.
func (r *restless) sweep() {
	r.over = slices.DeleteFunc(r.over, func(c *compaction) bool {
		if r.now < c.from+300_000 {
			return false
		}
		for i := range c.segments {
			c.sweep(i)
		}
		return true
	})
}

func (r *restless) advance() {
	switch open := r.segmentIDs(); {
	case r.compaction != nil && r.compaction.ended == 0 && r.random.IntN(40) == 0:
		r.rollBack()
	case r.compaction != nil:
		r.proceed()
	case len(open) > 0:
		r.random.Shuffle(len(open), func(i, k int) { open[i], open[k] = open[k], open[i] })
		r.planCompaction(open[:1+r.random.IntN(len(open))])
	}
}

func (r *restless) proceed() {
	next := r.plan[0]
	r.plan = r.plan[1:]
	next()
}

// planCompaction begins a compaction, and plans its steps.
func (r *restless) planCompaction(segments []bson.ObjectID) {
	c := r.begin(segments...)
	r.compaction, r.plan = c, nil
	for i := range c.segments {
		r.plan = append(r.plan, func() { c.freeze(i) })
	}
	r.plan = append(r.plan, func() {
		c.read(r.now + 60_000)
		for i := range c.buckets {
			r.plan = append(r.plan, func() { c.insert(i) })
		}
		for i := range c.segments {
			r.plan = append(r.plan, func() { c.end(i) })
		}
		r.plan = append(r.plan, func() {
			r.over = append(r.over, c)
			r.compaction = nil
		})
	})
}

// rollBack plans a roll-back of the compaction.
func (r *restless) rollBack() {
	c := r.compaction
	r.rolledBack++
	r.plan = nil
	for i := range c.buckets {
		r.plan = append(r.plan, func() { c.withdraw(i) })
	}
	for i := range c.segments {
		r.plan = append(r.plan, func() { c.unfreeze(i) })
	}
	r.plan = append(r.plan, func() { r.compaction = nil })
}

// rest completes everything that was begun.
func (r *restless) rest() {
	for r.compaction != nil {
		r.proceed()
	}
	r.left = 0
}

// Unfinished implements verify.Buckets.
func (r *restless) Unfinished(ctx context.Context) (map[claim.Token]bool, error) {
	r.step()
	defer r.step()
	return r.world.Unfinished(ctx)
}

// Find implements verify.Buckets.
func (r *restless) Find(_ context.Context, _ timeseries.Source, from, to int64, whole bool, each func(bson.Raw) error) error {
	r.within++
	defer func() { r.within-- }()
	at := key{last: -1}
	for {
		r.step()
		next, found := r.next(at)
		if !found {
			return nil
		}
		at = next
		d := r.docs[next.id]
		first, _ := d.Lookup("control", "source", "first").AsInt64OK()
		if next.last < from || first >= to {
			continue
		}
		if !whole {
			d = r.short(d)
		}
		if err := each(slices.Clone(d)); err != nil {
			return err
		}
	}
}

// key is the position of a document in the index.
type key struct {
	last int64
	id   bson.ObjectID
}

func (k key) before(other key) bool {
	return k.last < other.last || k.last == other.last && bytes.Compare(k.id[:], other.id[:]) < 0
}

func (r *restless) next(at key) (next key, found bool) {
	for id, d := range r.docs {
		last, _ := d.Lookup("control", "source", "last").AsInt64OK()
		if k := (key{last, id}); at.before(k) && (!found || k.before(next)) {
			next, found = k, true
		}
	}
	return next, found
}

// Update implements verify.Buckets.
func (r *restless) Update(ctx context.Context, filter, update bson.Raw) (bool, error) {
	r.step()
	return r.world.Update(ctx, filter, update)
}

// Delete implements verify.Buckets.
func (r *restless) Delete(ctx context.Context, filter bson.Raw) (bool, error) {
	r.step()
	return r.world.Delete(ctx, filter)
}

// options sets the options of a verification that the compactions disturb.
func (r *restless) options(o *verify.Options) {
	skew := r.random.Int64N(1_200_000) - 600_000 // difference of the clocks
	o.Buckets, o.Examples = r, 1000
	o.Now = func() int64 { return r.now + skew }
	o.Window = []int64{1 << 20, 50, 7}[r.random.IntN(3)]
}

// newRestless returns a world with copies of some measurements in buckets and segments, and without some others.
func newRestless(t *testing.T, seed uint64) (r *restless, doubled, missing []timeseries.Position) {
	r = &restless{world: newWorld(t), random: rand.New(rand.NewPCG(seed, 1)), now: noon + 3_600_000, left: 400}
	for range 3 {
		r.dense = []int32{0, 64}[r.random.IntN(2)]
		r.catalog = r.newCatalog()
		r.fill(5 + r.random.IntN(40))
	}
	r.dense = 64
	r.catalog = r.newCatalog()
	r.fill(30)
	copied := map[int64]bool{}
	for range 1 + r.random.IntN(4) {
		r.dense = []int32{0, 64, 64}[r.random.IntN(3)]
		r.catalog = r.newCatalog()
		at := r.random.IntN(len(r.records))
		for _, record := range r.records[at:min(len(r.records), at+1+r.random.IntN(6))] {
			r.insert(record)
			copied[record.Offset] = true
		}
		r.flushBeside()
	}
	for _, record := range r.records {
		results, err := r.decoder.Decode(record)
		for i := 0; err == nil && i < len(results) && copied[record.Offset]; i++ {
			if results[i].Err == nil {
				doubled = append(doubled, results[i].Measurement.Position)
			}
		}
	}
	for i := range r.random.IntN(4) {
		missing = append(missing, timeseries.Position{Offset: r.append(r.event(i)).Offset})
	}
	return r, doubled, missing
}

// flushBeside stores the content of the catalog in addition to documents that begin with the same measurement.
func (w *world) flushBeside() {
	w.t.Helper()
	f := w.catalog.Prepare(0)
	if f == nil {
		return
	}
	for _, write := range f.Writes {
		id := write.ID
		for w.docs[id] != nil {
			id[11]++
		}
		w.docs[id] = w.renamed(write.Document, id)
	}
}

// TestNothingIsMistakenBesideCompactions checks that missing and doubled measurements are found, and no others, for any
// concurrent compactions. A compaction of both copies leaves one.
func TestNothingIsMistakenBesideCompactions(t *testing.T) {
	rolledBack, healed := 0, 0
	for seed := range uint64(*restlessRuns) {
		r, doubled, missing := newRestless(t, seed)
		report := r.verify(r.options, func(o *verify.Options) { o.Content = seed%2 == 0 })
		found := report.Doubled.First
		for p, n := range r.counted() {
			if n > 1 && !slices.Contains(found, p) {
				t.Errorf("seed %d: %v is doubled, which was not found", seed, p)
			}
		}
		for _, p := range found {
			if !slices.Contains(doubled, p) {
				t.Errorf("seed %d: %v was found doubled, and never was", seed, p)
			}
		}
		if !slices.Equal(report.Missing.First, missing) || report.Unknown.Count+report.Damaged.Count+report.Different.Count > 0 {
			t.Errorf("seed %d: missing %v, want %v; %+v", seed, report.Missing.First, missing, report.Findings)
		}
		if t.Failed() {
			return
		}
		rolledBack, healed = rolledBack+r.rolledBack, healed+len(doubled)-len(found)
	}
	if t.Logf("%d compactions were rolled back, %d doubles made one", rolledBack, healed); rolledBack == 0 {
		t.Error("no compaction was rolled back")
	}
}

// TestRepairsBesideCompactionsLoseNothing also runs a second repair during the first. At rest, one more repair is enough.
func TestRepairsBesideCompactionsLoseNothing(t *testing.T) {
	repaired, left := int64(0), int64(0)
	for seed := range uint64(*restlessRuns) {
		r, doubled, missing := newRestless(t, seed)
		nested := false
		r.rival = func() {
			if nested = seed%3 == 0; nested {
				r.verify(r.options, repair)
			}
		}
		report := r.verify(r.options, repair)
		repaired, left = repaired+report.Repair.Repaired, left+report.Repair.Left.Count
		r.rest()
		for p, n := range r.counted() {
			if n == 0 || n > 1 && !slices.Contains(doubled, p) {
				t.Fatalf("seed %d: %v is stored %d times after a repair", seed, p, n)
			}
		}
		report = r.verify(repair, content)
		if report.Repair.Repaired != report.Doubled.Count || report.Repair.Left.Count > 0 {
			t.Fatalf("seed %d: at rest: %+v", seed, report)
		}
		report = r.verify(content)
		if report.Missing.Count != int64(len(missing)) || report.Doubled.Count+report.Damaged.Count+report.Different.Count+report.Unknown.Count > 0 {
			t.Fatalf("seed %d: at rest, repaired: %+v", seed, report)
		}
	}
	if t.Logf("%d repaired, %d left", repaired, left); repaired == 0 || left == 0 {
		t.Error("nothing was repaired beside compactions, or nothing was left for them")
	}
}

// positions returns the positions that a document lists.
func (w *world) positions(id bson.ObjectID) (positions []timeseries.Position) {
	w.t.Helper()
	elements, err := w.docs[id].Lookup("control", "source", "offsets").Array().Values()
	for i := 0; err == nil && i < len(elements); i++ {
		_, encoded := elements[i].Binary()
		positions, err = timeseries.DecodePositions(positions, encoded)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return positions
}
