package collection_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb/mongodbtest"
	"waterwheel/internal/timeseries"
)

// TestIndexOfSegmentsIsNeeded checks waterwheel's own index. It is created if there are segments, and serves no filter of a user.
func TestIndexOfSegmentsIsNeeded(t *testing.T) {
	e := connect(t)
	e.as.Segments = collection.SegmentsOn
	for range 2 {
		e.setup(t)
		want := slices.Sorted(slices.Values(append(e.ownIndexes(t), "segments control.segment.owner_1_control.min.time_1")))
		if diff := cmp.Diff(want, e.summaries(t)); diff != "" {
			t.Error(diff)
		}
	}
	if err := collection.Of(e.Database, "events").DropIndex(t.Context(), "control.segment.owner_1_control.min.time_1"); err == nil || !strings.Contains(err.Error(), "queries find segments with it") {
		t.Errorf("dropping it: %v", err)
	}
	list, err := collection.Of(e.Database, "events").Indexes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	advice, err := list.Options.Advise(ext(t, `{"control.segment.owner": "7"}`), list.Definitions(false))
	if err != nil || advice.Index != "" {
		t.Errorf("a filter on a field of the same name is served by %q, %v", advice.Index, err)
	}
}

// TestBoundsOfSegmentsAreIndexed checks the index for each part of the meta that queries use. It may be dropped, and the next
// start creates it again. Segments with arrays there do not prevent a start.
func TestBoundsOfSegmentsAreIndexed(t *testing.T) {
	e := connect(t)
	e.as = collection.Settings{Segments: collection.SegmentsOn, MetaPaths: []string{"meta.sensor", "meta.site.name"}}
	const sensor, site = "control.max.meta.sensor_1_control.min.meta.sensor_1", "control.max.meta.site.name_1_control.min.meta.site.name_1"
	check := func(step string, bounds ...string) {
		t.Helper()
		e.setup(t)
		want := append(e.ownIndexes(t), "segments control.segment.owner_1_control.min.time_1")
		for _, name := range bounds {
			want = append(want, "bounds "+name)
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, e.summaries(t)); diff != "" {
			t.Errorf("%s: %s", step, diff)
		}
	}
	check("at first", sensor, site)
	check("once more", sensor, site)
	for _, name := range []string{sensor, site} {
		if err := collection.Of(e.Database, "events").DropIndex(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	tags := bson.D{{Key: "meta", Value: bson.D{{Key: "sensor", Value: bson.A{"a", "b"}}}}}
	segment := bson.D{{Key: "control", Value: bson.D{
		{Key: "min", Value: tags}, {Key: "max", Value: tags}, {Key: "segment", Value: bson.D{{Key: "owner", Value: "0/0"}}},
	}}}
	if _, err := e.Raw.Collection("events.buckets").InsertOne(t.Context(), segment); err != nil {
		t.Fatal(err)
	}
	if !e.refusesParallelArrays(t) {
		t.Skip("this server indexes parallel arrays")
	}
	check("with arrays", site)
}

func TestIndexesAreOfMeasurements(t *testing.T) {
	e := connect(t)
	ctx := t.Context()
	if _, err := collection.Of(e.Database, "events").Indexes(ctx); !errors.Is(err, collection.ErrNotSetUp) {
		t.Errorf("before the set-up: %v", err)
	}
	e.setup(t)
	want := e.ownIndexes(t)
	check := func(step string) {
		t.Helper()
		slices.Sort(want)
		if diff := cmp.Diff(want, e.summaries(t)); diff != "" {
			t.Errorf("%s: %s", step, diff)
		}
	}
	check("after the set-up")

	index := userIndex(t, `{"meta.sensor": 1, "time": -1}`, "")
	for i, made := range []bool{true, false} {
		got, now, err := collection.Of(e.Database, "events").CreateIndex(ctx, index)
		if err != nil || now != made || summary(t, got) != `user meta.sensor_1_time_-1 {"meta.sensor":1,"time":-1} kept` {
			t.Fatalf("time %d: made %v, %v, %v", i, now, summary(t, got), err)
		}
	}
	want = append(want, `user meta.sensor_1_time_-1 {"meta.sensor":1,"time":-1} kept`)
	check("created")

	isConflict := func(err error) bool { return err != nil && strings.Contains(err.Error(), "exists already") }
	if _, _, err := collection.Of(e.Database, "events").CreateIndex(ctx, userIndex(t, `{"meta.site": 1}`, `{"name": "meta.sensor_1_time_-1"}`)); !isConflict(err) {
		t.Errorf("a taken name: %v", err)
	}
	if _, _, err := collection.Of(e.Database, "events").CreateIndex(ctx, userIndex(t, `{"meta.sensor": 1, "time": -1}`, `{"name": "again"}`)); !isConflict(err) {
		t.Errorf("taken keys: %v", err)
	}
	var refused *timeseries.Error
	if _, _, err := collection.Of(e.Database, "events").CreateIndex(ctx, userIndex(t, `{"meta": "text"}`, "")); !errors.As(err, &refused) || refused.CodeName() != "InvalidOptions" {
		t.Errorf("a text index: %v", err)
	}

	// Indexes of others are mapped back by rule if possible, and shown unchanged otherwise.
	for _, keys := range []bson.D{
		{{Key: "meta.site", Value: 1}, {Key: "control.min.time", Value: 1}, {Key: "control.max.time", Value: 1}},
		{{Key: "control.count", Value: 1}},
	} {
		command := bson.D{{Key: "createIndexes", Value: "events.buckets"}, {Key: "indexes", Value: bson.A{
			bson.D{{Key: "key", Value: keys}, {Key: "name", Value: "by hand, on " + keys[0].Key}},
		}}}
		if err := e.Raw.RunCommand(ctx, command).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want = append(want, `user by hand, on meta.site {"meta.site":1,"time":1}`, "foreign by hand, on control.count")
	check("beside others'")

	for _, name := range []string{"_id_", "meta_1_control.min.time_1", "control.source.topicId_1_control.source.partition_1_control.source.last_1"} {
		isNeeded := func(err error) bool { return err != nil && strings.Contains(err.Error(), "is needed") }
		if err := collection.Of(e.Database, "events").DropIndex(ctx, name); !isNeeded(err) {
			t.Errorf("dropping %s: %v", name, err)
		}
		if _, err := collection.Of(e.Database, "events").HideIndex(ctx, name, true); !isNeeded(err) {
			t.Errorf("hiding %s: %v", name, err)
		}
	}
	var none *collection.NoIndexError
	if err := collection.Of(e.Database, "events").DropIndex(ctx, "nothing"); !errors.As(err, &none) || !slices.Contains(none.Have, "meta.sensor_1_time_-1") {
		t.Errorf("dropping nothing: %v", err)
	}

	// If another client drops the index, the definition is reported as gone, and removed.
	if err := e.Raw.Collection("events.buckets").Indexes().DropOne(ctx, "meta.sensor_1_time_-1"); err != nil {
		t.Fatal(err)
	}
	want = slices.DeleteFunc(want, func(s string) bool { return strings.HasSuffix(s, "kept") })
	want = append(want, "gone meta.sensor_1_time_-1")
	check("dropped by another")
	for _, name := range []string{"meta.sensor_1_time_-1", "by hand, on meta.site", "by hand, on control.count"} {
		if err := collection.Of(e.Database, "events").DropIndex(ctx, name); err != nil {
			t.Errorf("dropping %s: %v", name, err)
		}
	}
	want = e.ownIndexes(t)
	check("all dropped")
	e.setup(t) // no index prevents a consumer's start
}

// TestIndexOptionsAreMadeOrRefused checks this because an ignored option would make an index that does not do what it says.
func TestIndexOptionsAreMadeOrRefused(t *testing.T) {
	e := connect(t)
	e.setup(t)
	for options, check := range map[string]func(collection.Index) bool{
		`{"name": "a", "hidden": true}`: func(i collection.Index) bool { return i.Hidden },
		`{"name": "b", "partialFilterExpression": {"meta.site": "x"}}`: func(i collection.Index) bool {
			return i.User.Options.Lookup("partialFilterExpression", "meta.site").StringValue() == "x"
		},
		`{"name": "c", "expireAfterSeconds": 60, "partialFilterExpression": {"meta.site": "x"}}`: func(i collection.Index) bool { return i.User.Options.Lookup("expireAfterSeconds").AsInt64() == 60 },
	} {
		index, made, err := collection.Of(e.Database, "events").CreateIndex(t.Context(), userIndex(t, `{"time": 1}`, options))
		if err != nil {
			t.Logf("this server refuses %s: %v", options, err)
			if diff := cmp.Diff(e.ownIndexes(t), e.summaries(t)); diff != "" {
				t.Errorf("%s: something stayed of it: %s", options, diff)
			}
			continue
		}
		if !made || !check(index) {
			t.Errorf("%s became %s with %v", options, summary(t, index), index.User.Options)
		}
		if err := collection.Of(e.Database, "events").DropIndex(t.Context(), index.Name); err != nil {
			t.Error(err)
		}
	}
	if _, err := collection.Of(e.Database, "events").HideIndex(t.Context(), "nothing", true); err == nil {
		t.Error("hiding nothing")
	}
}

func TestIndexOnMixedKindsIsRefused(t *testing.T) {
	e := connect(t)
	e.setup(t)
	bucket := func(low, high any) bson.D {
		of := func(v any) bson.D { return bson.D{{Key: "x", Value: bson.D{{Key: "y", Value: v}}}} }
		return bson.D{{Key: "control", Value: bson.D{{Key: "min", Value: of(low)}, {Key: "max", Value: of(high)}}}}
	}
	buckets := e.Raw.Collection("events.buckets")
	segment := bucket(3, "a") // of several series
	segment[0].Value = append(segment[0].Value.(bson.D), bson.E{Key: "segment", Value: bson.D{{Key: "owner", Value: "0/0"}}})
	if _, err := buckets.InsertMany(t.Context(), []any{bucket(1, 2.5), bucket(int64(1), 2), bucket("a", "b"), segment, bson.D{}}); err != nil {
		t.Fatal(err)
	}
	index := userIndex(t, `{"x.y": 1}`, "")
	if _, _, err := collection.Of(e.Database, "events").CreateIndex(t.Context(), index); err != nil {
		t.Fatalf("each bucket is of one kind: %v", err)
	}
	if err := collection.Of(e.Database, "events").DropIndex(t.Context(), "x.y_1"); err != nil {
		t.Fatal(err)
	}
	if _, err := buckets.InsertOne(t.Context(), bucket(3, "a")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := collection.Of(e.Database, "events").CreateIndex(t.Context(), index); err == nil || !strings.HasPrefix(err.Error(), "x.y cannot be indexed") {
		t.Errorf("with a mixed one: %v", err)
	}
	if _, _, err := collection.Of(e.Database, "events").CreateIndex(t.Context(), userIndex(t, `{"meta.x": 1, "time": 1}`, "")); err != nil {
		t.Errorf("on the meta: %v", err)
	}
}

// TestIndexDefinitionsAtOnce checks concurrent commands. Each ends, and the index has one of the definitions.
func TestIndexDefinitionsAtOnce(t *testing.T) {
	e := connect(t)
	e.setup(t)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			create := collection.Of(e.Database, "events").CreateIndex
			if i%2 == 0 {
				create = collection.Of(e.Database, "events").CreateIndexForMeta
			}
			_, _, err := create(t.Context(), userIndex(t, `{"meta.a": 1, "time": 1}`, ""))
			if err != nil && !errors.Is(err, collection.ErrChangedMeanwhile) && !strings.Contains(err.Error(), "exists already") {
				t.Error(err)
			}
		})
	}
	all.Wait()
	found := slices.ContainsFunc(e.summaries(t), func(s string) bool {
		return strings.HasPrefix(s, `user meta.a_1_time_1 {"meta.a":1,"time":1} kept`)
	})
	if !found {
		t.Error(e.summaries(t))
	}
	// A damaged document is no definition any more, and the next command rewrites it.
	edit := bson.D{{Key: "$set", Value: bson.D{{Key: "keys", Value: 7}}}}
	if _, err := e.Raw.Collection("events.options").UpdateByID(t.Context(), "index/meta.a_1_time_1", edit); err != nil {
		t.Fatal(err)
	}
	if all := e.summaries(t); !slices.Contains(all, `user meta.a_1_time_1 {"meta.a":1,"time":1}`) {
		t.Errorf("damaged: %v", all)
	}
	if _, made, err := collection.Of(e.Database, "events").CreateIndex(t.Context(), userIndex(t, `{"meta.a": 1, "time": 1}`, "")); err != nil || made {
		t.Errorf("made %v, %v", made, err)
	}
	if all := e.summaries(t); !slices.Contains(all, `user meta.a_1_time_1 {"meta.a":1,"time":1} kept`) {
		t.Errorf("written anew: %v", all)
	}
}

func TestMetaIndexesAreComparedAndMade(t *testing.T) {
	e := connect(t)
	e.setup(t)
	ctx := t.Context()
	if _, _, err := collection.Of(e.Database, "events").CreateIndex(ctx, userIndex(t, `{"meta.b": -1, "time": -1}`, "")); err != nil {
		t.Fatal(err)
	}
	paths := []string{"meta.a", "meta.b", "meta.c"}
	missing, err := collection.Of(e.Database, "events").MissingMetaIndexes(ctx, paths)
	if diff := cmp.Diff([]string{"meta.a", "meta.c"}, missing); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, path := range missing {
		if _, made, err := collection.Of(e.Database, "events").CreateMetaIndex(ctx, path); err != nil || !made {
			t.Errorf("%s: made %v, %v", path, made, err)
		}
	}
	list, err := collection.Of(e.Database, "events").Indexes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ paths, missing, unasked []string }{
		{paths, nil, nil},
		{[]string{"meta.a"}, nil, []string{"meta.c_1_time_-1"}},
		{nil, nil, []string{"meta.a_1_time_-1", "meta.c_1_time_-1"}},
		{[]string{"meta.d"}, []string{"meta.d"}, []string{"meta.a_1_time_-1", "meta.c_1_time_-1"}},
	} {
		missing, unasked := list.CompareMetaIndexes(c.paths)
		slices.Sort(unasked)
		if !slices.Equal(missing, c.missing) || !slices.Equal(unasked, c.unasked) {
			t.Errorf("%v: missing %q, unasked %q", c.paths, missing, unasked)
		}
	}
	// An index requested by a command is kept, no matter what META_INDEXES says.
	if _, made, err := collection.Of(e.Database, "events").CreateIndex(ctx, userIndex(t, `{"meta.a": 1, "time": -1}`, "")); err != nil || made {
		t.Fatal(made, err)
	}
	if list, err = collection.Of(e.Database, "events").Indexes(ctx); err != nil {
		t.Fatal(err)
	}
	if _, unasked := list.CompareMetaIndexes(nil); !slices.Equal(unasked, []string{"meta.c_1_time_-1"}) {
		t.Errorf("unasked: %q", unasked)
	}
}

func TestIndexStatistics(t *testing.T) {
	o := definition
	o.MaxSpanSeconds = 3600
	f, _ := indexServer(t, o)
	d := mongodbtest.Open(t, f)
	if _, _, err := collection.Of(d, "events").CreateIndex(t.Context(), userIndex(t, `{"meta.a": 1}`, "")); err != nil {
		t.Fatal(err)
	}
	list, err := collection.Of(d, "events").Indexes(t.Context())
	if err != nil || list.NoSizes == nil || list.NoUses == nil || list.Indexes[0].Bytes != -1 || list.Indexes[0].Uses != -1 {
		t.Errorf("a server that knows neither: %+v, %v", list, err)
	}
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Answer("collStats", func(bson.Raw) bson.D {
		return bson.D{{Key: "indexSizes", Value: bson.D{{Key: "meta.a_1", Value: int64(4096)}}}}
	})
	f.Answer("aggregate", func(bson.Raw) bson.D {
		used := func(ops int64, at time.Time, building bool) bson.D {
			return bson.D{{Key: "name", Value: "meta.a_1"}, {Key: "building", Value: building}, {Key: "accesses", Value: bson.D{{Key: "ops", Value: ops}, {Key: "since", Value: at}}}}
		}
		return mongodbtest.CursorOf(used(3, since.Add(time.Hour), false), used(4, since, true)) // of two shards
	})
	list, err = collection.Of(d, "events").Indexes(t.Context())
	if i := list.Indexes[0]; err != nil || list.NoSizes != nil || list.NoUses != nil || i.Bytes != 4096 || i.Uses != 7 || !i.Since.Equal(since) || !i.Building {
		t.Errorf("%+v, %v", list, err)
	}
	if n := len(list.Definitions(true)); n != 0 {
		t.Errorf("an index that is being built serves %d filters", n)
	}
}

func TestIndexIsHidden(t *testing.T) {
	o := definition
	o.MaxSpanSeconds = 3600
	f, specs := indexServer(t, o)
	d := mongodbtest.Open(t, f)
	if _, _, err := collection.Of(d, "events").CreateIndex(t.Context(), userIndex(t, `{"meta.a": 1}`, "")); err != nil {
		t.Fatal(err)
	}
	if _, err := collection.Of(d, "events").HideIndex(t.Context(), "meta.a_1", true); err == nil || !strings.Contains(err.Error(), "cannot hide indexes") {
		t.Errorf("a server that cannot: %v", err)
	}
	f.Answer("collMod", func(bson.Raw) bson.D { return bson.D{} })
	if _, err := collection.Of(d, "events").HideIndex(t.Context(), "meta.a_1", true); err == nil || !strings.Contains(err.Error(), "did not make it") {
		t.Errorf("a server that does nothing: %v", err)
	}
	f.Answer("collMod", func(command bson.Raw) bson.D {
		hidden := command.Lookup("index", "hidden").Boolean()
		(*specs)[0] = marshal(bson.D{{Key: "key", Value: bson.D{{Key: "meta.a", Value: 1}}}, {Key: "name", Value: "meta.a_1"}, {Key: "hidden", Value: hidden}})
		return bson.D{}
	})
	for _, hidden := range []bool{true, false} {
		for _, changes := range []bool{true, false} {
			if changed, err := collection.Of(d, "events").HideIndex(t.Context(), "meta.a_1", hidden); err != nil || changed != changes {
				t.Errorf("hidden %v: changed %v, %v", hidden, changed, err)
			}
		}
	}
}

// TestHiddenIndexIsNotMissing checks that consumers start while an operator hides an index of any name for a trial.
func TestHiddenIndexIsNotMissing(t *testing.T) {
	o := definition
	o.MaxSpanSeconds = 3600
	f, _ := indexServer(t, o)
	d := mongodbtest.Open(t, f)
	if _, _, err := collection.Of(d, "events").CreateIndex(t.Context(), userIndex(t, `{"meta.a": 1, "time": 1}`, `{"name": "mine", "hidden": true}`)); err != nil {
		t.Fatal(err)
	}
	missing, err := collection.Of(d, "events").MissingMetaIndexes(t.Context(), []string{"meta.a", "meta.b"})
	if diff := cmp.Diff([]string{"meta.b"}, missing); err != nil || diff != "" {
		t.Error(err, diff)
	}
	list, err := collection.Of(d, "events").PlainIndexes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lacking, _ := list.CompareMetaIndexes([]string{"meta.a", "meta.b"})
	if diff := cmp.Diff([]string{"meta.a", "meta.b"}, lacking); diff != "" {
		t.Errorf("what no query can use: %s", diff)
	}
}
