package bucketer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// disturbed drives a catalog against a store that other people write to, that refuses writes, and that is asked late.
type disturbed struct {
	t        *testing.T
	random   *rand.Rand
	options  Options
	catalog  *Catalog
	store    *store
	stream   *stream
	now      int64
	answers  []Answer
	flush    *Flush
	outcomes []Outcome
	readings map[timeseries.Position]reading // all that were inserted
	waiting  map[timeseries.Position]bool    // neither stored nor rejected, as far as the catalog was told
	rejected map[timeseries.Position]bool
	edited   map[bson.ObjectID]bool // meta or more is not ours any more
}

// poison is the name of a field for which the store refuses a document.
const poison = "poison"

// TestStoredOnce checks that whatever happens to the writes, each measurement that can be stored is stored exactly once,
// in a bucket of its series and window whose bounds are right, and that the catalog keeps no memory when it is done.
func TestStoredOnce(t *testing.T) {
	eachStream(t, func(t *testing.T, seed uint64) {
		d := newDisturbed(t, seed)
		for range steps(d.random, 200) {
			d.step()
			d.checkOldest()
		}
		d.drain()
		d.checkStored()
		d.checkEmpty()
	})
}

func newDisturbed(t *testing.T, seed uint64) *disturbed {
	random := rand.New(rand.NewPCG(seed, 1))
	o := randomOptions(t, random)
	return &disturbed{
		t: t, random: random, options: o, catalog: New(o), store: newStore(t, o.Collection),
		stream:   newStream(t, random),
		readings: map[timeseries.Position]reading{},
		waiting:  map[timeseries.Position]bool{},
		rejected: map[timeseries.Position]bool{},
		edited:   map[bson.ObjectID]bool{},
	}
}

func (d *disturbed) step() {
	d.now += d.random.Int64N(2e9)
	switch n := d.random.IntN(100); {
	case n < 55:
		d.insertNext()
	case n < 67:
		for _, l := range d.catalog.Lookups(1 + d.random.IntN(3)) {
			d.answers = append(d.answers, d.store.answer(l))
		}
	case n < 77:
		d.catalog.Load(d.answers)
		d.answers = nil
	case n < 85:
		d.prepare()
	case n < 93:
		d.finish()
	case n < 95:
		d.clear()
	case n < 97:
		d.catalog.Expire(d.random.Int64N(d.catalog.Bytes() + 1))
	case n < 98:
		d.widen()
	default:
		d.restart()
	}
}

func (d *disturbed) insertNext() {
	r := d.stream.next()
	switch d.random.IntN(40) {
	case 0:
		r.fields = append(r.fields, bson.E{Key: poison, Value: true})
	case 1: // many names, and others each time
		for i := range d.random.IntN(40) {
			r.fields = append(r.fields, bson.E{Key: fmt.Sprint("n", d.random.IntN(400), "-", i), Value: d.stream.value("n", 0)})
		}
	case 2:
		wide := bson.D{}
		for i := range 1 + d.random.IntN(40) {
			wide = append(wide, bson.E{Key: fmt.Sprint("w", i), Value: d.random.Int32N(100)})
		}
		d.random.Shuffle(len(wide), func(i, j int) { wide[i], wide[j] = wide[j], wide[i] })
		r.fields = append(r.fields, bson.E{Key: "wide", Value: wide})
	}
	d.insert(r)
}

func (d *disturbed) insert(r reading) {
	d.readings[r.position] = r
	d.waiting[r.position] = true
	if err := d.catalog.Insert(r.measurement(d.t)); err != nil {
		d.t.Fatalf("inserting %v: %v", r, err)
	}
}

func (d *disturbed) prepare() {
	if d.flush != nil {
		return
	}
	if d.flush = d.catalog.Prepare(d.now); d.flush == nil {
		return
	}
	d.outcomes = nil
	for _, w := range d.flush.Writes {
		d.outcomes = append(d.outcomes, d.execute(w))
	}
}

// execute decides what becomes of a write.
func (d *disturbed) execute(w *Write) Outcome {
	if positions := decodePositions(d.t, w.Offsets); slices.ContainsFunc(positions, d.isPoisoned) {
		return Outcome{Verdict: Refused, Code: 2, Message: "poison"}
	}
	switch n := d.random.IntN(20); {
	case n == 0 && w.Kind == Insert && w.Added > 0:
		return d.zombie(w)
	case n == 1 && w.Kind == Update && w.Added > 0:
		return Outcome{Verdict: Refused, Code: codeUpdateTooLarge}
	case n == 2 && w.Kind == Insert && w.Added > 1:
		return Outcome{Verdict: Refused, Code: codeObjectTooLarge}
	case n == 3 && w.Kind == Update:
		d.edit(w.ID)
	case n == 4 && d.store.apply(w):
		d.edit(w.ID)
		return Outcome{Verdict: AppliedForget}
	}
	if d.store.apply(w) {
		return Outcome{Verdict: Applied}
	}
	if _, known := d.store.byID[w.ID]; known && w.Added == 0 {
		return Outcome{Verdict: Applied} // a close-only write is resolved when the bucket is closed
	}
	return Outcome{Verdict: Conflicted}
}

func (d *disturbed) isPoisoned(p timeseries.Position) bool {
	return slices.ContainsFunc(d.readings[p].fields, func(e bson.E) bool { return e.Key == poison })
}

// zombie lets a former owner write the first measurements of an insert, under the same _id.
func (d *disturbed) zombie(w *Write) Outcome {
	options := d.options
	options.Reopen, options.DeltaMax = false, 0
	other := New(options)
	positions := decodePositions(d.t, w.Offsets)
	positions = positions[:d.random.IntN(len(positions)+1)]
	for _, p := range positions {
		if err := other.Insert(d.readings[p].measurement(d.t)); err != nil {
			d.t.Fatal(err)
		}
	}
	if len(positions) == 0 {
		d.store.put(w.ID, bson.D{{Key: "_id", Value: w.ID}})
		d.edited[w.ID] = true
		return Outcome{Verdict: Conflicted}
	}
	f := other.Prepare(0)
	for _, w := range f.Writes {
		if !d.store.apply(w) {
			return Outcome{Verdict: Conflicted, Stored: storedOf(d.t, d.store, positions)}
		}
	}
	return Outcome{Verdict: Conflicted, Stored: positions}
}

// storedOf returns those of some positions that the store holds.
func storedOf(t *testing.T, s *store, positions []timeseries.Position) []timeseries.Position {
	var stored []timeseries.Position
	for _, document := range s.byID {
		for _, p := range positionsOf(t, document) {
			if slices.Contains(positions, p) {
				stored = append(stored, p)
			}
		}
	}
	return stored
}

// edit changes a bucket so that a later update does not match.
func (d *disturbed) edit(id bson.ObjectID) {
	document := d.store.byID[id]
	if d.random.IntN(2) == 0 {
		d.store.put(id, set(d.t, document, "control.closed", true))
		return
	}
	d.store.put(id, set(d.t, document, "meta", "edited"))
	d.edited[id] = true
}

func (d *disturbed) finish() {
	if d.flush == nil {
		return
	}
	for i, o := range d.outcomes {
		positions := decodePositions(d.t, d.flush.Writes[i].Offsets)
		switch o.Verdict {
		case Conflicted:
			positions = o.Stored
		case Refused:
			positions = nil
		}
		for _, p := range positions {
			delete(d.waiting, p)
		}
	}
	for _, one := range d.catalog.Finish(d.flush, d.outcomes, d.now) {
		if !d.isPoisoned(one.Position) && !isTooLarge(one.Code) || d.rejected[one.Position] {
			d.t.Fatalf("%+v is rejected", one)
		}
		d.rejected[one.Position] = true
		delete(d.waiting, one.Position)
	}
	d.flush = nil
}

func (d *disturbed) clear() {
	if d.random.IntN(2) == 0 {
		d.catalog.Clear(nil)
		return
	}
	d.catalog.Clear(func(meta bson.RawValue) bool { return meta.Type != 0 && meta.Value[0]%2 == 1 })
}

// widen changes the granularity while buckets are open.
func (d *disturbed) widen() {
	o, err := d.options.Collection.Change(timeseries.Options{Granularity: timeseries.Minutes})
	if err != nil {
		d.t.Fatal(err)
	}
	d.options.Collection, d.store.options = o, o
	d.catalog.SetCollection(o)
}

// restart loses the memory; what is not in the store is read again.
func (d *disturbed) restart() {
	if d.random.IntN(2) == 0 {
		d.finish()
	}
	d.catalog, d.flush, d.answers = New(d.options), nil, nil
	stored := map[timeseries.Position]bool{}
	for _, document := range d.store.byID {
		for _, p := range positionsOf(d.t, document) {
			stored[p] = true
		}
	}
	clear(d.waiting)
	for _, p := range slices.SortedFunc(maps.Keys(d.readings), timeseries.Position.Compare) {
		if !stored[p] && !d.rejected[p] {
			d.insert(d.readings[p])
		}
	}
}

// checkOldest compares Oldest with what waits.
func (d *disturbed) checkOldest() {
	oldest, ok := d.catalog.Oldest()
	for p := range d.waiting {
		if !ok || p.Offset < oldest {
			d.t.Fatalf("%v waits, but the oldest is %d (%v)", p, oldest, ok)
		}
	}
	if ok && len(d.waiting) == 0 {
		d.t.Fatalf("nothing waits, but the oldest is %d", oldest)
	}
}

func (d *disturbed) drain() {
	for round := 0; len(d.waiting) > 0 || d.flush != nil || len(d.catalog.dirty) > 0; round++ {
		if round > 2000 {
			d.t.Fatalf("%d measurements are never written", len(d.waiting))
		}
		d.catalog.Load(d.answers)
		d.answers = nil
		for _, l := range d.catalog.Lookups(1000) {
			d.answers = append(d.answers, d.store.answer(l))
		}
		d.now += 61e9
		d.prepare()
		d.finish()
	}
}

// checkStored compares the store with the readings: each exactly once, and each bucket what its readings make it.
func (d *disturbed) checkStored() {
	found := map[timeseries.Position]int{}
	for id, document := range d.store.byID {
		positions := positionsOf(d.t, document)
		if len(positions) == 0 {
			continue
		}
		b := &modelBucket{minTime: int64(at(document, "control.min."+d.options.Collection.TimeField).(bson.DateTime))}
		for _, p := range positions {
			found[p]++
			r := d.readings[p]
			b.readings = append(b.readings, r)
			if r.time < b.minTime || r.time-b.minTime >= d.options.Collection.Span() {
				d.t.Errorf("%v is not in the window of its bucket", r)
			}
			if !d.edited[id] && seriesKey(document) != r.series {
				d.t.Errorf("%v is in a bucket of another series", r)
			}
		}
		d.checkBucket(document, b)
	}
	for p := range d.readings {
		want := 1
		if d.rejected[p] {
			want = 0
		}
		if found[p] != want {
			d.t.Errorf("%v is stored %d times, want %d", p, found[p], want)
		}
	}
}

func (d *disturbed) checkBucket(document bson.D, b *modelBucket) {
	for path, want := range map[string]any{
		"control.count": int32(len(b.readings)),
		"control.min":   b.bound(&d.options, b.readings, lower),
		"control.max":   b.bound(&d.options, b.readings, upper),
		"data":          columnsOf(&d.options, b.readings),
	} {
		if got := at(document, path); !equalUnordered(d.t, got, want) {
			d.t.Errorf("%s is %s, want %s", path, text(got), text(want))
		}
	}
}

// checkEmpty checks that a catalog that has nothing to do keeps nothing, and has accounted for all it gave back.
func (d *disturbed) checkEmpty() {
	c := d.catalog
	if measurements, bytes := c.Pending(); measurements != 0 || bytes != 0 {
		d.t.Errorf("%d measurements of %d bytes are pending, although all is stored", measurements, bytes)
	}
	if c.buffers.total != c.buffers.idle {
		d.t.Errorf("%d bytes of buffers are lost", c.buffers.total-c.buffers.idle)
	}
	c.Expire(0)
	if len(c.buckets) > 0 || len(c.series) > 0 || c.archive.len() > 0 || len(c.attempts) > 0 {
		d.t.Errorf("left are %d buckets, %d series, %d archived ones, %d attempts",
			len(c.buckets), len(c.series), c.archive.len(), len(c.attempts))
	}
	if c.memory.series != 0 || c.memory.buckets != 0 || c.buffers.total != 0 || c.lookups.series != 0 {
		d.t.Errorf("accounted for are still %+v, %d bytes of buffers, %d parked series",
			c.memory, c.buffers.total, c.lookups.series)
	}
}

func decodePositions(t *testing.T, encoded []byte) []timeseries.Position {
	positions, err := timeseries.DecodePositions(nil, encoded)
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
	return positions
}

// positionsOf lists the positions in a stored bucket.
func positionsOf(t *testing.T, document bson.D) []timeseries.Position {
	elements, _ := at(document, "control.source.offsets").(bson.A)
	var positions []timeseries.Position
	for _, e := range elements {
		positions = append(positions, decodePositions(t, e.(bson.Binary).Data)...)
	}
	return positions
}
