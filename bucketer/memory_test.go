package bucketer

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

var memorySeries = flag.Int("series", 50_000, "open buckets of TestMemory")

// reachable returns the number of reachable bytes.
func reachable() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestMemory measures an idle open bucket of five numeric fields and an archived one on the heap. It compares them with the
// catalog's own accounting and with the promised bounds.
func TestMemory(t *testing.T) {
	o := testOptions(t)
	o.Reopen = true
	n := newNumeric(*memorySeries)
	before := reachable()
	c := New(o)
	for range *memorySeries {
		n.insert(t, c, 1)
		if c.lookups.series == 1000 {
			loadNothing(c)
			flushAll(c)
		}
	}
	loadNothing(c)
	flushAll(c)
	c.buffers.trim()
	c.bounds.trim()
	checkMemory(t, c, reachable()-before, "open bucket", 700)
	for c.idle.oldest != nil {
		c.expireBucket(c.idle.oldest)
	}
	c.bounds.trim()
	c.shrink()
	if c.archive.live != *memorySeries {
		t.Errorf("%d buckets are archived, want %d", c.archive.live, *memorySeries)
	}
	checkMemory(t, c, reachable()-before, "archived bucket", 150)
	runtime.KeepAlive(n)
}

// loadNothing answers all look-ups with no bucket.
func loadNothing(c *Catalog) {
	for lookups := c.Lookups(1000); len(lookups) > 0; lookups = c.Lookups(1000) {
		for _, l := range lookups {
			c.Load([]Answer{{Lookup: l}})
		}
	}
}

func checkMemory(t *testing.T, c *Catalog, used int64, what string, limit int64) {
	t.Helper()
	each := used / int64(*memorySeries)
	t.Logf("%d times: an %s takes %d bytes of the heap, %d are accounted for", *memorySeries, what, each,
		c.Bytes()/int64(*memorySeries))
	if each > limit {
		t.Errorf("an %s takes %d bytes, want at most %d", what, each, limit)
	}
	if ratio := float64(c.Bytes()) / float64(used); ratio < 0.9 || ratio > 1.1 {
		t.Errorf("%d bytes are accounted for of %d", c.Bytes(), used)
	}
}

func TestExpireTakesTheLeastRecentlyUsed(t *testing.T) {
	o := testOptions(t)
	o.Reopen = true
	c := New(o)
	const series = 100
	for i := range byte(series) {
		mustInsert(t, c, simple(int64(i), i, number(1)))
	}
	loadNothing(c)
	finishAll(t, c, 0, Outcome{})
	mustInsert(t, c, simple(series, 0, number(1))) // series 0 is used again, and has a waiting measurement
	c.buffers.trim()
	target := c.Bytes() - 8000
	c.Expire(target)
	if c.Bytes() > target {
		t.Errorf("%d bytes are left, want at most %d", c.Bytes(), target)
	}
	var left []byte
	for s := range c.series.all() {
		if s.open != nil {
			left = append(left, s.key[1])
		}
	}
	slices.Sort(left)
	archived := c.archive.live
	want := []byte{0}
	for i := archived + 1; i < series; i++ {
		want = append(want, byte(i))
	}
	if archived < 10 || archived > 95 || !slices.Equal(left, want) {
		t.Errorf("%d are archived, open are %v, want %v", archived, left, want)
	}
	c.Expire(0)
	if got := c.Stats(); got.BucketsArchivedDueToMemoryThreshold != series-1 || got.BucketsClosedDueToMemoryThreshold != series-1 {
		t.Errorf("of %d buckets %d were archived and %d of these dropped, by the statistics", series-1,
			got.BucketsArchivedDueToMemoryThreshold, got.BucketsClosedDueToMemoryThreshold)
	}
	if stats := c.Stats(); stats.OpenBuckets != 1 || stats.ArchivedBuckets != 0 {
		t.Errorf("after Expire(0) there are %d buckets, %d archived; want the one that waits",
			stats.OpenBuckets, stats.ArchivedBuckets)
	}
}

func TestArchiveFindsTheLargestMinimumTime(t *testing.T) {
	a := newArchiveIndex(0)
	id := func(n int64) bson.ObjectID { return bson.ObjectID{byte(n >> 8), byte(n)} }
	for _, minTime := range []int64{50, 10, 30, 20, 40} {
		if !a.add("s", id(minTime), minTime) {
			t.Fatalf("%d is not taken", minTime)
		}
	}
	if a.add("s", id(99), 30) {
		t.Error("a second bucket of the same minimum time is taken")
	}
	a.add("other", id(200), 35)
	find := func(time int64, want int64) {
		t.Helper()
		if got, _, ok := a.find("s", time, 15); ok != (want > 0) || ok && got != id(want) {
			t.Errorf("at %d: found %v (%v), want %d", time, got, ok, want)
		}
	}
	find(9, 0)
	find(10, 10)
	find(39, 30)
	find(64, 50)
	find(65, 0)
	a.remove(id(30))
	a.remove(id(30))
	find(34, 20)
	find(35, 0)
	for n := range int64(1000) {
		a.add("many", id(1000+n), n)
	}
	for n := range int64(900) {
		a.remove(id(1000 + n))
	}
	find(34, 20)
	if got, _, ok := a.find("many", 950, 1); !ok || got != id(1950) {
		t.Errorf("after removals 950 is %v (%v)", got, ok)
	}
	a.dropOldest(&unseen{})
	find(64, 0)
	if got, _, ok := a.find("many", 999, 1); !ok || got != id(1999) {
		t.Errorf("the newest is dropped first: %v (%v)", got, ok)
	}
}

func TestClearPutsBackInOrder(t *testing.T) {
	c := New(testOptions(t))
	mustInsert(t, c, simple(0, 1, number(1)), simple(1, 2, number(1)))
	f := c.Prepare(0)
	mustInsert(t, c, simple(2, 2, number(2)), simple(3, 1, number(2)), simple(4, 2, number(3)))
	c.Clear(func(meta bson.RawValue) bool { return meta.Value[0] == 2 })
	c.Finish(f, make([]Outcome, 2), 0)
	writes := finishAll(t, c, 0, Outcome{})
	if len(writes) != 2 {
		t.Fatalf("%d writes, want 2", len(writes))
	}
	for _, w := range writes {
		wantKind, want := Update, []int64{3}
		if w.Meta.Value[0] == 2 {
			wantKind, want = Insert, []int64{2, 4}
		}
		var got []int64
		for _, p := range decodePositions(t, w.Offsets) {
			got = append(got, p.Offset)
		}
		if w.Kind != wantKind || !slices.Equal(got, want) {
			t.Errorf("series %d: a write of kind %d with %v, want %d with %v", w.Meta.Value[0], w.Kind, got, wantKind, want)
		}
	}
}

// TestExpireFreesShapes checks that shapes are freed with their buckets, before archived buckets are dropped.
func TestExpireFreesShapes(t *testing.T) {
	o := testOptions(t)
	o.Reopen = true
	c := New(o)
	const series = 100
	for i := range byte(series) {
		mustInsert(t, c, simple(int64(i), i, wide(int(i), 20)...))
	}
	loadNothing(c)
	finishAll(t, c, 0, Outcome{})
	c.buffers.trim()
	full := c.Bytes()
	if c.shapes.total < full/2 {
		t.Fatalf("shapes take %d of %d bytes: this proves nothing", c.shapes.total, full)
	}
	c.Expire(full / 2)
	stats := c.Stats()
	if c.Bytes() > full/2 || stats.OpenBuckets < series/4 || stats.OpenBuckets+stats.ArchivedBuckets != series {
		t.Errorf("of %d bytes %d are left, with %d open buckets and %d archived ones", full, c.Bytes(), stats.OpenBuckets,
			stats.ArchivedBuckets)
	}
	for c.idle.oldest != nil {
		c.expireBucket(c.idle.oldest)
	}
	c.bounds.trim()
	c.Expire(c.Bytes() - 1)
	if stats := c.Stats(); c.shapes.total != 0 || c.shapes.unused != 0 || stats.ArchivedBuckets != series {
		t.Errorf("without buckets shapes take %d bytes, %d buckets are archived", c.shapes.total, stats.ArchivedBuckets)
	}
}

// wide returns n fields that no other number has.
func wide(number, n int) []bson.E {
	var fields []bson.E
	for i := range n {
		fields = append(fields, bson.E{Key: fmt.Sprint("field", number, "of", i), Value: true})
	}
	return fields
}

// TestReopenedShapesAreSwept reopens buckets with ever new fields, and then expires them.
func TestReopenedShapesAreSwept(t *testing.T) {
	o := testOptions(t)
	o.Reopen = true
	c := New(o)
	peak := int64(0)
	for i := range 2000 {
		elsewhere := New(testOptions(t))
		mustInsert(t, elsewhere, simple(0, 1, wide(i, 20)...))
		document := finishAll(t, elsewhere, 0, Outcome{})[0].Document
		mustInsert(t, c, simple(int64(i+1), 1, wide(i, 1)...))
		c.Load([]Answer{{Lookup: c.Lookups(1)[0], Candidates: []Candidate{{Document: document}}}})
		if w := finishAll(t, c, 0, Outcome{})[0]; w.Kind != Update {
			t.Fatal("the bucket is not reopened")
		}
		peak = max(peak, c.shapes.total)
		c.expireBucket(c.idle.oldest)
		c.archive = newArchiveIndex(0)
	}
	if limit := int64(2 << 20); peak > limit {
		t.Errorf("shapes take up to %d bytes, want at most %d", peak, limit)
	}
}
