package sink_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

func TestSetupListsEveryDifferingSetting(t *testing.T) {
	e := connect(t)
	e.setup(t)
	other := timeseries.Options{TimeField: "t", MetaField: "meta", Granularity: timeseries.Hours, ExpireAfterSeconds: 60}
	_, err := sink.Of(e.Database, "events").Setup(t.Context(), other, sink.Settings{})
	var mismatch *sink.MismatchError
	if !errors.As(err, &mismatch) {
		t.Fatalf("%v", err)
	}
	want := []string{
		`MONGODB_TIME_FIELD is "t" here and "time" in the collection`,
		`MONGODB_GRANULARITY is "hours" here and "seconds" in the collection`,
	}
	if diff := cmp.Diff(want, mismatch.Differences); diff != "" {
		t.Error(diff)
	}
	if _, err := sink.Of(e.Database, "events").Check(t.Context(), other); !errors.As(err, &mismatch) {
		t.Errorf("check: %v", err)
	}
}

// Advised options can be set: a granularity implies span and rounding, and may not stand beside them.
func TestSetupAdvisesSettingsThatCanBeSet(t *testing.T) {
	e := connect(t)
	custom := definition
	custom.Granularity, custom.MaxSpanSeconds, custom.RoundingSeconds = "", 7200, 7200
	e.setup(t)
	_, err := sink.Of(e.Database, "events").Setup(t.Context(), custom, sink.Settings{})
	if want := `MONGODB_GRANULARITY is not set here and "seconds" in the collection; MONGODB_BUCKET_MAX_SPAN is 2h0m0s here and not set ` +
		`in the collection; MONGODB_BUCKET_ROUNDING is 2h0m0s here and not set in the collection; set`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want …%s…", err, want)
	}
	for edit, want := range map[string]string{
		"bucketRoundingSeconds": "contradicts itself: bucketRoundingSeconds is 60: leave it out, granularity seconds implies it (InvalidOptions); no setting can match it: correct the document",
		"bucketMaxSpanSeconds":  "contradicts itself: bucketMaxSpanSeconds is 60",
	} {
		set := func(value int32) {
			t.Helper()
			update := bson.D{{Key: "$set", Value: bson.D{{Key: edit, Value: value}}}}
			if value == 0 {
				update = bson.D{{Key: "$unset", Value: bson.D{{Key: edit, Value: ""}}}}
			}
			if _, err := e.raw.Collection("events.options").UpdateByID(t.Context(), "options", update); err != nil {
				t.Fatal(err)
			}
		}
		set(60)
		_, err := sink.Of(e.Database, "events").Setup(t.Context(), definition, sink.Settings{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "MONGODB_BUCKET") {
			t.Errorf("%s: %v, want …%s…", edit, err, want)
		}
		set(0) // a granularity alone says all
		if _, err := sink.Of(e.Database, "events").Setup(t.Context(), definition, sink.Settings{}); err != nil {
			t.Errorf("without %s: %v", edit, err)
		}
	}
}

func TestSetupIsIdempotentAndKeepsTheDefinition(t *testing.T) {
	e := connect(t)
	if _, err := sink.Of(e.Database, "events").Check(t.Context(), definition); !errors.Is(err, sink.ErrNotSetUp) {
		t.Fatalf("before: %v", err)
	}
	for range 2 {
		e.setup(t)
	}
	ready, err := sink.Of(e.Database, "events").Check(t.Context(), definition)
	if err != nil {
		t.Fatal(err)
	}
	have, version, err := sink.Of(e.Database, "events").Definition(t.Context())
	want, _ := definition.Normalize()
	if err != nil || version != 1 || have != want || ready.Options != want {
		t.Errorf("%+v, version %d, %v", have, version, err)
	}
	if err := e.raw.Collection("events.buckets").Indexes().DropOne(t.Context(), "meta_1_control.min.time_1"); err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Of(e.Database, "events").Check(t.Context(), definition); !errors.Is(err, sink.ErrNotSetUp) {
		t.Errorf("without an index: %v", err)
	}
}

func TestSetupRefusesATakenName(t *testing.T) {
	e := connect(t)
	if _, err := e.raw.Collection("events").InsertOne(t.Context(), bson.D{{Key: "x", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Of(e.Database, "events").Setup(t.Context(), definition, sink.Settings{}); err == nil || !strings.Contains(err.Error(), "MONGODB_COLLECTION") {
		t.Errorf("%v", err)
	}
}

func TestFindSurvivesAMissingIndex(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	sendAll(t, p, bucketer.Applied, insertOf("a", run(0, 1)...))
	if err := e.raw.Collection("events.buckets").Indexes().DropOne(t.Context(), "meta_1_control.min.time_1"); err != nil {
		t.Fatal(err)
	}
	answers, err := p.Find(t.Context(), lookups("a"))
	if err != nil || len(answers[0].Candidates) != 1 {
		t.Errorf("%v, %v", answers, err)
	}
}

func TestSetupMakesIndexesAndView(t *testing.T) {
	f := newViewServer(t)
	d := openFake(t, f.fake)
	o := timeseries.Options{TimeField: "time", MetaField: "meta", Granularity: timeseries.Minutes, ExpireAfterSeconds: 100}
	if _, err := sink.Of(d, "events").Setup(t.Context(), o, sink.Settings{}); err != nil {
		t.Fatal(err)
	}
	var indexes []string
	for _, command := range f.sent("createIndexes") {
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
	view := last(f.sent("create"))
	stage := view.Lookup("pipeline", "0", "$_internalUnpackBucket")
	if view.Lookup("viewOn").StringValue() != "events.buckets" ||
		stage.String() != `{"timeField": "time","metaField": "meta","bucketMaxSpanSeconds": {"$numberInt":"86400"}}` {
		t.Errorf("view %v", view)
	}

	// The next time, the view is there: it is changed only when its span is another one.
	for span, changes := range map[int32]int{86400: 0, 3600: 1} {
		f.views["events"][1].Value = bson.A{bson.D{{Key: "$_internalUnpackBucket", Value: bson.D{
			{Key: "timeField", Value: "time"}, {Key: "metaField", Value: "meta"}, {Key: "bucketMaxSpanSeconds", Value: span},
		}}}}
		before := len(f.sent("collMod"))
		if _, err := sink.Of(d, "events").Setup(t.Context(), o, sink.Settings{}); err != nil {
			t.Fatal(err)
		}
		if n := len(f.sent("collMod")) - before; n != changes {
			t.Errorf("span %d: the view was changed %d times", span, n)
		}
	}
	if n := len(f.sent("create")); n != 3 {
		t.Errorf("%d were made, want the buckets, a view for the trial, the view", n)
	}
}

// TestViewIndexIsForTheInternalView: whoever has no view that can use it pays nothing for it.
func TestViewIndexIsForTheInternalView(t *testing.T) {
	single := timeseries.Options{TimeField: "time"}
	for name, c := range map[string]struct {
		view    sink.ViewKind
		options timeseries.Options
		want    bool
	}{
		"internal": {sink.ViewInternal, definition, true}, "auto": {sink.ViewAuto, definition, true},
		"portable": {sink.ViewPortable, definition, false}, "none": {sink.ViewNone, definition, false}, "no meta": {sink.ViewInternal, single, false},
	} {
		f := newViewServer(t)
		if _, err := sink.Of(openFake(t, f.fake), "events").Setup(t.Context(), c.options, sink.Settings{View: c.view}); err != nil {
			t.Fatal(err)
		}
		made := slices.ContainsFunc(f.sent("createIndexes"), func(command bson.Raw) bool {
			_, err := command.LookupErr("indexes", "0", "key", "control.max.time")
			return err == nil
		})
		if made != c.want {
			t.Errorf("%s: the index of the view was made: %v", name, made)
		}
	}
}

// TestSetupTakesAnIndexOfAnotherName: an index made by hand, or by create-index, serves as well.
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
		f.answer("createIndexes", func(command bson.Raw) bson.D {
			if _, err := command.LookupErr("indexes", "0", "key", "control.max.time"); err == nil {
				return failing(85, "Index already exists with a different name")(command)
			}
			return bson.D{}
		})
		f.answer("listIndexes", func(bson.Raw) bson.D { return cursorOf(c.have) })
		_, err := sink.Of(openFake(t, f.fake), "events").Setup(t.Context(), definition, sink.Settings{})
		if c.fails != (err != nil) || err != nil && !strings.Contains(err.Error(), "exists with other options: drop it") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSetupGoesOnWithoutExpiry(t *testing.T) {
	f := newFake(t, nil)
	f.answer("find", emptyCursor)
	f.answer("insert", counting(1))
	f.answer("listCollections", emptyCursor)
	f.answer("createIndexes", func(command bson.Raw) bson.D {
		if _, err := command.LookupErr("indexes", "0", "expireAfterSeconds"); err == nil {
			return failing(238, "not implemented")(nil)
		}
		return bson.D{}
	})
	o := definition
	o.ExpireAfterSeconds = 100
	if _, err := sink.Of(openFake(t, f), "events").Setup(t.Context(), o, sink.Settings{}); err != nil {
		t.Error(err)
	}
	f.answer("createIndexes", failing(13, "not authorized"))
	var refused *sink.RefusedError
	if _, err := sink.Of(openFake(t, f), "events").Setup(t.Context(), o, sink.Settings{}); !errors.As(err, &refused) {
		t.Errorf("without the privilege: %v", err)
	}
	f.answer("createIndexes", failing(85, "exists with other options"))
	if _, err := sink.Of(openFake(t, f), "events").Setup(t.Context(), o, sink.Settings{}); err == nil || !strings.Contains(err.Error(), "drop it") {
		t.Errorf("another index of the name: %v", err)
	}
}

func openFake(t *testing.T, f *fake, change ...func(*sink.Options)) *sink.Database {
	t.Helper()
	o := sink.Options{
		URI: "mongodb://" + f.Addr().String() + "/db?directConnection=true", Database: "db", WriteTimeout: time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&o)
	}
	d, err := sink.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(t.Context()) })
	return d
}

func TestSetupBySeveralConsumersAtOnce(t *testing.T) {
	e := connect(t)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, err := sink.Of(e.Database, "events").Setup(t.Context(), definition, sink.Settings{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := sink.Of(e.Database, "events").Check(t.Context(), definition); err != nil {
		t.Error(err)
	}
}
