package keeper

import (
	"maps"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
	"waterwheel/sink"
)

// editing is a test of edits of metas: a world with series a, b and c, and their present counts.
type editing struct {
	*testing.T
	*world
}

// newEditing returns a world in which the series a has measurements of one hour, which are in rows.
func newEditing(t *testing.T, measurements int) *editing {
	w, p := still(t, measurements)
	w.run(t, p)
	return &editing{t, w}
}

// begin notes an edit of metas.
func (e *editing) begin(deletes bool, series ...string) *sink.RollupEdit {
	e.Helper()
	noted, err := sink.BeginRollupEdit(e.Context(), e.ports(), time.Second, metasOf(series), deletes)
	if err != nil {
		e.Fatal(err)
	}
	return noted
}

func metasOf(series []string) (metas []bson.RawValue) {
	for _, one := range series {
		metas = append(metas, encoded(bson.D{{Key: "m", Value: one}}).Lookup("m"))
	}
	return metas
}

// documentsOf returns the _ids of the documents of a series, without segments.
func (e *editing) documentsOf(series string) (ids []string) {
	for id, d := range e.mem.now()["buckets"] {
		if meta, _ := d.Lookup("meta").StringValueOK(); meta == series && d.Lookup("control", "segment").Type == 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// move gives the buckets of a series another meta.
func (e *editing) move(from, to string) {
	for _, id := range e.documentsOf(from) {
		e.mem.write("buckets", func(all map[string]bson.Raw) {
			all[id] = updated(all[id], encoded(bson.D{{Key: "$set", Value: bson.D{{Key: "meta", Value: to}}}}))
		})
	}
}

// lose deletes up to n buckets of a series.
func (e *editing) lose(series string, n int) {
	ids := e.documentsOf(series)
	for _, id := range ids[:min(n, len(ids))] {
		e.mem.write("buckets", func(all map[string]bson.Raw) { delete(all, id) })
	}
}

// change changes metas as update-meta does.
func (e *editing) change(from, to string) {
	e.Helper()
	noted := e.begin(false, from, to)
	e.move(from, to)
	if err := noted.Done(e.Context(), time.Time{}); err != nil {
		e.Fatal(err)
	}
}

// compute computes the rows of all notes.
func (e *editing) compute() {
	e.Helper()
	of, err := e.work(e.Context())
	if err != nil {
		e.Fatal(err)
	}
	notes, err := of.rollups.Notes(e.Context())
	if err != nil {
		e.Fatal(err)
	}
	for i := range notes {
		if _, _, err := of.note(e.Context(), &notes[i]); err != nil {
			e.Fatal(err)
		}
	}
}

// want compares the counts of each series in the rows of all levels.
func (e *editing) want(want map[string]int64) {
	e.Helper()
	for _, level := range []string{rollup.Minute, rollup.Hour, rollup.Day} {
		_, counts := e.rowsOf(level)
		have := map[string]int64{}
		for at, n := range counts {
			have[at.series] += n
		}
		maps.DeleteFunc(have, func(_ string, n int64) bool { return n == 0 })
		if !maps.Equal(have, want) {
			e.Errorf("level %s has the counts %v, want %v", level, have, want)
		}
	}
}

// TestTotalsOfGoneMeasurementsOutliveEdits has series whose measurements were deleted before an edit of their meta. The totals
// must stay.
func TestTotalsOfGoneMeasurementsOutliveEdits(t *testing.T) {
	for _, c := range []struct {
		name string
		lost int
		want map[string]int64
	}{
		{"all measurements are left", 0, map[string]int64{"b": 5}},
		{"some measurements are gone", 2, map[string]int64{"a": 5}},
		{"all measurements are gone", 5, map[string]int64{"a": 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEditing(t, 5)
			e.lose("a", c.lost)
			e.change("a", "b")
			for range 3 {
				e.compute()
				e.want(c.want)
				e.now = e.now.Add(noteLinger / 2)
			}
			if len(e.noted(false)) > 0 {
				t.Error("the note is left")
			}
		})
	}
}

// TestGoneMeasurementsOfOneSeriesOfANote has an edit of two series. The measurements of one of them are gone.
func TestGoneMeasurementsOfOneSeriesOfANote(t *testing.T) {
	e := newEditing(t, 3)
	p := e.parts[0]
	for range 7 {
		e.add(p, "b", e.now)
	}
	e.run(t, e.owned(p))
	e.lose("a", 3)
	noted := e.begin(false, "a", "x", "b", "y")
	e.move("b", "y")
	if err := noted.Done(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	e.compute()
	e.want(map[string]int64{"a": 3, "y": 7})
}

// TestEditThatStoppedBetweenTwoRows has a process that died after it had stored the row of the new series and before that of the
// former series. No measurement is gone.
func TestEditThatStoppedBetweenTwoRows(t *testing.T) {
	e := newEditing(t, 5)
	p := e.parts[0]
	noted := e.begin(false, "a", "b")
	e.move("a", "b")
	e.add(p, "b", e.now)
	e.run(t, e.owned(p)) // stores the row of b, as a keeper does that dies before it stores the row of a
	e.want(map[string]int64{"a": 5, "b": 6})
	if err := noted.Done(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	e.compute()
	e.want(map[string]int64{"b": 6})
}

// TestEditsInARow has edits that move the same measurements again before a keeper computes the first one.
func TestEditsInARow(t *testing.T) {
	e := newEditing(t, 5)
	e.change("a", "b")
	e.change("b", "c")
	e.compute()
	e.want(map[string]int64{"c": 5})
	e.lose("c", 5)
	e.change("c", "a")
	e.compute()
	e.want(map[string]int64{"c": 5})
}

// TestDeletionAfterAnEdit deletes a series that has just got the measurements of another series.
func TestDeletionAfterAnEdit(t *testing.T) {
	e := newEditing(t, 5)
	e.change("a", "b")
	noted := e.begin(true, "b")
	e.lose("b", 5)
	if err := noted.Done(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	e.compute()
	e.want(map[string]int64{})
}

// TestNoteStaysIfAnotherEditBegan has an edit that begins while the rows of a former edit are computed for the last time.
func TestNoteStaysIfAnotherEditBegan(t *testing.T) {
	e := newEditing(t, 5)
	e.change("a", "b")
	of, err := e.work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	notes, err := of.rollups.Notes(t.Context())
	if err != nil || len(notes) != 1 {
		t.Fatal(notes, err)
	}
	m, err := of.movesOf(t.Context(), &notes[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		series  []string
		deletes bool
		want    bool
	}{{[]string{"x", "y"}, false, false}, {[]string{"x"}, true, false}, {[]string{"b"}, true, true}} {
		e.begin(c.deletes, c.series...)
		if missed, err := of.isMissed(t.Context(), &notes[0], m); missed != c.want || err != nil {
			t.Errorf("after an edit of %v, the moves are missed: %t, %v", c.series, missed, err)
		}
	}
}
