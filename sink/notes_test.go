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
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// positionsOf returns the positions in notes.
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

// TestDeletedMeasurementsAreStoredNoMore checks that an owner that reads their records again recognises them, for any start.
func TestDeletedMeasurementsAreStoredNoMore(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	other := timeseries.Position{Offset: 200, Part: 3}
	sendAll(t, p, bucketer.Applied, insertOf("a", run(100, 5)...), insertOf("a", other), insertOf("b", run(300, 5)...))

	d := collection.Of(e.Database, "events").Select("time", mongodb.Document(bson.D{{Key: "meta", Value: "a"}}), true).Delete(func(collection.Edited) {})
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

// TestChangedMetasAreNoted also checks that the measurements stay stored.
func TestChangedMetasAreNoted(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	sendAll(t, p, bucketer.Applied, insertOf("a", run(100, 5)...), insertOf("b", run(300, 5)...))
	selection := collection.Of(e.Database, "events").Select("time", mongodb.Document(bson.D{}), true)
	all, err := selection.Series(t.Context(), func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	change := selection.Change(all, []collection.MetaChange{{Before: metaOf("a"), After: metaOf("c")}}, func(collection.Edited) {})
	if err := change.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
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

// TestDamagedNoteIsNamed checks this because the deleted records that it lists are unknown.
func TestDamagedNoteIsNamed(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	sendAll(t, p, bucketer.Applied, insertOf("a", run(100, 5)...))
	if err := collection.Of(e.Database, "events").Select("time", mongodb.Document(bson.D{}), true).Delete(func(collection.Edited) {}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	update := bson.D{{Key: "$set", Value: bson.D{{Key: "control.count", Value: 9}}}}
	result, err := e.Raw.Collection("events.options").UpdateOne(t.Context(), bson.D{{Key: "control.count", Value: 5}}, update)
	if err != nil || result.MatchedCount != 1 {
		t.Fatal(result, err)
	}
	for operation, err := range map[string]error{
		"stored": func() error { _, err := p.Stored(t.Context(), 0, 1000); return err }(),
		"noted":  sink.ContentsOf(e.Database, "events").Notes().Deleted(t.Context(), source, 0, 1000, func(timeseries.Position) {}),
	} {
		if err == nil || !strings.Contains(err.Error(), "the note") || !strings.Contains(err.Error(), "lists 5 positions, but control.count is 9") {
			t.Errorf("%s: %v", operation, err)
		}
	}
}

// TestWhatExpiresIsNotNoted checks this because the time of a measurement shows that it has expired. Deletions of measurements
// before a time are noted.
func TestWhatExpiresIsNotNoted(t *testing.T) {
	for _, expiry := range []bool{true, false} {
		e := connect(t)
		o := definition
		if expiry {
			o.ExpireAfterSeconds = 3600
		}
		ready, err := collection.Of(e.Database, "events").Setup(t.Context(), o, collection.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		s := e.store(ready)
		sendAll(t, e.claimed(t, s), bucketer.Applied, insertOf("a", run(100, 5)...))
		before := time.Now().Add(-time.Minute)
		if expiry {
			before = time.Time{}
		}
		selection, _, err := collection.Of(e.Database, "events").Expired(t.Context(), before)
		if err != nil {
			t.Fatal(err)
		}
		d := selection.Delete(func(collection.Edited) {})
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
