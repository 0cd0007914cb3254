package bucketer

import (
	"maps"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// tooLarge is the error message of an insert whose document is too large.
const tooLarge = "too large"

// execute decides the outcome of a write.
func (d *disturbed) execute(w *Write) Outcome {
	if d.foreign[w.ID] {
		d.t.Fatalf("a write into the bucket of another partition: %s", w.Document)
	}
	if positions := decodePositions(d.t, w.Offsets); slices.ContainsFunc(positions, d.isPoisoned) {
		return Outcome{Result: Refused, Code: 2, Message: "poison"}
	}
	switch n := d.random.IntN(20); {
	case n == 0 && w.Kind == Insert && w.Added > 0:
		return d.zombie(w)
	case n == 1 && w.Kind == Update && w.Added > 0:
		return Outcome{Result: Refused, TooLarge: true, Message: tooLarge}
	case n == 2 && w.Kind == Insert && w.Added > 1:
		return Outcome{Result: Refused, TooLarge: true, Message: tooLarge}
	case n == 3 && w.Kind == Update:
		d.edit(w.ID)
	case n == 4 && d.store.apply(w):
		d.edit(w.ID)
		return Outcome{Result: AppliedForget}
	}
	return d.send(w)
}

// send executes a write unchanged. The write must match, unless other writers have made it impossible.
func (d *disturbed) send(w *Write) Outcome {
	if d.store.apply(w) {
		return Outcome{Result: Applied}
	}
	document := d.store.byID[w.ID]
	switch {
	case !d.touched[w.ID]:
		d.t.Fatalf("the write\n%s where %s\ndoes not match\n%s", w.Document, w.Filter, bson.Raw(encode(d.t, document)))
	case w.Added > 0:
	case at(document, timeseries.PathCount) != w.Count:
		return Outcome{Result: AppliedForget}
	case at(document, timeseries.PathClosed) == true:
		return Outcome{Result: Applied}
	}
	return Outcome{Result: Conflicted}
}

func (d *disturbed) isPoisoned(p timeseries.Position) bool {
	return slices.ContainsFunc(d.readings[p].fields, func(e bson.E) bool { return e.Key == poison })
}

// zombie makes a former owner write the first measurements of an insert, with the same _id.
func (d *disturbed) zombie(w *Write) Outcome {
	options := d.options
	options.Reopen, options.DeltaMax, options.FlushWrites = false, 0, 0
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
		d.touched[w.ID] = true
		return Outcome{Result: Conflicted}
	}
	f := other.Prepare(0)
	for _, w := range f.Writes {
		d.touched[w.ID] = true
		if !d.store.apply(w) {
			return Outcome{Result: Conflicted, Stored: storedOf(d.t, d.store, positions)}
		}
	}
	return Outcome{Result: Conflicted, Stored: positions}
}

// storedOf returns the positions that the store holds.
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

// edit changes a bucket, so that a later update does not match.
func (d *disturbed) edit(id bson.ObjectID) {
	document := d.store.byID[id]
	d.touched[id] = true
	if at(document, timeseries.PathOwner) != nil && d.random.IntN(3) > 0 {
		return // commands edit segments, and keep their positions
	}
	switch d.random.IntN(5) {
	case 0:
		for _, p := range positionsOf(d.t, document) {
			d.deleted[p] = true
		}
		d.store.remove(id)
	case 1, 2:
		d.store.put(id, set(d.t, document, "control.closed", true))
	default:
		if at(document, timeseries.PathOwner) != nil {
			return
		}
		d.store.put(id, set(d.t, document, "meta", "edited"))
		d.edited[id] = true
	}
}

// clear tells the catalog about direct writes. Afterwards the catalog must not send a write that they have made impossible.
func (d *disturbed) clear() {
	if d.random.IntN(2) == 0 {
		d.catalog.Clear(func(meta bson.RawValue) bool { return meta.Type != 0 && meta.Value[0]%2 == 1 })
		return
	}
	for range d.random.IntN(min(3, len(d.store.order)+1)) {
		if id := d.store.order[d.random.IntN(len(d.store.order))]; !d.foreign[id] && !d.touched[id] {
			d.edit(id)
			delete(d.touched, id)
		}
	}
	d.catalog.Clear(nil)
}

// neighbour stores buckets of the same series with measurements of another partition.
func (d *disturbed) neighbour() {
	o := d.options
	o.Source.Partition, o.Reopen, o.DeltaMax, o.FlushWrites = 1, false, 0, 0
	other := New(o)
	for range 1 + d.random.IntN(3) {
		if err := other.Insert(d.stream.next().measurement(d.t)); err != nil {
			d.t.Fatal(err)
		}
	}
	for _, w := range other.Prepare(0).Writes {
		d.foreign[w.ID] = true
		if !d.store.apply(w) {
			d.t.Fatalf("not applied: %s", w.Document)
		}
	}
}

// widen changes the granularity while buckets are open.
func (d *disturbed) widen() {
	o := widened(d.t, d.options.Collection)
	d.options.Collection, d.store.options = o, o
	d.catalog.SetCollection(o)
}

// restart loses the memory. Measurements that are not stored are read again.
func (d *disturbed) restart() {
	if d.random.IntN(2) == 0 {
		d.finish()
	}
	d.catalog, d.flush, d.answers = New(d.options), nil, nil
	stored := map[timeseries.Position]bool{}
	for id, document := range d.store.byID {
		if d.foreign[id] {
			continue
		}
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
