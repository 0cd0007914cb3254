package bucketer

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// turns are values of different kinds that one field of a series has in turns.
var turns = map[string][]any{
	"null and number":      {nil, 1.5},
	"text and number":      {"none", int32(7)},
	"null and object":      {nil, bson.D{{Key: "x", Value: 1.5}}},
	"arrays of two kinds":  {bson.A{int32(1)}, bson.A{"x"}},
	"objects of two kinds": {bson.D{{Key: "x", Value: 1.5}}, bson.D{{Key: "x", Value: "off"}}},
	"one null in 100":      append(make([]any, 1), repeated(2.5, 99)...),
	"four kinds":           {nil, 1.5, "none", true},
}

// repeated returns n times a value.
func repeated(v any, n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = v
	}
	return all
}

// kindsOf returns the number of different schemas among the values.
func kindsOf(t *testing.T, values []any) int {
	var known []reading
	for i, v := range values {
		one := simple(int64(i), 1, bson.E{Key: "v", Value: v})
		isKnown := false
		for _, k := range known {
			isKnown = isKnown || haveOneSchema([]reading{k, one})
		}
		if !isKnown {
			known = append(known, one)
		}
	}
	if len(known) < 2 {
		t.Fatal("the values are of one kind")
	}
	return len(known)
}

// inTurns returns 1000 readings of one series, a second apart, whose field v has the values in turns.
func inTurns(values []any) []reading {
	all := make([]reading, 1000)
	for i := range all {
		all[i] = simple(int64(i), 1, number(i), bson.E{Key: "v", Value: values[i%len(values)]})
		all[i].time += int64(i) * 1000
	}
	return all
}

// checkKinds checks that there is one bucket per kind, and that no bucket mixes kinds.
func checkKinds(t *testing.T, name string, documents []bson.D, readings []reading, kinds int) {
	t.Helper()
	if len(documents) != kinds {
		t.Errorf("%s: %d buckets, want %d", name, len(documents), kinds)
	}
	found := 0
	for _, d := range documents {
		var within []reading
		for _, p := range positionsOf(t, d) {
			within = append(within, readings[p.Offset])
		}
		found += len(within)
		if !haveOneSchema(within) {
			t.Errorf("%s: a bucket mixes kinds: %s", name, text(d))
		}
	}
	if found != len(readings) {
		t.Errorf("%s: %d measurements are stored, want %d", name, found, len(readings))
	}
}

// TestKindsByTurnsHaveABucketEach checks that a bucket never mixes kinds, and that a change of kind does not open a bucket each
// time.
func TestKindsByTurnsHaveABucketEach(t *testing.T) {
	for name, values := range turns {
		for _, every := range []int{1, 7, 1000} {
			o := testOptions(t)
			c, s := New(o), newStore(t, o.Collection)
			readings := inTurns(values)
			for i := range readings {
				mustInsert(t, c, readings[i])
				if i%every == every-1 {
					storeAll(t, c, s)
				}
			}
			storeAll(t, c, s)
			var documents []bson.D
			for _, d := range s.byID {
				documents = append(documents, d)
			}
			checkKinds(t, name, documents, readings, kindsOf(t, values))
		}
	}
}

// storeAll executes all writes of the next flush.
func storeAll(t *testing.T, c *Catalog, s *store) {
	t.Helper()
	f := c.Prepare(0)
	if f == nil {
		return
	}
	for _, w := range f.Writes {
		if !s.apply(w) {
			t.Fatalf("not applied: %s", w.Filter)
		}
	}
	c.Finish(f, make([]Outcome, len(f.Writes)), 0)
}

// TestCompactionMakesABucketOfEachKind checks this even with more kinds than a series may have open buckets.
func TestCompactionMakesABucketOfEachKind(t *testing.T) {
	six := []any{nil, 1.5, "none", true, bson.DateTime(0), bson.D{{Key: "x", Value: nil}}}
	for name, values := range turns {
		checkCompactedKinds(t, name, values)
	}
	checkCompactedKinds(t, "six kinds", six)
}

func checkCompactedKinds(t *testing.T, name string, values []any) {
	t.Helper()
	o := testOptions(t)
	o.DenseFrom = 50
	c, s := New(o), newStore(t, o.Collection)
	readings := inTurns(values)
	for i := range readings {
		mustInsert(t, c, readings[i])
		if i%20 == 19 {
			storeAll(t, c, s)
		}
	}
	var segments []bson.Raw
	for _, d := range s.byID {
		segments = append(segments, encode(t, d))
	}
	f, err := Compact(o, CompactionMark{ID: [16]byte{1}, VisibleFrom: 1}, segments)
	if err != nil {
		t.Fatal(err)
	}
	var documents []bson.D
	for _, w := range f.Writes {
		documents = append(documents, decode(t, w.Document))
	}
	checkKinds(t, name, documents, readings, kindsOf(t, values))
}

// TestAFifthKindClosesTheBucketUsedLeastRecently checks that it sets control.closed, as for any bucket that ends for good.
func TestAFifthKindClosesTheBucketUsedLeastRecently(t *testing.T) {
	c := New(testOptions(t))
	of := func(offset int64, v any) reading { return simple(offset, 1, bson.E{Key: "v", Value: v}) }
	mustInsert(t, c, of(0, 1.5), of(1, "none"), of(2, nil), of(3, true), of(4, 2.5), of(5, "some"))
	if writes := finishAll(t, c, 0, Outcome{}); len(writes) != 4 {
		t.Fatalf("%d writes, want one of each kind", len(writes))
	}
	mustInsert(t, c, of(6, bson.D{}), of(7, 3.5), of(8, "one"), of(9, false))
	writes := finishAll(t, c, 0, Outcome{})
	if opened := c.Stats().BucketsOpened; opened != 5 || len(writes) != 5 {
		t.Errorf("%d buckets and %d writes, want 5 of both", opened, len(writes))
	}
	for _, w := range writes {
		if closes := w.Kind == Update && w.Added == 0; w.Closes != closes {
			t.Errorf("a write of %d measurements closes: %v", w.Added, w.Closes)
		}
	}
	if stats := c.Stats(); stats.BucketsClosedDueToSchemaChange != 1 || stats.Closes != 1 {
		t.Errorf("counted as %+v", stats)
	}
	mustInsert(t, c, of(10, nil)) // the kind whose bucket was closed
	if stats := c.Stats(); stats.BucketsOpened != 6 || stats.BucketsClosedDueToSchemaChange != 2 {
		t.Errorf("counted as %+v", stats)
	}
}

// TestABucketOfItsKindIsReopened checks that kinds find their buckets again when memory is short and after a restart. Several
// buckets may have the same minimum time, one of which is archived.
func TestABucketOfItsKindIsReopened(t *testing.T) {
	for name, forget := range map[string]func(*Catalog) *Catalog{
		"expired": func(c *Catalog) *Catalog {
			for c.idle.oldest != nil {
				c.expireBucket(c.idle.oldest)
			}
			return c
		},
		"restarted": func(c *Catalog) *Catalog { return New(c.options) },
	} {
		o := testOptions(t)
		o.Reopen, o.DeltaMax = true, 1000
		c, s := New(o), newStore(t, o.Collection)
		readings := inTurns(turns["four kinds"])
		for i := range readings {
			mustInsert(t, c, readings[i])
			answering(c, 10, s.answer)
			if i%10 == 9 {
				storeAll(t, c, s)
				c = forget(c)
			}
		}
		var documents []bson.D
		for _, d := range s.byID {
			documents = append(documents, d)
		}
		checkKinds(t, name, documents, readings, 4)
		if failed := c.Stats().BucketReopeningsFailed; failed > 0 {
			t.Errorf("%s: %d buckets are said not to be fit", name, failed)
		}
	}
}

// TestBucketsOfAllKindsEndWithTheirWindow checks that a bucket for a later window ends the buckets of all kinds.
func TestBucketsOfAllKindsEndWithTheirWindow(t *testing.T) {
	o := testOptions(t)
	c := New(o)
	of := func(offset, later int64, v any) reading {
		r := simple(offset, 1, bson.E{Key: "v", Value: v})
		r.time += later
		return r
	}
	mustInsert(t, c, of(0, 0, 1.5), of(1, 0, "none"), of(2, 0, nil))
	finishAll(t, c, 0, Outcome{})
	mustInsert(t, c, of(3, o.Collection.Span(), 2.5))
	if stats := c.Stats(); stats.OpenBuckets != 1 || stats.BucketsClosedDueToTimeForward != 3 || stats.BucketsClosedDueToSchemaChange != 0 {
		t.Errorf("counted as %+v", stats)
	}
}

// TestOneKindTakesNoMoreMemory checks that the memory for several kinds of a series is accounted for, and freed.
func TestOneKindTakesNoMoreMemory(t *testing.T) {
	one, several := New(testOptions(t)), New(testOptions(t))
	of := func(offset int64, v any) reading { return simple(offset, 1, bson.E{Key: "v", Value: v}) }
	mustInsert(t, one, of(0, 1.5), of(1, 2.5))
	mustInsert(t, several, of(0, 1.5), of(1, strings.Repeat("x", 8)))
	if s := one.series.find([]byte(of(0, 1).series)); s.more != nil {
		t.Error("a series of one kind has more than its bucket")
	}
	if a, b := one.memory.series, several.memory.series; b != a+moreBytes+pointerBytes {
		t.Errorf("a second kind takes %d bytes of its series, want %d", b-a, moreBytes+pointerBytes)
	}
	finishAll(t, several, 0, Outcome{})
	several.expireBucket(several.idle.oldest)
	if a, b := one.memory.series, several.memory.series; b != a {
		t.Errorf("%d bytes are left of the second kind", b-a)
	}
}

// TestAKindWhoseBucketIsTooLargeGoesElsewhere checks that a bucket that is not the last used one is closed like any other when
// MongoDB refuses its update as too large.
func TestAKindWhoseBucketIsTooLargeGoesElsewhere(t *testing.T) {
	c := New(testOptions(t))
	of := func(offset int64, v any) reading { return simple(offset, 1, bson.E{Key: "v", Value: v}) }
	mustInsert(t, c, of(0, nil), of(1, 1.5))
	finishAll(t, c, 0, Outcome{})
	mustInsert(t, c, of(2, nil), of(3, 2.5))
	f := c.Prepare(0)
	outcomes := make([]Outcome, len(f.Writes))
	for i, w := range f.Writes {
		if w.Kind == Update && w.First == 2 {
			outcomes[i] = Outcome{Result: Refused, TooLarge: true}
		}
	}
	c.Finish(f, outcomes, 0)
	mustInsert(t, c, of(4, nil), of(5, 3.5))
	var closed []bson.ObjectID
	for _, w := range finishAll(t, c, 0, Outcome{}) {
		if w.Closes {
			closed = append(closed, w.ID)
			if w.Added > 0 {
				t.Errorf("%d measurements go into a bucket that was too large", w.Added)
			}
		}
	}
	if opened := c.Stats().BucketsOpened; len(closed) != 1 || opened != 4 {
		t.Errorf("%d buckets are closed and %d opened, want 1 and 4", len(closed), opened)
	}
}
