package collection_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
	"waterwheel/internal/timeseries"
)

// TestCreateIndexTellsItsConsequences covers an index on a name that no measurement has, and one that makes MongoDB refuse
// measurements.
func TestCreateIndexTellsItsConsequences(t *testing.T) {
	e := connect(t)
	e.setup(t)
	of := func(fields bson.D) bson.D { return bson.D{{Key: "min", Value: fields}, {Key: "max", Value: fields}} }
	bucket := bson.D{
		{Key: "meta", Value: bson.D{{Key: "device", Value: "d-1"}, {Key: "site", Value: bson.D{{Key: "floor", Value: 3}}}}},
		{Key: "control", Value: of(bson.D{{Key: "time", Value: bson.DateTime(5)}, {Key: "celsius", Value: 21.5}, {Key: "wind", Value: bson.D{{Key: "speed", Value: 3}}}})},
	}
	segment := bson.D{{Key: "control", Value: append(of(bson.D{{Key: "meta", Value: bson.D{{Key: "zone", Value: 7}}}}), bson.E{Key: "segment", Value: bson.D{{Key: "owner", Value: "0/0"}}})}}
	const (
		refusing   = "while this index exists, MongoDB refuses a measurement with "
		deadLetter = ": it becomes a dead letter (refused_by_database)"
		nowhere    = "no measurement in the newest 2 buckets and segments has "
		vain       = ": the index finds nothing there"
	)
	made := func(keys string) []string {
		t.Helper()
		index, is, err := collection.Of(e.Database, "events").CreateIndex(t.Context(), userIndex(t, keys, ""))
		if err != nil || !is {
			t.Fatalf("%s: made %v, %v", keys, is, err)
		}
		if err := collection.Of(e.Database, "events").DropIndex(t.Context(), index.Name); err != nil {
			t.Fatal(err)
		}
		return index.Doubts
	}
	if got := made(`{"device": 1}`); !slices.Equal(got, []string{refusing + "an array in device" + deadLetter}) {
		t.Errorf("where nothing is stored: %q", got)
	}
	if _, err := e.Raw.Collection("events.buckets").InsertMany(t.Context(), []any{bucket, segment}); err != nil {
		t.Fatal(err)
	}
	for keys, want := range map[string][]string{
		`{"meta.device": 1, "time": -1}`: nil,
		`{"meta.zone": 1}`:               nil,
		`{"meta": 1}`:                    nil,
		`{"celsius": -1, "time": 1}`:     {refusing + "an array in celsius" + deadLetter},
		`{"meta.device": 1, "meta.site.floor": 1, "wind.speed": 1}`: {
			refusing + "an array in wind.speed" + deadLetter, refusing + "arrays in two of meta.device, meta.site.floor" + deadLetter,
		},
		`{"device": 1}`:           {nowhere + "device" + vain + ". They have meta.device: drop this index, and create one on that path", refusing + "an array in device" + deadLetter},
		`{"meta.wind.speed": 1}`:  {nowhere + "meta.wind.speed" + vain + ". They have wind.speed: drop this index, and create one on that path"},
		`{"meta.site.room": 1}`:   {nowhere + "meta.site.room" + vain},
		`{"meta.device.type": 1}`: {nowhere + "meta.device.type" + vain},
	} {
		if diff := cmp.Diff(want, made(keys)); diff != "" {
			t.Errorf("%s: %s", keys, diff)
		}
	}
	_, _, err := collection.Of(e.Database, "events").CreateIndexForMeta(t.Context(), userIndex(t, `{"meta.nothing": 1}`, ""))
	if err != nil {
		t.Error(err)
	}
}

// TestRefusedIndexesAreExplained checks this because MongoDB names its own index types and keys, which differ from the user's.
func TestRefusedIndexesAreExplained(t *testing.T) {
	o := definition
	o.MaxSpanSeconds = 3600
	for name, c := range map[string]struct {
		keys    string
		code    int32
		message string
		says    string
	}{
		"no such kind":      {`{"place": "2dsphere"}`, 67, "Unknown index plugin '2dsphere_bucket'", "cannot create a 2dsphere index on a field outside the meta (place): MongoDB 5.2"},
		"another cause":     {`{"place": 1}`, 67, "too many indexes", "creating the index: MongoDB refuses the request with code 67, CannotCreateIndex: too many indexes"},
		"an array":          {`{"x": 1, "time": 1}`, 171, "cannot index parallel arrays [max] [min]", "a measurement has an array in x: MongoDB cannot index it"},
		"arrays in metas":   {`{"meta.a": 1, "meta.b": 1}`, 171, "cannot index parallel arrays [a] [b]", "a meta has arrays in two keys of the index"},
		"a kind for a meta": {`{"meta.place": "2dsphere"}`, 67, "no", "creating the index: MongoDB refuses the request"},
	} {
		f, _ := indexServer(t, o)
		f.Answer("createIndexes", mongodbtest.Failing(c.code, c.message))
		_, _, err := collection.Of(mongodbtest.Open(t, f), "events").CreateIndex(t.Context(), userIndex(t, c.keys, ""))
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v", name, err)
		}
		if refused, ok := errors.AsType[*mongodb.RefusedError](err); !ok || refused.Code != c.code {
			t.Errorf("%s: the code is lost in %v", name, err)
		}
	}
}

// TestSampleOfNothing checks that nothing is said about any path if nothing is stored.
func TestSampleOfNothing(t *testing.T) {
	e := connect(t)
	e.setup(t)
	sample, err := collection.Of(e.Database, "events").SampleFields(t.Context(), timeseries.Options{TimeField: "time"}, "x")
	if err != nil || sample.Documents != 0 || sample.Has("x") {
		t.Errorf("%+v, %v", sample, err)
	}
}
