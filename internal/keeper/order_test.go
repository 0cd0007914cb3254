package keeper

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/sink"
)

// still returns a world without random events. It has one owned partition, with measurements of one hour of one series.
func still(t *testing.T, measurements int) (*world, *Partition) {
	t.Helper()
	w := newWorld(1)
	w.calm = true
	p := w.parts[0]
	w.parts = w.parts[:1]
	store := sink.NewStore(
		collection.Ready{Ports: w.ports(), Namespace: "db.m.buckets", Options: baseOptions, Rollups: true},
		sink.StoreOptions{MaxCount: 1000, WriteTimeout: time.Second},
	)
	handle := store.Partition(p.source(), "c", modelGroup, "host")
	defer handle.Close()
	token := claim.Token{1}
	if won, err := handle.Claim(t.Context(), claim.Document{}, claim.Claim{Token: token}); err != nil || !won {
		t.Fatal(won, err)
	}
	p.claim, p.claimed = token, true
	for range measurements {
		w.add(p, "a", w.now)
	}
	return w, w.owned(p)
}

// owned returns the partition as its process sees it.
func (w *world) owned(p *part) *Partition {
	return &Partition{Owned: sink.Owned{Source: p.source(), ID: p.id(), Group: modelGroup, Claim: p.claim}, Done: p.done(), Seen: w.now, Known: true}
}

// add stores one measurement of a series, and returns it.
func (w *world) add(p *part, series string, at time.Time) *entry {
	hour := rollup.FloorTo(at.UnixMilli(), hourMs)
	r := &entry{offset: int64(len(p.log)), time: at.UnixMilli(), series: series, bit: w.bits[hour]}
	w.bits[hour]++
	if w.of[hour] == nil {
		w.of[hour] = map[int]*entry{}
	}
	w.of[hour][r.bit] = r
	p.log = append(p.log, r)
	w.put("buckets", w.bucket(series, p, []*entry{r}, nil))
	return r
}

// run runs one pass.
func (w *world) run(t *testing.T, p *Partition) *work {
	t.Helper()
	of, err := w.work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := of.pass(t.Context(), p, allOffsets); err != nil {
		t.Fatal(err)
	}
	return of
}

// TestCommandsOfAPassComeInOrder checks the order of reads and writes, on which the invariants depend.
func TestCommandsOfAPassComeInOrder(t *testing.T) {
	w, p := still(t, 3)
	of, err := w.work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.mem.commands = nil
	if _, err := of.pass(t.Context(), p, allOffsets); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"update partitions", "find partitions", // the fence, the watermarks
		"find buckets",       // what was touched
		"find 1m", "find 1h", // the documents, with their revisions
		"find buckets", "find buckets", // segments, buckets
		"find options", // no level was dropped
		"insert 1m", "insert 1h",
		"find 1d", "find 1h", "find options", "insert 1d", // days
		"update partitions", // the watermark
	}
	if !slices.Equal(w.mem.commands, want) {
		t.Errorf("in the order %s, want %s", strings.Join(w.mem.commands, ", "), strings.Join(want, ", "))
	}
}

// TestLateMeasurementsOfAnHourThatLostSome checks an hour from which measurements were deleted by hand. R3 keeps its row. Late
// measurements of the hour are counted, until --replace computes the row from the remaining ones.
func TestLateMeasurementsOfAnHourThatLostSome(t *testing.T) {
	w, p := still(t, 5)
	if of := w.run(t, p); of.frozen != 0 {
		t.Errorf("%d measurements are in no row", of.frozen)
	}
	deleted := 0
	w.mem.write("buckets", func(all map[string]bson.Raw) {
		for id := range all {
			if deleted++; deleted <= 3 {
				delete(all, id)
			}
		}
	})
	part := w.parts[0]
	w.add(part, "a", w.now)
	if of := w.run(t, w.owned(part)); of.frozen != 1 {
		t.Errorf("%d late measurements are counted, want 1", of.frozen)
	}
	_, counts := w.rowsOf("1h")
	at := cell{"a", rollup.FloorTo(w.now.UnixMilli(), hourMs)}
	if counts[at] != 5 {
		t.Errorf("the row has %d measurements, want the 5 that there were", counts[at])
	}
	for range 3 { // more than were deleted, so the row covers the shown ones
		w.add(part, "a", w.now)
	}
	if of := w.run(t, w.owned(part)); of.frozen != 0 {
		t.Errorf("%d late measurements are counted, want none", of.frozen)
	}
	if _, counts = w.rowsOf("1h"); counts[at] != 6 {
		t.Errorf("the row has %d measurements, want the 6 that are shown", counts[at])
	}
}

// TestExpiredHoursKeepTheirRows checks that totals outlive measurements, and that measurements for expired hours are counted.
func TestExpiredHoursKeepTheirRows(t *testing.T) {
	w, p := still(t, 4)
	w.run(t, p)
	at := cell{"a", rollup.FloorTo(w.now.UnixMilli(), hourMs)}
	before := w.now
	w.now = w.now.Add(keptFor + 2*time.Hour)
	w.expire()
	part := w.parts[0]
	w.add(part, "a", before)
	w.add(part, "a", w.now)
	if of := w.run(t, w.owned(part)); of.frozen != 1 {
		t.Errorf("%d late measurements are counted, want 1", of.frozen)
	}
	_, counts := w.rowsOf("1h")
	if counts[at] != 4 || counts[cell{"a", rollup.FloorTo(w.now.UnixMilli(), hourMs)}] != 1 {
		t.Errorf("the rows are %v", counts)
	}
	if _, days := w.rowsOf("1d"); days[cell{"a", rollup.FloorTo(before.UnixMilli(), dayMs)}] < 4 {
		t.Errorf("the days are %v", days)
	}
}

// TestEqualRowsAreWritten checks that equal rows are written. A keeper that has read the document before, and older sources, must
// notice.
func TestEqualRowsAreWritten(t *testing.T) {
	w, p := still(t, 2)
	w.run(t, p)
	of, err := w.work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := of.positions(t.Context(), p.Source, 0, p.Done); err != nil {
		t.Fatal(err)
	}
	for _, level := range []string{"1m", "1h", "1d"} {
		for _, d := range w.mem.now()[level] {
			if rev, _ := d.Lookup("control", "rev").AsInt64OK(); rev != 2 {
				t.Errorf("an equal document of level %s has revision %d after two computations", level, rev)
			}
		}
	}
}

// TestNoteStaysUntilItsEditIsLongOver checks that an interrupted command leaves its rows to be computed again.
func TestNoteStaysUntilItsEditIsLongOver(t *testing.T) {
	w, p := still(t, 3)
	w.run(t, p)
	meta := encoded(bson.D{{Key: "m", Value: "a"}}).Lookup("m")
	noted, err := sink.BeginRollupEdit(t.Context(), w.ports(), time.Second, []bson.RawValue{meta}, true)
	if err != nil || noted == nil {
		t.Fatal(noted, err)
	}
	compute := func() (left int) {
		of, err := w.work(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		notes, err := of.rollups.Notes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range notes {
			if _, gone, err := of.note(t.Context(), &notes[i]); err != nil {
				t.Fatal(err)
			} else if !gone {
				left++
			}
		}
		return left
	}
	if compute() != 1 {
		t.Error("an early note has gone: its edit goes on")
	}
	w.mem.write("buckets", func(all map[string]bson.Raw) { clear(all) })
	if compute() != 1 {
		t.Error("an early note has gone: its edit goes on")
	}
	for _, level := range []string{"1m", "1h", "1d"} {
		if _, counts := w.rowsOf(level); len(counts) > 0 {
			t.Errorf("level %s has the rows %v of a deleted series", level, counts)
		}
	}
	if err := noted.Done(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if compute() != 1 {
		t.Error("an early note has gone: writes from before the edit may still be executed")
	}
	if w.now = w.now.Add(noteLinger); compute() != 0 {
		t.Error("the note of an edit that is long over is left")
	}
	if compute() != 0 {
		t.Error("the note has come back")
	}
}

// forgetful is a collection whose first answer to an insert is lost.
type forgetful struct {
	memoryCollection
	lost *bool
}

func (f forgetful) Insert(ctx context.Context, documents []bson.Raw) (mongodb.Reply, error) {
	reply, err := f.memoryCollection.Insert(ctx, documents)
	if !*f.lost {
		*f.lost, err = true, errors.New("no answer")
	}
	return reply, err
}

// TestNotesOfAnEditAreWrittenOnce checks that a command leaves no second note, which would never be marked, if an answer is lost.
func TestNotesOfAnEditAreWrittenOnce(t *testing.T) {
	w, _ := still(t, 1)
	meta := encoded(bson.D{{Key: "m", Value: "a"}}).Lookup("m")
	ports := w.ports()
	ports.Options = forgetful{memoryCollection{w.mem, "options"}, new(bool)}
	noted, err := sink.BeginRollupEdit(t.Context(), ports, time.Second, []bson.RawValue{meta}, true)
	if err == nil || noted == nil {
		t.Fatal(noted, err)
	}
	if err := errors.Join(noted.Note(t.Context()), noted.Done(t.Context(), time.Time{})); err != nil {
		t.Fatal(err)
	}
	notes, err := w.rollups().Notes(t.Context())
	if err != nil || len(notes) != 1 || notes[0].Edited.IsZero() {
		t.Errorf("the notes are %+v: %v", notes, err)
	}
}

// TestNoteWaitsUntilQueriesSeeTheEdit has an edit of a bucket that is not shown yet. Queries see its measurements in a segment
// until then, under the former meta.
func TestNoteWaitsUntilQueriesSeeTheEdit(t *testing.T) {
	w, p := still(t, 3)
	w.run(t, p)
	meta := encoded(bson.D{{Key: "m", Value: "a"}}).Lookup("m")
	noted, err := sink.BeginRollupEdit(t.Context(), w.ports(), time.Second, []bson.RawValue{meta}, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := noted.Done(t.Context(), w.now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		after       time.Duration
		whole, gone bool
	}{{0, false, false}, {time.Hour - time.Millisecond, false, false}, {time.Millisecond, true, false}, {noteLinger, true, true}} {
		w.now = w.now.Add(want.after)
		of, err := w.work(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		notes, err := of.rollups.Notes(t.Context())
		if err != nil || len(notes) != 1 {
			t.Fatal(notes, err)
		}
		if whole, gone, err := of.note(t.Context(), &notes[0]); err != nil || whole != want.whole || gone != want.gone {
			t.Errorf("%s later: the edit is seen as a whole: %t, the note is gone: %t, %v", want.after, whole, gone, err)
		}
	}
}
