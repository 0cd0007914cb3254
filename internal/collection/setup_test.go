package collection_test

import (
	"context"
	"errors"
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

func TestSetupListsEveryDifferingSetting(t *testing.T) {
	e := connect(t)
	e.setup(t)
	other := timeseries.Options{TimeField: "t", MetaField: "meta", Granularity: timeseries.Hours, ExpireAfterSeconds: 60}
	_, err := collection.Of(e.Database, "events").Setup(t.Context(), other, collection.Settings{})
	const want = `exists with other options: MONGODB_TIME_FIELD is "t" in the settings and "time" in the collection; ` +
		`MONGODB_GRANULARITY is "hours" in the settings and "seconds" in the collection; set these`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
	if _, err := collection.Of(e.Database, "events").Check(t.Context(), other); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("check: %v", err)
	}
}

// TestSetupAdvisesSettingsThatCanBeSet checks that the advised options are valid. A granularity implies span and rounding, and
// excludes them.
func TestSetupAdvisesSettingsThatCanBeSet(t *testing.T) {
	e := connect(t)
	custom := definition
	custom.Granularity, custom.MaxSpanSeconds, custom.RoundingSeconds = "", 7200, 7200
	e.setup(t)
	_, err := collection.Of(e.Database, "events").Setup(t.Context(), custom, collection.Settings{})
	if want := `MONGODB_GRANULARITY is not set in the settings and "seconds" in the collection; MONGODB_BUCKET_MAX_SPAN is 2h0m0s in the settings and not set ` +
		`in the collection; MONGODB_BUCKET_ROUNDING is 2h0m0s in the settings and not set in the collection; set`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want …%s…", err, want)
	}
	for edit, want := range map[string]string{
		"bucketRoundingSeconds": "is invalid: bucketRoundingSeconds is 60: leave bucketRoundingSeconds out, because granularity seconds sets it (InvalidOptions); correct the document, because no settings can match it",
		"bucketMaxSpanSeconds":  "is invalid: bucketMaxSpanSeconds is 60",
	} {
		set := func(value int32) {
			t.Helper()
			update := bson.D{{Key: "$set", Value: bson.D{{Key: edit, Value: value}}}}
			if value == 0 {
				update = bson.D{{Key: "$unset", Value: bson.D{{Key: edit, Value: ""}}}}
			}
			if _, err := e.Raw.Collection("events.options").UpdateByID(t.Context(), "options", update); err != nil {
				t.Fatal(err)
			}
		}
		set(60)
		_, err := collection.Of(e.Database, "events").Setup(t.Context(), definition, collection.Settings{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "MONGODB_BUCKET") {
			t.Errorf("%s: %v, want …%s…", edit, err, want)
		}
		set(0) // a granularity alone suffices
		if _, err := collection.Of(e.Database, "events").Setup(t.Context(), definition, collection.Settings{}); err != nil {
			t.Errorf("without %s: %v", edit, err)
		}
	}
}

func TestSetupIsIdempotentAndKeepsTheDefinition(t *testing.T) {
	e := connect(t)
	if _, err := collection.Of(e.Database, "events").Check(t.Context(), definition); !errors.Is(err, collection.ErrNotSetUp) {
		t.Fatalf("before: %v", err)
	}
	for range 2 {
		e.setup(t)
	}
	ready, err := collection.Of(e.Database, "events").Check(t.Context(), definition)
	if err != nil {
		t.Fatal(err)
	}
	have, version, err := collection.Of(e.Database, "events").Definition(t.Context())
	want, _ := definition.Normalize()
	if err != nil || version != 1 || have != want || ready.Options != want {
		t.Errorf("%+v, version %d, %v", have, version, err)
	}
	if err := e.Raw.Collection("events.buckets").Indexes().DropOne(t.Context(), "meta_1_control.min.time_1"); err != nil {
		t.Fatal(err)
	}
	if _, err := collection.Of(e.Database, "events").Check(t.Context(), definition); !errors.Is(err, collection.ErrNotSetUp) {
		t.Errorf("without an index: %v", err)
	}
}

func TestSetupRefusesATakenName(t *testing.T) {
	e := connect(t)
	if _, err := e.Raw.Collection("events").InsertOne(t.Context(), bson.D{{Key: "x", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := collection.Of(e.Database, "events").Setup(t.Context(), definition, collection.Settings{}); err == nil || !strings.Contains(err.Error(), "MONGODB_COLLECTION") {
		t.Errorf("%v", err)
	}
}

func TestSetupMakesIndexesAndView(t *testing.T) {
	f := newViewServer(t)
	d := mongodbtest.Open(t, f.Fake)
	o := timeseries.Options{TimeField: "time", MetaField: "meta", Granularity: timeseries.Minutes, ExpireAfterSeconds: 100}
	if _, err := collection.Of(d, "events").Setup(t.Context(), o, collection.Settings{}); err != nil {
		t.Fatal(err)
	}
	var indexes []string
	for _, command := range f.Sent("createIndexes") {
		indexes = append(indexes, command.Lookup("indexes").String())
	}
	want := []string{
		`[{"key": {"meta": {"$numberInt":"1"},"control.min.time": {"$numberInt":"1"}},"name": "meta_1_control.min.time_1"}]`,
		`[{"key": {"control.source.topicId": {"$numberInt":"1"},"control.source.partition": {"$numberInt":"1"},"control.source.last": ` +
			`{"$numberInt":"1"}},"name": "control.source.topicId_1_control.source.partition_1_control.source.last_1"}]`,
		`[{"key": {"control.min.time": {"$numberInt":"1"}},"expireAfterSeconds": {"$numberInt":"86500"},"name": "control.min.time_1"}]`,
		`[{"key": {"meta": {"$numberInt":"1"},"control.max.time": {"$numberInt":"-1"},"control.min.time": {"$numberInt":"-1"}},` +
			`"name": "meta_1_control.max.time_-1_control.min.time_-1"}]`,
	}
	if diff := cmp.Diff(want, indexes); diff != "" {
		t.Error(diff)
	}
	view := f.Last("create")
	stage := view.Lookup("pipeline", "0", "$_internalUnpackBucket")
	if view.Lookup("viewOn").StringValue() != "events.buckets" ||
		stage.String() != `{"timeField": "time","metaField": "meta","bucketMaxSpanSeconds": {"$numberInt":"86400"}}` {
		t.Errorf("view %v", view)
	}

	// The next time the view exists, and changes only if its span differs.
	for span, changes := range map[int32]int{86400: 0, 3600: 1} {
		f.views["events"][1].Value = bson.A{bson.D{{Key: "$_internalUnpackBucket", Value: bson.D{
			{Key: "timeField", Value: "time"}, {Key: "metaField", Value: "meta"}, {Key: "bucketMaxSpanSeconds", Value: span},
		}}}}
		before := len(f.Sent("collMod"))
		if _, err := collection.Of(d, "events").Setup(t.Context(), o, collection.Settings{}); err != nil {
			t.Fatal(err)
		}
		if n := len(f.Sent("collMod")) - before; n != changes {
			t.Errorf("span %d: the view was changed %d times", span, n)
		}
	}
	if n := len(f.Sent("create")); n != 3 {
		t.Errorf("%d were made, want the buckets, a view for the trial, the view", n)
	}
}

// TestViewIndexIsForTheInternalView checks that the index is created only for a view that can use it.
func TestViewIndexIsForTheInternalView(t *testing.T) {
	single := timeseries.Options{TimeField: "time"}
	for name, c := range map[string]struct {
		view    collection.ViewKind
		options timeseries.Options
		want    bool
	}{
		"internal": {collection.ViewInternal, definition, true}, "auto": {collection.ViewAuto, definition, true},
		"portable": {collection.ViewPortable, definition, false}, "none": {collection.ViewNone, definition, false}, "no meta": {collection.ViewInternal, single, false},
	} {
		f := newViewServer(t)
		if _, err := collection.Of(mongodbtest.Open(t, f.Fake), "events").Setup(t.Context(), c.options, collection.Settings{View: c.view}); err != nil {
			t.Fatal(err)
		}
		made := slices.ContainsFunc(f.Sent("createIndexes"), func(command bson.Raw) bool {
			_, err := command.LookupErr("indexes", "0", "key", "control.max.time")
			return err == nil
		})
		if made != c.want {
			t.Errorf("%s: the index of the view was made: %v", name, made)
		}
	}
}

// TestSetupTakesAnIndexOfAnotherName checks that an index made by hand, or by create-index, suffices.
func TestSetupTakesAnIndexOfAnotherName(t *testing.T) {
	keys := bson.D{{Key: "meta", Value: 1}, {Key: "control.max.time", Value: -1}, {Key: "control.min.time", Value: -1}}
	for name, c := range map[string]struct {
		have  bson.D
		fails bool
	}{
		"the same":         {bson.D{{Key: "key", Value: keys}, {Key: "name", Value: "meta_1_time_-1"}}, false},
		"of some":          {bson.D{{Key: "key", Value: keys}, {Key: "name", Value: "x"}, {Key: "partialFilterExpression", Value: bson.D{{Key: "meta", Value: 1}}}}, true},
		"in another order": {bson.D{{Key: "key", Value: bson.D{keys[0], keys[2], keys[1]}}, {Key: "name", Value: "x"}}, true},
	} {
		f := newViewServer(t)
		f.Answer("createIndexes", func(command bson.Raw) bson.D {
			if _, err := command.LookupErr("indexes", "0", "key", "control.max.time"); err == nil {
				return mongodbtest.Failing(85, "Index already exists with a different name")(command)
			}
			return bson.D{}
		})
		f.Answer("listIndexes", func(bson.Raw) bson.D { return mongodbtest.CursorOf(c.have) })
		_, err := collection.Of(mongodbtest.Open(t, f.Fake), "events").Setup(t.Context(), definition, collection.Settings{})
		if c.fails != (err != nil) || err != nil && !strings.Contains(err.Error(), "exists with other options: drop this index") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSetupGoesOnWithoutExpiry(t *testing.T) {
	f := mongodbtest.NewFake(t, nil)
	f.Answer("find", mongodbtest.EmptyCursor)
	f.Answer("insert", mongodbtest.Counting(1))
	f.Answer("listCollections", mongodbtest.EmptyCursor)
	f.Answer("createIndexes", func(command bson.Raw) bson.D {
		if _, err := command.LookupErr("indexes", "0", "expireAfterSeconds"); err == nil {
			return mongodbtest.Failing(238, "not implemented")(nil)
		}
		return bson.D{}
	})
	o := definition
	o.ExpireAfterSeconds = 100
	if _, err := collection.Of(mongodbtest.Open(t, f), "events").Setup(t.Context(), o, collection.Settings{}); err != nil {
		t.Error(err)
	}
	f.Answer("createIndexes", mongodbtest.Failing(13, "not authorized"))
	var refused *mongodb.RefusedError
	if _, err := collection.Of(mongodbtest.Open(t, f), "events").Setup(t.Context(), o, collection.Settings{}); !errors.As(err, &refused) {
		t.Errorf("without the privilege: %v", err)
	}
	f.Answer("createIndexes", mongodbtest.Failing(85, "exists with other options"))
	if _, err := collection.Of(mongodbtest.Open(t, f), "events").Setup(t.Context(), o, collection.Settings{}); err == nil || !strings.Contains(err.Error(), "drop this index") {
		t.Errorf("another index of the name: %v", err)
	}
}

func TestSetupBySeveralConsumersAtOnce(t *testing.T) {
	e := connect(t)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, err := collection.Of(e.Database, "events").Setup(t.Context(), definition, collection.Settings{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := collection.Of(e.Database, "events").Check(t.Context(), definition); err != nil {
		t.Error(err)
	}
}

// TestAnAnswerThatDoesNotComeIsSaidInPlainWords checks a sent command and one without time left. The driver's own messages about
// time must not reach users.
func TestAnAnswerThatDoesNotComeIsSaidInPlainWords(t *testing.T) {
	f := mongodbtest.NewFake(t, mongodbtest.ReplicaSet)
	d := mongodbtest.Open(t, f)
	block := make(chan struct{})
	t.Cleanup(func() { close(block) })
	silent := func(bson.Raw) bson.D { <-block; return nil }
	for _, command := range []string{"find", "listCollections", "ping", "insert", "update", "delete", "aggregate"} {
		f.Answer(command, silent)
	}
	commands := map[string]func(ctx context.Context) error{
		"ping": d.Ping,
		"trial": func(ctx context.Context) error {
			_, err := collection.Of(d, "events").Trial(ctx, definition, collection.Settings{})
			return err
		},
		"setup": func(ctx context.Context) error {
			_, err := collection.Of(d, "events").Setup(ctx, definition, collection.Settings{})
			return err
		},
		"check": func(ctx context.Context) error {
			_, err := collection.Of(d, "events").Check(ctx, definition)
			return err
		},
		"view": func(ctx context.Context) error {
			_, err := collection.Of(d, "events").View(ctx, collection.ViewAuto)
			return err
		},
	}
	for name, command := range commands {
		for left, ctx := range map[string]context.Context{
			"some time": bounded(t, 100*time.Millisecond), "no time": mongodbtest.NewHurried(t.Context(), time.Microsecond), "none at all": mongodbtest.NewHurried(t.Context(), -time.Second),
		} {
			err := command(ctx)
			if _, ok := errors.AsType[*mongodb.OutageError](err); !ok || !strings.Contains(err.Error(), "MongoDB did not answer ") {
				t.Errorf("%s, %s left: %v", name, left, err)
			}
			for _, noise := range []string{"deadline", "timeout", "message header", "server-side", "round-trip"} {
				if err != nil && strings.Contains(err.Error(), noise) {
					t.Errorf("%s, %s left: %q is in: %v", name, left, noise, err)
				}
			}
		}
	}
	within := mongodbtest.Open(t, f, func(o *mongodb.Options) { o.WriteTimeout = 100 * time.Millisecond })
	if _, err := collection.Of(within, "events").Trial(t.Context(), definition, collection.Settings{}); err == nil || !strings.Contains(err.Error(), "MongoDB did not answer within 100ms") {
		t.Errorf("a trial: %v", err)
	}
}

// bounded returns a context with this timeout.
func bounded(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// TestSetupMeetsAnElection checks that set-up gives up no index and no view because of an election.
func TestSetupMeetsAnElection(t *testing.T) {
	nothing := func(bson.Raw) bson.D {
		cursor := bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "db.c"}, {Key: "firstBatch", Value: bson.A{}}}
		return bson.D{{Key: "cursor", Value: cursor}}
	}
	for _, during := range []string{"createIndexes", "create"} {
		f := mongodbtest.NewFake(t, nil)
		for _, command := range []string{"listCollections", "find", "aggregate"} {
			f.Answer(command, nothing)
		}
		f.Answer("insert", mongodbtest.Counting(1))
		f.Answer("createIndexes", func(bson.Raw) bson.D { return bson.D{} })
		f.Answer(during, mongodbtest.Failing(10107, "not primary"))
		_, err := collection.Of(mongodbtest.Open(t, f), "events").Setup(t.Context(), timeseries.Options{TimeField: "time", MetaField: "meta"}, collection.Settings{})
		if _, ok := errors.AsType[*mongodb.OutageError](err); !ok {
			t.Errorf("%s: %v, want an outage", during, err)
		}
	}
}
