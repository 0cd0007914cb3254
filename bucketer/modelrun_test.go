package bucketer

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// modelRun drives the catalog, the model and the store with the same stream.
type modelRun struct {
	t       *testing.T
	random  *rand.Rand
	options Options
	catalog *Catalog
	model   *model
	store   *store
	stream  *stream
	asked   []Lookup
	flush   *Flush
	written []*modelBucket
}

// TestModel compares the catalog with a naive model. They must have the same look-ups, writes and documents, after any number of
// flushes, reopenings, expiries and restarts.
func TestModel(t *testing.T) {
	eachStream(t, func(t *testing.T, seed uint64) {
		r := newModelRun(t, seed)
		for range steps(r.random, 120) {
			r.step()
		}
		r.drain()
	})
}

func randomOptions(t testing.TB, random *rand.Rand) Options {
	o := testOptions(t)
	o.Limits = timeseries.Limits{
		MaxCount: 1 + random.Int32N(30), MaxBytes: 200 + random.Int32N(4000), MinCount: 1 + random.Int32N(5),
	}
	if random.IntN(4) == 0 {
		o.Limits.CacheBytes = 10_000 + random.Int64N(40_000)
	}
	o.DeltaMax = random.Int32N(6)
	o.SetsInTextOrder = random.IntN(4) == 0
	o.Reopen = random.IntN(4) > 0
	o.FlushWrites = max(0, random.IntN(8)-3)
	return o
}

func randomStore(t testing.TB, o Options) *store {
	s := newStore(t, o.Collection)
	s.textOrder = o.SetsInTextOrder
	return s
}

func newModelRun(t *testing.T, seed uint64) *modelRun {
	random := rand.New(rand.NewPCG(seed, 0))
	o := randomOptions(t, random)
	r := &modelRun{
		t: t, random: random, options: o, catalog: New(o), model: newModel(o),
		store: randomStore(t, o), stream: newStream(t, random),
	}
	r.model.size = func(id bson.ObjectID) int { return int(r.store.candidate(id).Size) }
	return r
}

func (r *modelRun) step() {
	switch n := r.random.IntN(100); {
	case n < 60:
		r.insert(r.stream.next())
	case n < 72:
		r.ask(1 + r.random.IntN(oneOf(r.random, 3, 20)))
		r.load()
	case n < 84:
		r.prepare()
	case n < 95:
		r.finish()
	case n < 97:
		r.expire()
	case n == 97:
		r.clear()
	case n == 98:
		r.widen()
	default:
		r.restart()
	}
}

func (r *modelRun) insert(one reading) {
	if err := r.catalog.Insert(one.measurement(r.t)); err != nil {
		r.t.Fatalf("inserting %v: %v", one, err)
	}
	r.model.insert(one)
}

// ask hands out look-ups, and compares them with the model's.
func (r *modelRun) ask(n int) {
	got := r.catalog.Lookups(n)
	want := r.model.handOut(n)
	same := slices.EqualFunc(got, want, func(a, b Lookup) bool {
		return a.Series == b.Series && a.Time == b.Time && a.ID == b.ID && a.Ahead == b.Ahead
	})
	if !same {
		r.t.Fatalf("look-ups %+v, want %+v", got, want)
	}
	r.asked = append(r.asked, got...)
}

func (r *modelRun) load() {
	for len(r.asked) > 0 {
		answered := r.asked[:1:1]
		answers := []Answer{r.store.answer(r.asked[0])}
		for r.asked = r.asked[1:]; len(r.asked) > 0 && r.asked[0].Ahead; r.asked = r.asked[1:] {
			if r.random.IntN(10) > 0 { // some are not answered
				answered = append(answered, r.asked[0])
				answers = append(answers, r.store.answer(r.asked[0]))
			}
		}
		r.catalog.Load(answers)
		r.model.load(answered)
	}
}

// prepare cuts a flush, compares its writes with the model's, and executes them.
func (r *modelRun) prepare() {
	if r.flush != nil {
		return
	}
	waiting, rest, bound := r.model.waiting(), r.catalog.rest, r.options.FlushOf(len(r.catalog.dirty))
	r.flush = r.catalog.Prepare(0)
	most := waiting
	if r.flush != nil && r.options.FlushWrites > 0 {
		most = len(r.flush.Writes)
		r.checkFlush(most, waiting, rest, max(bound, r.options.FlushWrites))
	}
	r.written = r.model.prepare(most)
	if r.flush == nil {
		if len(r.written) > 0 {
			r.t.Fatalf("no flush, want one of %d writes", len(r.written))
		}
		return
	}
	var got, want []bson.ObjectID
	for _, w := range r.flush.Writes {
		got = append(got, w.ID)
	}
	for _, b := range r.written {
		want = append(want, b.id)
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("writes of %v, want %v", got, want)
	}
	for i, w := range r.flush.Writes {
		if !r.store.apply(w) {
			r.t.Fatalf("not applied: %s", w.Filter)
		}
		r.compare(r.written[i])
	}
}

// checkFlush checks that a flush has as many writes as allowed and possible. These are all that wait, or all that the last flush
// left.
func (r *modelRun) checkFlush(writes, waiting, rest, bound int) {
	if writes > bound {
		r.t.Fatalf("%d writes in a flush, want %d at most", writes, bound)
	}
	if writes < min(waiting, r.options.FlushWrites) && rest == 0 || writes < waiting && rest == 0 && !r.catalog.Rest() {
		r.t.Fatalf("%d writes in a flush while %d are waited for", writes, waiting)
	}
}

func (r *modelRun) compare(b *modelBucket) {
	got, want := r.store.byID[b.id], b.document(&r.options)
	if !equalUnordered(r.t, got, want) {
		r.t.Fatalf("the bucket is\n%s\nwant\n%s", bson.Raw(encode(r.t, got)), bson.Raw(encode(r.t, want)))
	}
	// The database decides the order of new columns, but not the order within a column.
	columns := at(got, "data")
	for _, column := range at(want, "data").(bson.D) {
		if !equal(r.t, at(columns, column.Key), column.Value) {
			r.t.Fatalf("column %s is not in order:\n%s", column.Key, bson.Raw(encode(r.t, got)))
		}
	}
}

func (r *modelRun) finish() {
	if r.flush == nil {
		return
	}
	updated := map[bson.ObjectID]bool{}
	for _, w := range r.flush.Writes {
		updated[w.ID] = w.Kind == Update
	}
	r.catalog.Finish(r.flush, make([]Outcome, len(r.flush.Writes)), 0)
	release(r.catalog, r.flush)
	r.model.finish(r.written, updated)
	r.flush, r.written = nil, nil
}

// clear forgets the buckets of some series, as after direct writes.
func (r *modelRun) clear() {
	if r.random.IntN(2) == 0 {
		r.catalog.Clear(nil)
		r.model.clear(func(string) bool { return true })
		return
	}
	r.catalog.Clear(func(meta bson.RawValue) bool { return meta.Type == 0 })
	r.model.clear(func(key string) bool { return key == "" })
}

// widen changes the granularity while buckets are open.
func (r *modelRun) widen() {
	o := widened(r.t, r.options.Collection)
	r.options.Collection, r.model.options.Collection, r.store.options = o, o, o
	r.catalog.SetCollection(o)
}

func widened(t testing.TB, o timeseries.Options) timeseries.Options {
	changed, err := o.Change(timeseries.Options{Granularity: timeseries.Minutes})
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// restart loses the memory of catalog and model. A flush in flight was executed.
func (r *modelRun) restart() {
	r.catalog, r.flush, r.written, r.asked = New(r.options), nil, nil, nil
	for _, one := range r.model.restart() {
		r.insert(one)
	}
}

// statistics returns all statistics by name. Those of MongoDB's own catalog have its names, which are ours with the prefix "num".
func statistics(s Stats) map[string]int64 {
	all := map[string]int64{"numActiveBuckets": s.OpenBuckets + s.ArchivedBuckets}
	for field, value := range reflect.ValueOf(s).Fields() {
		all["num"+field.Name] = value.Int()
	}
	return all
}

// checkStats compares the statistics about opened and ended buckets.
func (r *modelRun) checkStats() {
	r.model.stats["numActiveBuckets"] = int64(r.model.active())
	for name, n := range statistics(r.catalog.Stats()) {
		isOfModel := strings.Contains(name, "DueTo") || slices.Contains(
			[]string{"numBucketsOpened", "numBucketsReopened", "numActiveBuckets"}, name)
		if want := r.model.stats[name]; isOfModel && n != want {
			r.t.Errorf("%s is %d, want %d", name, n, want)
		}
	}
}

// drain writes everything and compares all buckets.
func (r *modelRun) drain() {
	for r.catalog.Stats().AwaitingSeries > 0 || r.flush != nil || len(r.catalog.dirty) > 0 {
		r.ask(100)
		r.load()
		r.finish()
		r.prepare()
	}
	r.checkStats()
	r.checkShapes()
	if offset, ok := r.catalog.Oldest(); ok {
		r.t.Errorf("offset %d waits although all is written", offset)
	}
	for _, b := range r.model.buckets {
		r.compare(b)
	}
	if len(r.store.byID) != len(r.model.buckets) {
		r.t.Errorf("%d buckets are stored, want %d", len(r.store.byID), len(r.model.buckets))
	}
}
