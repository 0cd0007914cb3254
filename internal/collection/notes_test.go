package collection_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
)

// noted returns the positions in the notes of a kind.
func noted(t *testing.T, options *shelf, kind string) (all []timeseries.Position) {
	t.Helper()
	for _, d := range options.documents {
		if id, _ := d.Lookup("_id").StringValueOK(); !strings.HasPrefix(id, kind+"/") {
			continue
		}
		values, err := d.Lookup("control", "source", "offsets").Array().Values()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			_, encoded := v.Binary()
			if all, err = timeseries.DecodePositions(all, encoded); err != nil {
				t.Fatal(err)
			}
		}
	}
	slices.SortFunc(all, timeseries.Position.Compare)
	return slices.Compact(all)
}

// TestWhatGrowsMeanwhileIsNotedWhole checks that measurements a bucket gets between a read and a write are noted before they are
// edited.
func TestWhatGrowsMeanwhileIsNotedWhole(t *testing.T) {
	for name, deletes := range map[string]bool{"delete": true, "change": false} {
		t.Run(name, func(t *testing.T) {
			bucket := bucketOf("a", minute, records(100, 3)...)
			buckets, options := &shelf{t: t, documents: []bson.Raw{bucket}}, &shelf{t: t}
			grown := int64(0)
			options.before = func() { // the bucket was read, and is about to be noted
				if grown++; grown <= 3 {
					positions := bson.Binary{Data: timeseries.AppendPositions(nil, records(200, 3+int(grown)))}
					buckets.update(raw(t, bson.D{{Key: "_id", Value: bucket.Lookup("_id")}}), raw(t, bson.D{{Key: "$set", Value: bson.D{
						{Key: "control.count", Value: int32(3 + grown)}, {Key: "control.source.offsets", Value: bson.A{positions}},
					}}}))
				}
			}
			meta := bucket.Lookup("meta")
			selection := collection.NewSelection(buckets, options, everything(t))
			after := raw(t, bson.D{{Key: "m", Value: "z"}}).Lookup("m")
			change := selection.Change([]collection.SelectedSeries{{Meta: meta}}, []collection.MetaChange{{Before: meta, After: after}}, silent)
			run1, edited, kind := change.Run, change.Edited, "changed"
			if deletes {
				deletion := selection.Delete(silent)
				run1, edited, kind = deletion.Run, deletion.Edited, "deleted"
			}
			if err := run1(t.Context()); err != nil {
				t.Fatal(err)
			}
			options.before = nil
			if e := edited(); e.Missed != 0 || e.Done != (collection.Amount{Buckets: 1, Measurements: 6}) {
				t.Errorf("%+v", e)
			}
			if diff := cmp.Diff(records(200, 6), slices.DeleteFunc(noted(t, options, kind), func(p timeseries.Position) bool { return p.Offset < 200 })); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNotesOfManyPositionsAreSplit checks that no document exceeds MongoDB's limit.
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
		all.documents = append(all.documents, bucketOf("a", minute, positions...))
	}
	options := &shelf{t: t}
	if err := collection.NewSelection(all, options, everything(t)).Delete(silent).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(want, timeseries.Position.Compare)
	if got := noted(t, options, "deleted"); !slices.Equal(got, want) {
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

// TestADeletionLeavesSeriesThatAppear checks that a deletion of series leaves those alone that came after its plan. No note asks
// for their rollups to be computed again.
func TestADeletionLeavesSeriesThatAppear(t *testing.T) {
	planned, appeared := bucketOf("a", minute, records(100, 3)...), bucketOf("b", minute, records(200, 4)...)
	buckets, options := &shelf{t: t, documents: []bson.Raw{planned, appeared}}, &shelf{t: t}
	selection := collection.NewSelection(buckets, options, everything(t))
	for _, want := range []struct {
		metas []bson.RawValue
		left  int
		done  collection.Amount
		noted []timeseries.Position
	}{
		{nil, 2, collection.Amount{}, nil}, // nothing was selected
		{[]bson.RawValue{planned.Lookup("meta")}, 1, collection.Amount{Buckets: 1, Measurements: 3}, records(100, 3)},
	} {
		d := selection.DeleteSeries(want.metas, silent)
		if err := d.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e := d.Edited(); e.Done != want.done || e.Appeared != int64(want.left) || len(buckets.documents) != want.left {
			t.Errorf("%+v, and %d buckets are left", e, len(buckets.documents))
		}
		if diff := cmp.Diff(want.noted, noted(t, options, "deleted")); diff != "" {
			t.Error(diff)
		}
	}
}
