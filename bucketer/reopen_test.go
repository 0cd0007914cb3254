package bucketer

import (
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// storedBucket writes two readings of a series and returns the bucket.
func storedBucket(t *testing.T) bson.D {
	t.Helper()
	c := New(testOptions(t))
	mustInsert(t, c, simple(0, 1, number(1), bson.E{Key: "o", Value: bson.D{{Key: "x", Value: "s"}}}),
		simple(1, 1, number(2)))
	return decode(t, finishAll(t, c, 0, Outcome{})[0].Document)
}

// parkedCatalog returns a catalog that waits for the look-up of a third reading of the series.
func parkedCatalog(t *testing.T) (*Catalog, Lookup) {
	t.Helper()
	o := testOptions(t)
	o.Reopen = true
	c := New(o)
	mustInsert(t, c, simple(2, 1, number(3)))
	lookups := c.Lookups(10)
	if len(lookups) != 1 || c.Prepare(0) != nil {
		t.Fatalf("look-ups %v, want one, and nothing to write before its answer", lookups)
	}
	return c, lookups[0]
}

func TestWhatIsNotReopened(t *testing.T) {
	with := func(path string, v any) func(bson.D) bson.D {
		return func(d bson.D) bson.D { return set(t, d, path, v) }
	}
	without := func(name string) func(bson.D) bson.D {
		return func(d bson.D) bson.D {
			return slices.DeleteFunc(slices.Clone(d), func(e bson.E) bool { return e.Key == name })
		}
	}
	for _, one := range []struct {
		name   string
		change func(bson.D) bson.D
		failed bool // found, but not usable
	}{
		{"closed", with("control.closed", true), false},
		{"full", with("control.count", int32(1000)), false},
		{"compressed", with("control.version", int32(2)), false},
		{"of another partition", with("control.source.partition", int32(1)), false},
		{"of another topic of the same name", with("control.source.topicId", bson.Binary{Subtype: 4, Data: make([]byte, 15, 16)}), false},
		{"too large", with("control.size", int32(1<<20)), false},
		{"of a later window", with("control.min.time", bson.DateTime(1_700_000_100_000)), false},
		{"of an earlier window", with("control.min.time", bson.DateTime(1_600_000_000_000)), false},
		{"_id of another type", with("_id", "x"), false},
		{"no control", without("control"), false},
		{"of an equal meta of another type", with("meta", int64(1)), true},
		{"of no meta", without("meta"), true},
		{"fewer positions than its count", with("control.count", int32(3)), true},
		{"positions that cannot be decoded", with("control.source.offsets", bson.A{bson.Binary{Data: []byte{0x80}}}), true},
		{"bounds of different types", with("control.max.n", "two"), true},
		{"bounds of different depth", with("control.max.o", int32(2)), true},
		{"a field without its maximum", with("control.min.more", int32(2)), true},
		{"a name no path can address", with("control.min.$x", int32(2)), true},
	} {
		c, l := parkedCatalog(t)
		changed := one.change(storedBucket(t))
		c.Load([]Answer{{Lookup: l, Candidates: []Candidate{{Document: encode(t, changed)}}}})
		writes := finishAll(t, c, 0, Outcome{})
		if len(writes) != 1 || writes[0].Kind != Insert {
			t.Errorf("%s: it is reopened", one.name)
		}
		stats := c.Stats()
		if failed := stats.BucketReopeningsFailed == 1; failed != one.failed || stats.BucketQueriesFailed == 1 == one.failed {
			t.Errorf("%s: counted as %+v", one.name, stats)
		}
	}
}

func TestReopenedBucketGoesOn(t *testing.T) {
	c, l := parkedCatalog(t)
	older := set(t, storedBucket(t), "control.min.time", bson.DateTime(1_699_999_000_000))
	older = set(t, older, "_id", bson.ObjectID{1})
	best := storedBucket(t)
	c.Load([]Answer{{Lookup: l, Candidates: []Candidate{{Document: encode(t, older)}, {Document: encode(t, best), Size: 900}}}})
	w := finishAll(t, c, 0, Outcome{})[0]
	if w.Kind != Update || w.ID != at(best, "_id") || w.Count != 3 {
		t.Fatalf("the write is %+v, want an update of the bucket with the larger minimum time", w)
	}
	d := decode(t, w.Document)
	for path, want := range map[string]any{"data.n.2": int32(3), "control.max.n": int32(3), "control.size": int32(900 + 10 + 6 + 2)} {
		if got := valueAtPath(d, path); got != want {
			t.Errorf("%s is set to %v, want %v", path, got, want)
		}
	}
}

// valueAtPath returns the value that an update sets at a dotted path.
func valueAtPath(operators bson.D, path string) any {
	for _, e := range operators[0].Value.(bson.D) {
		if e.Key == path {
			return e.Value
		}
	}
	return nil
}

func TestKnownBucketIsNotReopenedByAnotherSeries(t *testing.T) {
	o := testOptions(t)
	o.Reopen = true
	c := New(o)
	mustInsert(t, c, simple(0, 1, number(1)))
	loadNothing(c)
	first := decode(t, finishAll(t, c, 0, Outcome{})[0].Document)
	edited := set(t, first, "meta", int32(2))
	mustInsert(t, c, simple(1, 2, number(1)))
	c.Load([]Answer{{Lookup: c.Lookups(1)[0], Candidates: []Candidate{{Document: encode(t, edited)}}}})
	if w := finishAll(t, c, 0, Outcome{})[0]; w.Kind != Insert {
		t.Errorf("the bucket of series 1 is reopened by series 2")
	}
	if got := c.Stats().DuplicateBucketsReopened; got != 1 {
		t.Errorf("it is counted %d times, want 1", got)
	}
}

func TestConflictedBucketIsNotReopened(t *testing.T) {
	c, l := parkedCatalog(t)
	found := []Candidate{{Document: encode(t, storedBucket(t))}}
	c.Load([]Answer{{Lookup: l, Candidates: found}})
	update := finishAll(t, c, 0, Outcome{Result: Conflicted})[0]
	again := c.Lookups(1)
	if update.Kind != Update || len(again) != 1 {
		t.Fatalf("after a conflict of %+v the catalog asks %+v, want an update and one look-up", update, again)
	}
	c.Load([]Answer{{Lookup: again[0], Candidates: found}})
	if w := finishAll(t, c, 0, Outcome{})[0]; w.Kind != Insert {
		t.Errorf("the measurement goes into the bucket of the conflict: %s", w.Document)
	}
}

func TestAnswersNobodyWaitsForAreIgnored(t *testing.T) {
	c, l := parkedCatalog(t)
	other := l
	other.Time++
	unknown := l
	unknown.Series = "x"
	c.Load([]Answer{{Lookup: other}, {Lookup: unknown}})
	if c.Stats().AwaitingSeries != 1 {
		t.Error("an answer to another question was taken")
	}
	c.Load([]Answer{{Lookup: l}, {Lookup: l}})
	if stats := c.Stats(); stats.AwaitingSeries != 0 || stats.BucketQueriesFailed != 1 {
		t.Errorf("after the answer: %+v", stats)
	}
}

func TestClearAsksAgain(t *testing.T) {
	c, l := parkedCatalog(t)
	stale := storedBucket(t)
	c.Clear(nil)
	c.Load([]Answer{{Lookup: l, Candidates: []Candidate{{Document: encode(t, stale)}}}})
	if again := c.Lookups(1); len(again) != 1 {
		t.Fatal("an answer from before the clear was taken")
	}
}

// TestLookupsTellWhenABucketIsFull checks that the query excludes buckets that would be refused for their size, so that they take
// no place among the few candidates.
func TestLookupsTellWhenABucketIsFull(t *testing.T) {
	o := testOptions(t)
	o.Reopen = true
	for cache, want := range map[int64]int32{0: o.Limits.MaxBytes, 2 * 10_000: 10_000} {
		o.Limits.CacheBytes = cache
		c := New(o)
		mustInsert(t, c, simple(0, 1, number(1)))
		loadNothing(c)
		mustInsert(t, c, simple(1, 2, number(1)))
		if l := c.Lookups(1)[0]; l.Size != want {
			t.Errorf("with a cache of %d a bucket of %d bytes is full, want %d", cache, l.Size, want)
		}
	}
}
