package bucketer

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// disturbed drives a catalog with a store to which others write, which refuses writes, and whose answers come late.
type disturbed struct {
	t        *testing.T
	random   *rand.Rand
	options  Options
	catalog  *Catalog
	store    *store
	stream   *stream
	foreign  map[bson.ObjectID]bool // the buckets of another partition
	now      int64
	answers  []Answer
	flush    *Flush
	outcomes []Outcome
	readings map[timeseries.Position]reading // all inserted readings
	waiting  map[timeseries.Position]bool    // neither stored nor rejected, as far as the catalog knows
	rejected map[timeseries.Position]bool
	deleted  map[timeseries.Position]bool // stored once, but the bucket was deleted
	touched  map[bson.ObjectID]bool       // other writers have changed the bucket
	edited   map[bson.ObjectID]bool       // others have changed the meta of the bucket
}

// poison is the name of a field for which the store refuses a document.
const poison = "poison"

// TestStoredOnce checks that each storable measurement is stored exactly once, for any outcome of the writes. It must be in a
// bucket of its series and window with the right bounds. The catalog keeps no memory when it is done.
func TestStoredOnce(t *testing.T) {
	eachStream(t, func(t *testing.T, seed uint64) {
		d := newDisturbed(t, seed)
		for range steps(d.random, 200) {
			d.step()
			d.checkOldest()
		}
		d.drain()
		d.checkStored()
		d.checkCompacted()
		d.checkEmpty()
	})
}

func newDisturbed(t *testing.T, seed uint64) *disturbed {
	random := rand.New(rand.NewPCG(seed, 1))
	o := randomOptions(t, random)
	if random.IntN(2) == 0 {
		o.DenseFrom = 1 + random.Int32N(6)
	}
	return &disturbed{
		t: t, random: random, options: o, catalog: New(o), store: randomStore(t, o),
		stream:   newStream(t, random),
		foreign:  map[bson.ObjectID]bool{},
		readings: map[timeseries.Position]reading{},
		waiting:  map[timeseries.Position]bool{},
		rejected: map[timeseries.Position]bool{},
		deleted:  map[timeseries.Position]bool{},
		touched:  map[bson.ObjectID]bool{},
		edited:   map[bson.ObjectID]bool{},
	}
}

func (d *disturbed) step() {
	d.now += d.random.Int64N(2e9)
	switch n := d.random.IntN(100); {
	case n < 55:
		d.insertNext()
	case n < 67:
		for _, l := range d.catalog.Lookups(1 + d.random.IntN(oneOf(d.random, 3, 20))) {
			d.answers = append(d.answers, d.store.answer(l))
		}
	case n < 77:
		d.catalog.Load(d.answers)
		d.answers = nil
	case n < 85:
		d.prepare()
	case n < 92:
		d.finish()
	case n < 94:
		d.clear()
	case n < 96:
		d.catalog.Expire(d.random.Int64N(d.catalog.Bytes() + 1))
	case n == 96:
		d.widen()
	case n == 97:
		d.neighbour()
	default:
		d.restart()
	}
}

func (d *disturbed) insertNext() {
	r := d.stream.next()
	switch d.random.IntN(40) {
	case 0:
		r.fields = append(r.fields, bson.E{Key: poison, Value: true})
	case 1: // many names, different each time
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

func (d *disturbed) finish() {
	if d.flush == nil {
		return
	}
	for i, o := range d.outcomes {
		positions := decodePositions(d.t, d.flush.Writes[i].Offsets)
		switch o.Result {
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
		if !d.isPoisoned(one.Position) && one.Message != tooLarge || d.rejected[one.Position] {
			d.t.Fatalf("%+v is rejected", one)
		}
		d.rejected[one.Position] = true
		delete(d.waiting, one.Position)
	}
	release(d.catalog, d.flush)
	d.flush = nil
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
