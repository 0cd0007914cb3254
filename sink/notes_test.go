package sink_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// positionsOf are the positions that a find of notes gives out.
func positionsOf(
	t *testing.T, find func(context.Context, timeseries.Source, int64, int64, func(timeseries.Position)) error, of timeseries.Source, from, to int64,
) []timeseries.Position {
	t.Helper()
	all := []timeseries.Position{}
	if err := find(t.Context(), of, from, to, func(p timeseries.Position) { all = append(all, p) }); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, timeseries.Position.Compare)
	return slices.Compact(all)
}

// TestDeletedMeasurementsAreStoredNoMore: an owner that reads their records again knows them, whenever it begins.
func TestDeletedMeasurementsAreStoredNoMore(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	other := timeseries.Position{Offset: 200, Part: 3}
	sendAll(t, p, bucketer.Applied, insertOf("a", run(100, 5)...), insertOf("a", other), insertOf("b", run(300, 5)...))

	d := e.selects(t, raw(t, bson.D{{Key: "meta", Value: "a"}}), true).Delete(silent)
	if err := d.Run(t.Context()); err != nil || d.Edited().Done.Measurements != 6 {
		t.Fatalf("%+v, %v", d.Edited(), err)
	}
	want := append(run(100, 5), other)
	if diff := cmp.Diff(want, positionsOf(t, sink.ContentsOf(e.Database, "events").Notes().Deleted, source, 0, 1000)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[2:5], positionsOf(t, sink.ContentsOf(e.Database, "events").Notes().Deleted, source, 102, 200)); diff != "" {
		t.Errorf("of a range: %s", diff)
	}
	if listed, err := p.Positions(t.Context(), insertOf("c", run(104, 2)...)); err != nil || !slices.Equal(listed, run(104, 1)) {
		t.Errorf("of a write %v are stored, %v", listed, err)
	}
	for _, q := range []*sink.Partition{p, e.claimed(t, s)} {
		stored, err := q.Stored(t.Context(), 0, 1000)
		if err != nil || stored.Len() != 11 || !stored.Contains(other) || !stored.Contains(timeseries.Position{Offset: 304}) {
			t.Errorf("%d positions are stored, %v", stored.Len(), err)
		}
		if stored, err := q.Stored(t.Context(), 201, 1000); err != nil || stored.Len() != 5 {
			t.Errorf("%d positions behind the deleted ones are stored, %v", stored.Len(), err)
		}
	}
	elsewhere := source
	elsewhere.Partition++
	if found := positionsOf(t, sink.ContentsOf(e.Database, "events").Notes().Deleted, elsewhere, 0, 1000); len(found) > 0 {
		t.Errorf("another partition has %v", found)
	}
	if found := positionsOf(t, sink.ContentsOf(e.Database, "events").Notes().Changed, source, 0, 1000); len(found) > 0 {
		t.Errorf("%v got another meta", found)
	}
}

// TestChangedMetasAreNoted, and stay stored.
func TestChangedMetasAreNoted(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	sendAll(t, p, bucketer.Applied, insertOf("a", run(100, 5)...), insertOf("b", run(300, 5)...))
	selection := e.selects(t, raw(t, bson.D{}), true)
	all := seriesIn(t, selection)
	to := raw(t, bson.D{{Key: "m", Value: "c"}}).Lookup("m")
	changed(t, selection, []sink.MetaChange{{Before: all[0].Meta, After: to}})
	if diff := cmp.Diff(run(100, 5), positionsOf(t, sink.ContentsOf(e.Database, "events").Notes().Changed, source, 0, 1000)); diff != "" {
		t.Error(diff)
	}
	if stored, err := p.Stored(t.Context(), 0, 1000); err != nil || stored.Len() != 10 {
		t.Errorf("%d positions are stored, %v", stored.Len(), err)
	}
	if found := positionsOf(t, sink.ContentsOf(e.Database, "events").Notes().Deleted, source, 0, 1000); len(found) > 0 {
		t.Errorf("%v were deleted", found)
	}
}

// TestDamagedNoteIsNamed: which records it lists as deleted is not known.
func TestDamagedNoteIsNamed(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	sendAll(t, p, bucketer.Applied, insertOf("a", run(100, 5)...))
	if err := e.selects(t, raw(t, bson.D{}), true).Delete(silent).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	update := bson.D{{Key: "$set", Value: bson.D{{Key: "control.count", Value: 9}}}}
	result, err := e.raw.Collection("events.options").UpdateOne(t.Context(), bson.D{{Key: "control.count", Value: 5}}, update)
	if err != nil || result.MatchedCount != 1 {
		t.Fatal(result, err)
	}
	for doing, err := range map[string]error{
		"stored": func() error { _, err := p.Stored(t.Context(), 0, 1000); return err }(),
		"noted":  sink.ContentsOf(e.Database, "events").Notes().Deleted(t.Context(), source, 0, 1000, func(timeseries.Position) {}),
	} {
		if err == nil || !strings.Contains(err.Error(), "the note") || !strings.Contains(err.Error(), "lists 5 positions, control.count is 9") {
			t.Errorf("%s: %v", doing, err)
		}
	}
}

// TestWhatExpiresIsNotNoted, because its time tells. Measurements deleted from before a moment are noted.
func TestWhatExpiresIsNotNoted(t *testing.T) {
	for _, expiry := range []bool{true, false} {
		e := connect(t)
		o := definition
		if expiry {
			o.ExpireAfterSeconds = 3600
		}
		ready, err := sink.Of(e.Database, "events").Setup(t.Context(), o, sink.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		s := e.store(ready)
		sendAll(t, e.claimed(t, s), bucketer.Applied, insertOf("a", run(100, 5)...))
		before := time.Now().Add(-time.Minute)
		if expiry {
			before = time.Time{}
		}
		selection, _, err := sink.Of(e.Database, "events").Expired(t.Context(), before)
		if err != nil {
			t.Fatal(err)
		}
		d := selection.Delete(silent)
		if err := d.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := run(100, int(d.Edited().Done.Measurements))
		if !expiry && len(want) != 5 {
			t.Errorf("%+v", d.Edited())
		}
		if expiry {
			want = []timeseries.Position{}
		}
		if diff := cmp.Diff(want, positionsOf(t, sink.ContentsOf(e.Database, "events").Notes().Deleted, source, 0, 1000)); diff != "" {
			t.Errorf("expiry %v: %s", expiry, diff)
		}
	}
}

// TestWhatGrowsMeanwhileIsNotedWhole: measurements that a bucket gets between reading and writing are noted before they are edited.
func TestWhatGrowsMeanwhileIsNotedWhole(t *testing.T) {
	for name, deletes := range map[string]bool{"delete": true, "change": false} {
		t.Run(name, func(t *testing.T) {
			w := insertOf("a", run(100, 3)...)
			buckets, options := &shelf{t: t, documents: []bson.Raw{w.Document}}, &shelf{t: t}
			grown := int64(0)
			options.before = func() { // the bucket was read, and is about to be noted
				if grown++; grown <= 3 {
					positions := bson.Binary{Data: timeseries.AppendPositions(nil, run(200, 3+int(grown)))}
					buckets.update(raw(t, bson.D{{Key: "_id", Value: w.ID}}), raw(t, bson.D{{Key: "$set", Value: bson.D{
						{Key: "control.count", Value: int32(3 + grown)}, {Key: "control.source.offsets", Value: bson.A{positions}},
					}}}))
				}
			}
			meta := w.Meta
			selection := sink.NewSelection(buckets, options, everything(t))
			after := raw(t, bson.D{{Key: "m", Value: "z"}}).Lookup("m")
			change := selection.Change([]sink.SelectedSeries{{Meta: meta}}, []sink.MetaChange{{Before: meta, After: after}}, silent)
			run1, edited, find := change.Run, change.Edited, sink.NotesIn(options).Changed
			if deletes {
				deletion := selection.Delete(silent)
				run1, edited, find = deletion.Run, deletion.Edited, sink.NotesIn(options).Deleted
			}
			if err := run1(t.Context()); err != nil {
				t.Fatal(err)
			}
			options.before = nil
			if e := edited(); e.Missed != 0 || e.Done != (sink.Amount{Buckets: 1, Measurements: 6}) {
				t.Errorf("%+v", e)
			}
			if diff := cmp.Diff(run(200, 6), positionsOf(t, find, source, 200, 1000)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNotesOfManyPositionsAreSplit: a document holds no more than MongoDB takes.
func TestNotesOfManyPositionsAreSplit(t *testing.T) {
	const buckets = 300
	all := &shelf{t: t}
	var want []timeseries.Position
	for i := range buckets {
		positions := make([]timeseries.Position, 1000)
		for k := range positions {
			positions[k].Offset = int64(k*buckets + i)
		}
		want = append(want, positions...)
		all.documents = append(all.documents, insertOf("a", positions...).Document)
	}
	options := &shelf{t: t}
	if err := sink.NewSelection(all, options, everything(t)).Delete(silent).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(want, timeseries.Position.Compare)
	if got := positionsOf(t, sink.NotesIn(options).Deleted, source, 0, 1<<40); !slices.Equal(got, want) {
		t.Errorf("%d positions are noted, want %d", len(got), len(want))
	}
	bytes := 0
	for _, d := range options.documents {
		bytes += len(d)
	}
	if len(options.documents) < 3 || bytes > 2*len(want) {
		t.Errorf("%d notes take %d bytes for %d positions", len(options.documents), bytes, len(want))
	}
}
