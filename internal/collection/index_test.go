package collection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
	"waterwheel/internal/timeseries"
)

// ext is a document in Extended JSON; "" gives none.
func ext(t testing.TB, s string) (raw bson.Raw) {
	t.Helper()
	if s == "" {
		return nil
	}
	if err := bson.UnmarshalExtJSON([]byte(s), false, &raw); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return raw
}

func userIndex(t testing.TB, keys, options string) timeseries.Index {
	t.Helper()
	return timeseries.Index{Keys: ext(t, keys), Options: ext(t, options)}
}

// summary is an index in one line.
func summary(t *testing.T, i collection.Index) string {
	t.Helper()
	text := fmt.Sprintf("%s %s", i.Kind, i.Name)
	if i.User.Keys != nil {
		keys, err := bson.MarshalExtJSON(i.User.Keys, false, false)
		if err != nil {
			t.Fatal(err)
		}
		text += " " + string(keys)
	}
	if i.Kept {
		text += " kept"
	}
	if i.Hidden {
		text += " hidden"
	}
	if i.Asked {
		text += " asked"
	}
	return text
}

func (e *env) summaries(t *testing.T) (all []string) {
	t.Helper()
	list, err := collection.Of(e.Database, "events").Indexes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list.Indexes {
		all = append(all, summary(t, i))
	}
	for _, name := range list.Gone {
		all = append(all, "gone "+name)
	}
	slices.Sort(all)
	return all
}

// ownIndexes are those that a time series has from its beginning: one is for the view, where the server has one of its own stage.
func (e *env) ownIndexes(t *testing.T) []string {
	t.Helper()
	all := []string{
		"_id _id_",
		`series meta_1_control.min.time_1 {"meta":1,"time":1}`,
		"source control.source.topicId_1_control.source.partition_1_control.source.last_1",
	}
	view, err := collection.Of(e.Database, "events").View(t.Context(), collection.ViewAuto)
	if err != nil {
		t.Fatal(err)
	}
	if view.Kind == collection.ViewInternal {
		all = append(all, `view meta_1_control.max.time_-1_control.min.time_-1 {"meta":1,"time":-1}`)
	}
	return all
}

// TestIndexOfSegmentsIsNeeded: it is waterwheel's own, made where there are segments, and serves no filter of a user.
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
	if err := collection.Of(e.Database, "events").DropIndex(t.Context(), "control.segment.owner_1_control.min.time_1"); err == nil || !strings.Contains(err.Error(), "finds segments by it") {
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

// TestBoundsOfSegmentsAreIndexed: for each part of the meta that queries ask for. They may be dropped, and the next start makes them again;
// segments with arrays there keep nobody from starting.
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

// refusesParallelArrays reports whether the server refuses an index with two keys that are arrays in a document.
func (e *env) refusesParallelArrays(t *testing.T) bool {
	t.Helper()
	c := e.Raw.Collection("arrays")
	if _, err := c.InsertOne(t.Context(), bson.D{{Key: "a", Value: bson.A{1, 2}}, {Key: "b", Value: bson.A{1, 2}}}); err != nil {
		t.Fatal(err)
	}
	command := bson.D{{Key: "createIndexes", Value: c.Name()}, {Key: "indexes", Value: bson.A{
		bson.D{{Key: "key", Value: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}}, {Key: "name", Value: "both"}},
	}}}
	return e.Raw.RunCommand(t.Context(), command).Err() != nil
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

	var conflict *collection.IndexConflictError
	if _, _, err := collection.Of(e.Database, "events").CreateIndex(ctx, userIndex(t, `{"meta.site": 1}`, `{"name": "meta.sensor_1_time_-1"}`)); !errors.As(err, &conflict) {
		t.Errorf("a taken name: %v", err)
	}
	if _, _, err := collection.Of(e.Database, "events").CreateIndex(ctx, userIndex(t, `{"meta.sensor": 1, "time": -1}`, `{"name": "again"}`)); !errors.As(err, &conflict) {
		t.Errorf("taken keys: %v", err)
	}
	var refused *timeseries.Error
	if _, _, err := collection.Of(e.Database, "events").CreateIndex(ctx, userIndex(t, `{"meta": "text"}`, "")); !errors.As(err, &refused) || refused.CodeName() != "InvalidOptions" {
		t.Errorf("a text index: %v", err)
	}

	// Made by others: mapped back by rule where that can be, and shown as it is where not.
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
		var needed *collection.NeededIndexError
		if err := collection.Of(e.Database, "events").DropIndex(ctx, name); !errors.As(err, &needed) {
			t.Errorf("dropping %s: %v", name, err)
		}
		if _, err := collection.Of(e.Database, "events").HideIndex(ctx, name, true); !errors.As(err, &needed) {
			t.Errorf("hiding %s: %v", name, err)
		}
	}
	var none *collection.NoIndexError
	if err := collection.Of(e.Database, "events").DropIndex(ctx, "nothing"); !errors.As(err, &none) || !slices.Contains(none.Have, "meta.sensor_1_time_-1") {
		t.Errorf("dropping nothing: %v", err)
	}

	// Another client drops it: the definition is told as gone, and cleaned.
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
	e.setup(t) // nothing of it is in the way of a consumer
}

// TestIndexOptionsAreMadeOrRefused: an option that the server ignores would be an index that does not do what it says.
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
	var mixed *collection.MixedKindsError
	if _, _, err := collection.Of(e.Database, "events").CreateIndex(t.Context(), index); !errors.As(err, &mixed) || mixed.Field != "x.y" {
		t.Errorf("with a mixed one: %v", err)
	}
	if _, _, err := collection.Of(e.Database, "events").CreateIndex(t.Context(), userIndex(t, `{"meta.x": 1, "time": 1}`, "")); err != nil {
		t.Errorf("on the meta: %v", err)
	}
}

// TestIndexDefinitionsAtOnce: whoever is quicker, each command ends, and the index has one of the definitions.
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
			if conflict := (*collection.IndexConflictError)(nil); err != nil && !errors.Is(err, collection.ErrChangedMeanwhile) && !errors.As(err, &conflict) {
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
	// A damaged document is a definition no more, and the next command writes it anew.
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
	// Whoever asks for it by command keeps it, whatever META_INDEXES says.
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

// indexServer is a fake that keeps indexes as MongoDB does.
func indexServer(t *testing.T, o timeseries.Options) (*mongodbtest.Fake, *[]bson.Raw) {
	t.Helper()
	f := mongodbtest.NewFake(t, mongodbtest.ReplicaSet)
	var mu sync.Mutex
	specs := &[]bson.Raw{}
	stored := bson.D{
		{Key: "_id", Value: "options"},
		{Key: "version", Value: int32(1)},
		{Key: "timeField", Value: o.TimeField},
		{Key: "metaField", Value: o.MetaField},
		{Key: "granularity", Value: string(o.Granularity)},
		{Key: "bucketMaxSpanSeconds", Value: o.MaxSpanSeconds},
	}
	kept := []any{}
	f.Answer("find", func(command bson.Raw) bson.D {
		mu.Lock()
		defer mu.Unlock()
		if id, ok := command.Lookup("filter", "_id").StringValueOK(); ok && id == "options" {
			return mongodbtest.CursorOf(stored)
		}
		if _, ranged := command.Lookup("filter", "_id").DocumentOK(); ranged {
			return mongodbtest.CursorOf(kept...)
		}
		return mongodbtest.CursorOf()
	})
	f.Answer("insert", func(command bson.Raw) bson.D {
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, command.Lookup("documents", "0").Document())
		return mongodbtest.Counting(1)(nil)
	})
	f.Answer("createIndexes", func(command bson.Raw) bson.D {
		mu.Lock()
		defer mu.Unlock()
		*specs = append(*specs, slices.Clone(command.Lookup("indexes", "0").Document()))
		return bson.D{}
	})
	f.Answer("listIndexes", func(bson.Raw) bson.D {
		mu.Lock()
		defer mu.Unlock()
		var all []any
		for _, s := range *specs {
			all = append(all, s)
		}
		return mongodbtest.CursorOf(all...)
	})
	return f, specs
}

// TestUserExpiryFollowsTheSpan makes an index that expires some series, and raises the granularity: the index must not delete a
// bucket before its last measurement is old enough.
func TestUserExpiryFollowsTheSpan(t *testing.T) {
	o := definition
	o.MaxSpanSeconds = 3600
	f, specs := indexServer(t, o)
	f.Answer("update", mongodbtest.Counting(1))
	d := mongodbtest.Open(t, f)
	index, made, err := collection.Of(d, "events").CreateIndex(t.Context(), userIndex(t, `{"time": 1}`, `{"expireAfterSeconds": 60, "partialFilterExpression": {"meta.kind": "debug"}}`))
	if err != nil || !made || !index.Kept || index.User.Options.Lookup("expireAfterSeconds").AsInt64() != 60 {
		t.Fatalf("%v %v %v", index, made, err)
	}
	if diff := cmp.Diff(`{"key": {"control.min.time": {"$numberInt":"1"}},"name": "time_1","partialFilterExpression": {"meta.kind": "debug"},`+
		`"expireAfterSeconds": {"$numberInt":"3660"}}`, (*specs)[0].String()); diff != "" {
		t.Error(diff)
	}
	f.Answer("listCollections", mongodbtest.EmptyCursor)
	f.Answer("collMod", func(bson.Raw) bson.D {
		for _, command := range f.Sent("update") {
			if id, _ := command.Lookup("updates", "0", "q", "_id").StringValueOK(); id == "options" {
				t.Error("the options were written before")
			}
		}
		return bson.D{}
	})
	if _, _, err := collection.Of(d, "events").SetBucketing(t.Context(), timeseries.Options{Granularity: timeseries.Minutes}); err != nil {
		t.Fatal(err)
	}
	written := slices.ContainsFunc(f.Sent("update"), func(command bson.Raw) bool {
		id, _ := command.Lookup("updates", "0", "q", "_id").StringValueOK()
		return id == "options"
	})
	if !written {
		t.Error("the options were not written")
	}
	changes := f.Sent("collMod")
	if len(changes) == 0 || changes[0].Lookup("index").String() != `{"name": "time_1","expireAfterSeconds": {"$numberLong":"86460"}}` {
		t.Errorf("%v", changes)
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
	if _, err := collection.Of(d, "events").HideIndex(t.Context(), "meta.a_1", true); err == nil || !strings.Contains(err.Error(), "not made it") {
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

// TestHiddenIndexIsNotMissing: consumers go on starting while an operator tries how it goes without an index, whatever its name.
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

// TestFirstExpiryMayBeBuiltForLong: MongoDB builds the index for longer than a change may hold the lock, and nothing ends that.
func TestFirstExpiryMayBeBuiltForLong(t *testing.T) {
	const timeout = 100 * time.Millisecond
	for _, lists := range []bool{true, false} { // while it is being built
		o := definition
		o.MaxSpanSeconds = 3600
		f, specs := indexServer(t, o)
		find := f.Answers["find"]
		f.Answer("update", func(command bson.Raw) bson.D {
			if set := command.Lookup("updates", "0", "u", "$set").Document(); set.Lookup("expireAfterSeconds").Type != 0 {
				f.Answer("find", func(command bson.Raw) bson.D {
					if id, ok := command.Lookup("filter", "_id").StringValueOK(); !ok || id != "options" {
						return find(command)
					}
					return mongodbtest.CursorOf(bson.D{
						{Key: "_id", Value: "options"},
						{Key: "version", Value: int32(2)},
						{Key: "timeField", Value: "time"},
						{Key: "metaField", Value: "meta"},
						{Key: "granularity", Value: "seconds"},
						{Key: "bucketMaxSpanSeconds", Value: int32(3600)},
						{Key: "expireAfterSeconds", Value: int64(60)},
					})
				})
			}
			return mongodbtest.Counting(1)(nil)
		})
		f.Answer("listCollections", mongodbtest.EmptyCursor)
		build := f.Answers["createIndexes"]
		f.Answer("createIndexes", func(command bson.Raw) bson.D {
			if lists {
				build(command)
			}
			time.Sleep(5 * timeout)
			if !lists {
				build(command)
			}
			return bson.D{}
		})
		d := mongodbtest.Open(t, f, func(o *mongodb.Options) { o.WriteTimeout = timeout })
		if _, _, err := collection.Of(d, "events").SetExpiry(t.Context(), 60); err != nil {
			t.Errorf("listed %v: %v", lists, err)
		}
		if len(*specs) != 1 || (*specs)[0].Lookup("expireAfterSeconds").AsInt64() != 3660 {
			t.Errorf("listed %v: %v", lists, *specs)
		}
		for _, command := range f.Sent("createIndexes") {
			if limit, err := command.LookupErr("maxTimeMS"); err == nil {
				t.Errorf("listed %v: MongoDB would end it after %v ms", lists, limit)
			}
		}
	}
}

// TestExpiryOfAnIndexBeingBuilt: MongoDB lists such an index and finds none to change. Nothing is written then, and it is said why.
func TestExpiryOfAnIndexBeingBuilt(t *testing.T) {
	o := definition
	o.MaxSpanSeconds = 3600
	f, specs := indexServer(t, o)
	f.Answer("listCollections", mongodbtest.EmptyCursor)
	f.Answer("collMod", mongodbtest.Failing(27, "cannot find index"))
	f.Answer("update", mongodbtest.Counting(1))
	f.Answer("find", func(bson.Raw) bson.D {
		return mongodbtest.CursorOf(bson.D{
			{Key: "_id", Value: "options"},
			{Key: "version", Value: int32(2)},
			{Key: "timeField", Value: "time"},
			{Key: "metaField", Value: "meta"},
			{Key: "granularity", Value: "seconds"},
			{Key: "bucketMaxSpanSeconds", Value: int32(3600)},
			{Key: "expireAfterSeconds", Value: int64(60)},
		})
	})
	*specs = append(*specs, marshal(bson.D{
		{Key: "key", Value: bson.D{{Key: "control.min.time", Value: 1}}},
		{Key: "name", Value: "control.min.time_1"},
		{Key: "expireAfterSeconds", Value: 3660},
	}))
	d := mongodbtest.Open(t, f)
	_, _, err := collection.Of(d, "events").SetExpiry(t.Context(), 7200)
	if err == nil || !strings.Contains(err.Error(), "may still be being built") {
		t.Error(err)
	}
	for _, command := range f.Sent("update") {
		if command.Lookup("updates", "0", "q", "_id").StringValue() == timeseries.DefinitionID {
			t.Errorf("the definition was written: %v", command)
		}
	}
}

// TestInterruptedBuildIsExplained: who waits no longer must know that MongoDB may go on.
func TestInterruptedBuildIsExplained(t *testing.T) {
	o := definition
	o.MaxSpanSeconds = 3600
	f, _ := indexServer(t, o)
	d := mongodbtest.Open(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	f.Answer("createIndexes", func(bson.Raw) bson.D {
		cancel()
		time.Sleep(50 * time.Millisecond) // for the client to notice first
		return bson.D{}
	})
	_, _, err := collection.Of(d, "events").CreateIndex(ctx, userIndex(t, `{"meta.a": 1}`, ""))
	if !errors.Is(err, collection.ErrInterruptedBuild) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestUserExpiryIsNeverTooEarly: whatever is kept of an index, and whenever the span grows, a measurement outlives what its user said.
func TestUserExpiryIsNeverTooEarly(t *testing.T) {
	const hour, minutes = 3600, 86400
	for name, c := range map[string]struct {
		grown   bool  // while MongoDB built the index
		byHand  int64 // The index was made anew by hand with these seconds. Zero means that it was not.
		want    int64 // seconds of the index, once the span is that of minutes
		changes int
	}{
		"as it was made":    {want: 60 + minutes, changes: 1},
		"made meanwhile":    {grown: true, want: 60 + minutes, changes: 1},
		"made anew by hand": {byHand: 7200 + hour, want: 7200 + minutes, changes: 1},
	} {
		o := definition
		o.MaxSpanSeconds = hour
		f, specs := indexServer(t, o)
		f.Answer("update", mongodbtest.Counting(1))
		f.Answer("listCollections", mongodbtest.EmptyCursor)
		set := func(seconds int64) {
			spec := (*specs)[0]
			(*specs)[0] = marshal(bson.D{
				{Key: "key", Value: spec.Lookup("key")},
				{Key: "name", Value: "time_1"},
				{Key: "partialFilterExpression", Value: spec.Lookup("partialFilterExpression")},
				{Key: "expireAfterSeconds", Value: seconds},
			})
		}
		f.Answer("collMod", func(command bson.Raw) bson.D {
			set(command.Lookup("index", "expireAfterSeconds").AsInt64())
			return bson.D{}
		})
		build, find := f.Answers["createIndexes"], f.Answers["find"]
		f.Answer("createIndexes", func(command bson.Raw) bson.D {
			answer := build(command)
			if c.grown { // all the same on this server
				f.Answer("find", func(command bson.Raw) bson.D {
					if id, ok := command.Lookup("filter", "_id").StringValueOK(); ok && id == "options" {
						return mongodbtest.CursorOf(bson.D{
							{Key: "_id", Value: "options"},
							{Key: "version", Value: int32(2)},
							{Key: "timeField", Value: "time"},
							{Key: "metaField", Value: "meta"},
							{Key: "granularity", Value: "minutes"},
							{Key: "bucketMaxSpanSeconds", Value: int32(minutes)},
						})
					}
					return find(command)
				})
			}
			return answer
		})
		d := mongodbtest.Open(t, f)
		options := `{"expireAfterSeconds": 60, "partialFilterExpression": {"meta.kind": "debug"}}`
		if _, _, err := collection.Of(d, "events").CreateIndex(t.Context(), userIndex(t, `{"time": 1}`, options)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.byHand > 0 {
			set(c.byHand)
		}
		if !c.grown {
			if _, _, err := collection.Of(d, "events").SetBucketing(t.Context(), timeseries.Options{Granularity: timeseries.Minutes}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := (*specs)[0].Lookup("expireAfterSeconds").AsInt64(); got != c.want || len(f.Sent("collMod")) != c.changes {
			t.Errorf("%s: %d seconds after %d changes, want %d", name, got, len(f.Sent("collMod")), c.want)
		}
	}
}
