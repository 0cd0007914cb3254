package bucketer

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// twin is a catalog with a store of its own, which answers look-ups at once.
type twin struct {
	t       *testing.T
	catalog *Catalog
	store   *store
	flush   *Flush
	queries int
}

func (w *twin) answer() {
	for asked := w.catalog.Lookups(10); len(asked) > 0; asked = w.catalog.Lookups(10) {
		answers := make([]Answer, len(asked))
		for i, l := range asked {
			answers[i] = w.store.answer(l)
			if l.ID == (bson.ObjectID{}) {
				w.queries++
			}
		}
		w.catalog.Load(answers)
	}
}

func (w *twin) insert(one reading) {
	if err := w.catalog.Insert(one.measurement(w.t)); err != nil {
		w.t.Fatal(err)
	}
	w.answer()
}

// prepare cuts a flush and executes it.
func (w *twin) prepare() {
	if w.flush != nil {
		return
	}
	if w.flush = w.catalog.Prepare(math.MaxInt64); w.flush == nil {
		return
	}
	for _, write := range w.flush.Writes {
		if !w.store.apply(write) {
			w.t.Fatalf("not applied: %s", write.Filter)
		}
	}
}

// finish reports the outcomes. Sometimes another writer has changed a bucket, and the measurements are stored all the same.
func (w *twin) finish(conflict int) {
	if w.flush == nil {
		return
	}
	outcomes := make([]Outcome, len(w.flush.Writes))
	if conflict < len(outcomes) {
		positions, err := timeseries.DecodePositions(nil, w.flush.Writes[conflict].Offsets)
		if err != nil && w.flush.Writes[conflict].Added > 0 {
			w.t.Fatal(err)
		}
		outcomes[conflict] = Outcome{Result: Conflicted, Stored: positions}
	}
	w.catalog.Finish(w.flush, outcomes, 0)
	w.flush = nil
	w.answer()
}

// begin is a restart. With told the catalog learns how new the stored measurements are.
func (w *twin) begin(o Options, told bool) {
	w.catalog, w.flush = New(o), nil
	if !told {
		return
	}
	newest := int64(math.MinInt64)
	for _, d := range w.store.byID {
		newest = max(newest, int64(at(d, timeseries.MinPath(o.Collection.TimeField)).(bson.DateTime)))
	}
	w.catalog.Begin(newest)
}

// stored returns the sorted _ids of the stored documents.
func (w *twin) stored() []bson.ObjectID {
	return slices.SortedFunc(maps.Keys(w.store.byID), func(a, b bson.ObjectID) int { return bytes.Compare(a[:], b[:]) })
}

// TestNothingIsMissedThatIsNotAskedFor checks that a catalog that skips needless look-ups writes the same as one that makes all
// look-ups.
func TestNothingIsMissedThatIsNotAskedFor(t *testing.T) {
	eachStream(t, func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 7))
		o := randomOptions(t, random)
		o.Reopen = true
		stream := newStream(t, random)
		asks, knows := &twin{t: t, store: randomStore(t, o)}, &twin{t: t, store: randomStore(t, o)}
		both := func(do func(w *twin)) { do(asks); do(knows) }
		both(func(w *twin) { w.begin(o, w == knows) })
		for range steps(random, 120) {
			switch n := random.IntN(100); {
			case n < 60:
				one := stream.next()
				both(func(w *twin) { w.insert(one) })
			case n < 75:
				both((*twin).prepare)
			case n < 90:
				conflict := random.IntN(100)
				both(func(w *twin) { w.finish(conflict) })
			case n < 95:
				archived := random.IntN(2) == 0
				both(func(w *twin) {
					if w.catalog.idle.oldest != nil {
						w.catalog.expireBucket(w.catalog.idle.oldest)
					}
					if archived {
						w.catalog.dropArchived()
					}
				})
			case n < 97:
				both(func(w *twin) { w.catalog.Clear(nil); w.answer() })
			case n == 97:
				o.Collection = widened(t, o.Collection)
				both(func(w *twin) { w.catalog.SetCollection(o.Collection); w.store.options = o.Collection })
			default:
				both(func(w *twin) { w.begin(o, w == knows) })
			}
		}
		both(func(w *twin) {
			for w.flush != nil || len(w.catalog.dirty) > 0 {
				w.finish(math.MaxInt)
				w.prepare()
			}
		})
		// The order differs, because a measurement with a look-up is placed after those without.
		if got, want := knows.stored(), asks.stored(); !slices.Equal(got, want) {
			t.Fatalf("stored are %v, want %v", got, want)
		}
		for _, id := range asks.store.order {
			if !equal(t, asks.store.byID[id], knows.store.byID[id]) {
				t.Fatalf("the bucket is\n%s\nwant\n%s", bson.Raw(encode(t, knows.store.byID[id])), bson.Raw(encode(t, asks.store.byID[id])))
			}
		}
		if knows.queries > asks.queries {
			t.Errorf("%d queries, %d of the one that always asks", knows.queries, asks.queries)
		}
	})
}

// TestNewSeriesOfANewCollectionAskNothing checks that there are no look-ups while nothing is stored, or only old measurements
// are, until the catalog has forgotten something.
func TestNewSeriesOfANewCollectionAskNothing(t *testing.T) {
	o := testOptions(t)
	o.Reopen = true
	first := simple(0, 1, number(1))
	for name, one := range map[string]struct {
		newest int64
		asks   bool
	}{
		"nothing stored":          {math.MinInt64, false},
		"a span ago":              {first.time - o.Collection.Span(), false},
		"less than a span ago":    {first.time - o.Collection.Span() + 1, true},
		"later":                   {first.time + 1, true},
		"nobody knows what is it": {math.MaxInt64, true},
	} {
		c := New(o)
		c.Begin(one.newest)
		mustInsert(t, c, first)
		if asked := len(c.Lookups(10)) > 0; asked != one.asks {
			t.Errorf("%s: asked %v, want %v", name, asked, one.asks)
		}
	}
	c := New(o)
	c.Begin(math.MinInt64)
	mustInsert(t, c, first)
	finishAll(t, c, 0, Outcome{})
	c.expireBucket(c.idle.oldest)
	c.dropArchived()
	mustInsert(t, c, simple(1, 1, number(2)))
	if len(c.Lookups(10)) != 1 {
		t.Error("a bucket that was forgotten is not looked up")
	}
}
