package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// seriesEdits are `waterwheel collection update-meta` and `delete-meta`. They are not among the other schedules, because they
// would change the meaning of every seed. TestSimulationOfSeriesEdits adds them to each of its runs.
var seriesEdits = &schedule{"whole series edited or deleted", (*world).editSeries}

// editSeries makes an operator change the meta of series, or delete them, while owners work. It uses the code of package
// collection, as a process outside of any group. The process may be killed, and another one may start again.
func (w *world) editSeries() {
	p := &process{
		began: w.now,
		w:     w, slot: -1, name: fmt.Sprintf("edit %d", len(w.all)), settings: w.settings(), group: w.group,
		tasks: map[*task]bool{}, runners: map[int32]*runner{},
	}
	w.all = append(w.all, p)
	if w.chance(0.3) {
		w.at(w.now+w.between(0, 10), p.crash)
	}
	p.spawn((*task).editSeries, p.crash)
}

// seriesEdit is a collection.Change or a collection.Deletion.
type seriesEdit interface {
	Run(ctx context.Context) error
	Edited() collection.Edited
}

// editSeries plans an edit of some series, and carries it out despite some outages.
func (t *task) editSeries() {
	w := t.p.w
	metas := bson.A{"A", "B", "C", "D"}[:1+w.rnd.IntN(4)]
	query := encoded(bson.D{{Key: timeseries.FieldMeta, Value: bson.D{{Key: "$in", Value: metas}}}})
	buckets := editedBuckets{t: t, port: port{w: w, of: w.mongo.buckets}}
	const noTimeout = time.Hour // a timeout would use the wrong clock
	selection := collection.NewSelection(buckets, editedOptions{scratch: &scratch{}, notes: port{w: w, of: w.mongo.options}}, collection.SelectionOptions{
		Query: query, TimeField: simCollection.TimeField, Closed: w.chance(0.5), Timeout: noTimeout, BucketsOnly: w.traits.segments, AwaitInserts: t.awaitsInserts(),
	})
	asked := w.mongo.buckets.ids()
	hidden := func() bool {
		return !slices.ContainsFunc(asked, func(id string) bool {
			d := w.mongo.buckets.now(id)
			return d != nil && isSegment(d) && (placeOf(d).until == 0 || placeOf(d).until > w.mongo.clock().UnixMilli())
		})
	}
	for tries := 0; !hidden(); tries++ { // as Database.Compacted waits
		if t.sleep(time.Second); tries == 200 {
			return
		}
	}
	all, err := selection.Series(t.context(), func(int64) {})
	if err != nil {
		return
	}
	edit := t.plan(selection, all)
	for range 4 {
		t.sleep(w.between(0, 2))
		if err = edit.Run(t.context()); err == nil {
			break
		}
	}
	done := edit.Edited()
	w.logf("%s: %+v, %v", t.p.name, done, err)
	if done.Missed > 0 {
		w.note("(met) an edit of series misses a bucket that its owner has closed or another edited")
	}
	if done.Appeared > 0 {
		w.note("(met) a series appears while others are edited")
	}
}

// awaitsInserts returns the wait of an edit that moves buckets to other shards.
func (t *task) awaitsInserts() func(context.Context) error {
	if !t.p.w.traits.sharded {
		return nil
	}
	return func(context.Context) error {
		t.sleep(longestGrace)
		return nil
	}
}

// plan returns a deletion, or changes to existing or new series, including chains and rings of changes.
func (t *task) plan(selection *collection.Selection, all []collection.SelectedSeries) seriesEdit {
	w := t.p.w
	silent := func(collection.Edited) {}
	if w.chance(0.3) {
		w.note("(met) series deleted")
		return selection.Delete(silent)
	}
	var changes []collection.MetaChange
	for _, s := range all {
		after := encoded(bson.D{{Key: "m", Value: pick(w, "A", "B", "C", "D", "E")}}).Lookup("m")
		if !equal(s.Meta, after) {
			changes = append(changes, collection.MetaChange{Before: s.Meta, After: after})
		}
	}
	w.note("(met) series changed")
	return selection.Change(all, changes, silent)
}

// editedOptions is an edit's view of the options collection. Notes for owners are written to the model, with its faults. Scratch
// documents, with which an edit asks which metas a query matches, are written without faults.
type editedOptions struct {
	*scratch
	notes port
}

// Insert implements mongodb.Editable.
func (o editedOptions) Insert(ctx context.Context, documents []bson.Raw) (mongodb.Reply, error) {
	if strings.HasPrefix(documents[0].Lookup("_id").StringValue(), "probe-") {
		return o.scratch.Insert(ctx, documents)
	}
	o.notes.w.note("(met) edit noted")
	return o.notes.Insert(ctx, documents)
}

// scratch holds the documents with which an edit asks which metas a query matches. It has no faults.
type scratch struct{ documents []bson.Raw }

// Insert implements mongodb.Editable.
func (s *scratch) Insert(_ context.Context, documents []bson.Raw) (mongodb.Reply, error) {
	for _, d := range documents {
		s.documents = append(s.documents, slices.Clone(d))
	}
	return mongodb.Reply{N: len(documents)}, nil
}

// Update implements mongodb.Editable.
func (s *scratch) Update(context.Context, []mongodb.Update) (mongodb.Reply, error) {
	panic("an edit of metas that are given changes no scratch documents")
}

// Find implements mongodb.Editable.
func (s *scratch) Find(_ context.Context, q mongodb.Query, each func(bson.Raw) error) error {
	for _, d := range s.documents {
		if !matches(d, q.Filter) {
			continue
		}
		if err := each(d); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements mongodb.Editable.
func (s *scratch) Delete(_ context.Context, filters []bson.Raw) (mongodb.Reply, error) {
	before := len(s.documents)
	for _, filter := range filters {
		s.documents = slices.DeleteFunc(s.documents, func(d bson.Raw) bool { return matches(d, filter) })
	}
	return mongodb.Reply{N: before - len(s.documents)}, nil
}

// editedBuckets is an edit's view of the buckets. It reads some at a time, and without a session.
type editedBuckets struct {
	t *task
	port
}

// Insert implements mongodb.Editable.
func (b editedBuckets) Insert(context.Context, []bson.Raw) (mongodb.Reply, error) {
	panic("an edit inserts nothing here")
}

// Find implements mongodb.Editable. Each answer shows a later moment.
func (b editedBuckets) Find(ctx context.Context, q mongodb.Query, each func(bson.Raw) error) error {
	seq := int64(0)
	for next := 0; next < len(b.of.order); {
		now, err := b.moment(ctx)
		if err != nil {
			return err
		}
		seq = max(seq, now)
		for range min(1+b.w.rnd.IntN(16), len(b.of.order)-next) {
			d := b.of.asOf(b.of.order[next], seq)
			next++
			if d == nil || !matches(d, q.Filter) {
				continue
			}
			if err := each(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// Update implements mongodb.Editable. It checks that a change moves a bucket only once, unless another edit has moved the bucket
// back.
func (b editedBuckets) Update(ctx context.Context, updates []mongodb.Update) (mongodb.Reply, error) {
	w := b.w
	b.dawdle()
	return b.write(ctx, len(updates), func(i int) (int, *mongodb.WriteError) {
		id := string(updates[i].Filter.Lookup("_id").Value)
		before := b.of.now(id)
		if before == nil || !matches(before, updates[i].Filter) {
			return 0, nil
		}
		after := updated(before, updates[i].Update)
		if w.checks.movedBy[id] == b.t.p.name {
			w.fail("edit", "%s changes the meta of %x a second time", b.t.p.name, id)
		}
		w.note("(met) bucket given another meta beside its owner")
		w.mongo.put(b.of, id, after, nil)
		w.checks.movedBy[id] = b.t.p.name
		return 1, nil
	}, func(int) bool { return false })
}

// Delete implements mongodb.Editable. Deleted measurements need not be stored any more.
func (b editedBuckets) Delete(ctx context.Context, filters []bson.Raw) (mongodb.Reply, error) {
	w := b.w
	b.dawdle()
	return b.write(ctx, len(filters), func(i int) (int, *mongodb.WriteError) {
		id := string(filters[i].Lookup("_id").Value)
		before := b.of.now(id)
		if before == nil || !matches(before, filters[i]) {
			return 0, nil
		}
		w.note("(met) bucket deleted beside its owner")
		w.excuseBucket(before)
		w.mongo.put(b.of, id, nil, nil)
		return 1, nil
	}, func(int) bool { return false })
}

// dawdle lets owners write between an edit's read and its write.
func (b editedBuckets) dawdle() {
	if b.w.chaos && b.w.chance(0.5) {
		b.t.sleep(b.w.between(0, 10))
	}
}

// TestSimulationOfSeriesEdits is TestSimulation with operators who change the meta of whole series and delete series.
func TestSimulationOfSeriesEdits(t *testing.T) {
	met := simulateMany(t, func(seed uint64) *world {
		w := newWorld(seed, "", traceOut())
		w.kinds = append(w.kinds, seriesEdits, seriesEdits, seriesEdits)
		w.traits.refusing = false // edits meet enough buckets without refused ones
		w.run()
		return w
	})
	for _, row := range []string{
		seriesEdits.name, "(met) series changed", "(met) series deleted", "(met) bucket given another meta beside its owner",
		"(met) bucket deleted beside its owner", "(met) an edit of series misses a bucket that its owner has closed or another edited",
		"(met) a series appears while others are edited", "(met) conflict", "(met) writes without answer",
		"(met) edit noted",
	} {
		if met.runs[row] == 0 && met.made >= enoughRuns {
			t.Errorf("no run had %q", row)
		}
	}
}
