package collection_test

import (
	"fmt"
	"log/slog"
	"maps"
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

// viewServer is a server that keeps documents and views, and runs the pipelines that the model supports.
type viewServer struct {
	*mongodbtest.Fake
	t testing.TB

	lock      sync.Mutex
	documents map[string][]bson.D // by collection
	views     map[string]bson.D   // viewOn and pipeline, by name
	internal  bool                // it supports MongoDB's own stage
	wrong     bool                // but the stage gives wrong results
	portable  bool                // it supports the documented stages
	single    bool                // it reads only one collection in a query
	late      time.Duration       // lag of $$NOW behind the server's reported time
	always    string              // an operator that it answers with true
	plain     bool                // it creates a collection instead of a view
	refuses   int32               // the code with which it refuses views
}

func newViewServer(t *testing.T) *viewServer {
	s := &viewServer{Fake: mongodbtest.NewFake(t, append(mongodbtest.ReplicaSet[:len(mongodbtest.ReplicaSet):len(mongodbtest.ReplicaSet)], bson.E{Key: "localTime", Value: time.Now()})), t: t, documents: map[string][]bson.D{}, views: map[string]bson.D{}, internal: true, portable: true}
	nothing := func(bson.Raw) bson.D { return bson.D{} }
	s.Answer("createIndexes", nothing)
	s.handle("update", s.update)
	s.handle("listCollections", s.list)
	s.handle("insert", func(name string, command bson.D) bson.D {
		for _, d := range fieldOf(command, "documents").(bson.A) {
			if id := fieldOf(d.(bson.D), "_id"); slices.ContainsFunc(s.documents[name], func(d bson.D) bool { return fieldOf(d, "_id") == id }) {
				return bson.D{{Key: "n", Value: 0}, {Key: "writeErrors", Value: bson.A{bson.D{{Key: "index", Value: 0}, {Key: "code", Value: 11000}}}}}
			}
			s.documents[name] = append(s.documents[name], d.(bson.D))
		}
		return bson.D{{Key: "n", Value: 1}}
	})
	s.handle("delete", func(name string, command bson.D) bson.D {
		filter := fieldOf(fieldOf(command, "deletes").(bson.A)[0].(bson.D), "q").(bson.D)
		if documents, ok := s.documents[name]; ok {
			s.documents[name] = slices.DeleteFunc(documents, func(d bson.D) bool { return matches(filter, map[string]any{"ROOT": d}) })
		}
		return bson.D{{Key: "n", Value: 1}}
	})
	s.handle("find", func(name string, command bson.D) bson.D {
		if view, ok := s.views[name]; ok {
			return s.run(view[0].Value.(string), view[1].Value.(bson.A))
		}
		return s.run(name, bson.A{bson.D{{Key: "$match", Value: fieldOf(command, "filter")}}})
	})
	s.handle("aggregate", func(name string, command bson.D) bson.D { return s.run(name, fieldOf(command, "pipeline").(bson.A)) })
	s.handle("create", func(name string, command bson.D) bson.D {
		_, taken := s.views[name]
		switch {
		case fieldOf(command, "viewOn") == any(missing{}): // the buckets collection
			if _, taken := s.documents[name]; taken {
				return mongodbtest.Failing(48, "exists")(nil)
			}
			s.documents[name] = nil
		case s.refuses != 0:
			return mongodbtest.Failing(s.refuses, "no views")(nil)
		case taken:
			return mongodbtest.Failing(48, "exists")(nil)
		case s.plain:
			s.documents[name] = nil
		default:
			s.views[name] = bson.D{{Key: "viewOn", Value: fieldOf(command, "viewOn")}, {Key: "pipeline", Value: fieldOf(command, "pipeline")}}
		}
		return bson.D{}
	})
	s.handle("collMod", func(name string, command bson.D) bson.D {
		s.views[name] = bson.D{{Key: "viewOn", Value: fieldOf(command, "viewOn")}, {Key: "pipeline", Value: fieldOf(command, "pipeline")}}
		return bson.D{}
	})
	s.handle("drop", func(name string, _ bson.D) bson.D {
		delete(s.views, name)
		delete(s.documents, name)
		return bson.D{}
	})
	return s
}

// handle answers a command with a function of the collection's name and the command.
func (s *viewServer) handle(command string, with func(name string, command bson.D) bson.D) {
	s.Answer(command, func(raw bson.Raw) bson.D {
		s.lock.Lock()
		defer s.lock.Unlock()
		name, _ := raw.Lookup(command).StringValueOK()
		return with(name, decoded(s.t, raw))
	})
}

// update sets and unsets fields of documents that match by equality.
func (s *viewServer) update(name string, command bson.D) bson.D {
	n := int32(0)
	for _, one := range fieldOf(command, "updates").(bson.A) {
		query, change := fieldOf(one.(bson.D), "q").(bson.D), fieldOf(one.(bson.D), "u").(bson.D)
		for i, d := range s.documents[name] {
			if !matches(query, map[string]any{"ROOT": d}) {
				continue
			}
			n++
			set, _ := fieldOf(change, "$set").(bson.D)
			unset, _ := fieldOf(change, "$unset").(bson.D)
			s.documents[name][i] = merged(slices.DeleteFunc(slices.Clone(d), func(e bson.E) bool { return fieldOf(unset, e.Key) != any(missing{}) }), set)
		}
	}
	return bson.D{{Key: "n", Value: n}, {Key: "nModified", Value: n}}
}

func (s *viewServer) list(_ string, command bson.D) bson.D {
	name := fieldOf(fieldOf(command, "filter").(bson.D), "name").(string)
	if view, ok := s.views[name]; ok {
		return mongodbtest.CursorOf(bson.D{{Key: "name", Value: name}, {Key: "type", Value: "view"}, {Key: "options", Value: view}})
	}
	if _, ok := s.documents[name]; ok {
		return mongodbtest.CursorOf(bson.D{{Key: "name", Value: name}, {Key: "type", Value: "collection"}})
	}
	return mongodbtest.CursorOf()
}

// run answers a pipeline on a collection.
func (s *viewServer) run(on string, pipeline bson.A) bson.D {
	a := aggregation{collection: func(name string) []bson.D { return s.documents[name] }, now: bson.NewDateTimeFromTime(time.Now().Add(-s.late)), always: s.always}
	if s.internal {
		a.unpack = s.unpack
	}
	if !s.portable {
		a.unknown = append(a.unknown, portable)
	}
	if s.single {
		a.unknown = append(a.unknown, "$unionWith")
	}
	documents, err := a.run(pipeline, s.documents[on])
	if err != nil {
		return mongodbtest.Failing(40324, err.Error())(nil)
	}
	all := []any{}
	for _, d := range documents {
		all = append(all, d)
	}
	return mongodbtest.CursorOf(all...)
}

func (s *viewServer) unpack(stage bson.D, buckets []bson.D) (all []bson.D) {
	o := timeseries.Options{TimeField: fieldOf(stage, "timeField").(string)}
	o.MetaField, _ = fieldOf(stage, "metaField").(string)
	for _, b := range buckets {
		if o.MetaField == "" && fieldOf(b, "meta") != any(missing{}) {
			s.t.Errorf("the stage is not told of the meta of %v", b) // MongoDB refuses this (5369601)
		}
		measurements, err := collection.Measurements(o, marshal(b))
		if err != nil {
			s.t.Error(err)
		}
		for _, m := range measurements {
			all = append(all, decoded(s.t, m))
		}
	}
	if s.wrong && len(all) > 0 {
		all = all[1:]
	}
	return all
}

// kind returns the kind of the view "events", by its last stage. Other stages are ignored.
func (s *viewServer) kind() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, name := range slices.Concat(slices.Collect(maps.Keys(s.views)), slices.Collect(maps.Keys(s.documents))) {
		if strings.Contains(name, "probe") {
			s.t.Errorf("%s was left behind", name)
		}
	}
	for _, d := range s.documents["events.options"] {
		if id := fieldOf(d, "_id"); id != "options" && id != "change" && id != "segments" {
			s.t.Errorf("%v is beside the options", d)
		}
	}
	view, ok := s.views["events"]
	if !ok {
		return "none"
	}
	pipeline := view[1].Value.(bson.A)
	return pipeline[len(pipeline)-1].(bson.D)[0].Key
}

func (s *viewServer) setup(kind collection.ViewKind) (string, error) {
	s.t.Helper()
	_, said, err := s.setupSegments(kind, collection.SegmentsOff)
	return said, err
}

func (s *viewServer) setupSegments(kind collection.ViewKind, segments collection.Segments) (collection.Ready, string, error) {
	s.t.Helper()
	var log strings.Builder
	d, err := mongodb.Open(s.t.Context(), mongodb.Options{
		URI: "mongodb://" + s.Addr().String() + "/db?directConnection=true", Database: "db", WriteTimeout: time.Second,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	defer d.Close(s.t.Context())
	ready, err := collection.Of(d, "events").Setup(s.t.Context(), definition, collection.Settings{View: kind, Segments: segments})
	return ready, log.String(), err
}

const internal, portable = "$_internalUnpackBucket", "$replaceWith"

func TestSetupChoosesTheViewThatTheServerCanHave(t *testing.T) {
	for name, c := range map[string]struct {
		server func(*viewServer)
		ask    collection.ViewKind
		want   string
		says   string // in the log, or in the error
	}{
		"both":                 {func(*viewServer) {}, collection.ViewAuto, internal, ""},
		"both, none asked":     {func(*viewServer) {}, "", internal, ""},
		"both, portable":       {func(*viewServer) {}, collection.ViewPortable, portable, ""},
		"both, no view":        {func(*viewServer) {}, collection.ViewNone, "none", ""},
		"documented only":      {func(s *viewServer) { s.internal = false }, collection.ViewAuto, portable, ""},
		"own stage only":       {func(s *viewServer) { s.portable = false }, collection.ViewAuto, internal, ""},
		"a wrong own stage":    {func(s *viewServer) { s.wrong = true }, collection.ViewAuto, portable, ""},
		"neither":              {func(s *viewServer) { s.internal, s.portable = false, false }, collection.ViewAuto, "none", "there is no view of the measurements: "},
		"no views":             {func(s *viewServer) { s.refuses = 238 }, collection.ViewAuto, "none", "there is no view of the measurements: "},
		"no privilege":         {func(s *viewServer) { s.refuses = 13 }, collection.ViewAuto, "none", "a right is missing"},
		"collections instead":  {func(s *viewServer) { s.plain = true }, collection.ViewAuto, "none", "returned 0 measurements instead of 12"},
		"the own stage wanted": {func(s *viewServer) { s.internal = false }, collection.ViewInternal, "none", "MONGODB_VIEW=internal: this MongoDB does not support the internal view"},
		"documented wanted":    {func(s *viewServer) { s.portable = false }, collection.ViewPortable, "none", "set MONGODB_VIEW=auto"},
		"an overload":          {func(s *viewServer) { s.refuses = 462 }, collection.ViewAuto, "none", "trying a view"},
	} {
		s := newViewServer(t)
		c.server(s)
		for range 2 { // the second time nothing changes
			said, err := s.setup(c.ask)
			if err != nil {
				said += err.Error()
			}
			if asked := c.ask == collection.ViewInternal || c.ask == collection.ViewPortable; (err != nil) != (c.want == "none" && asked || s.refuses == 462) {
				t.Errorf("%s: error %v", name, err)
			}
			if got := s.kind(); got != c.want || !strings.Contains(said, c.says) {
				t.Errorf("%s: the view is %s, want %s; said %q, want %q", name, got, c.want, said, c.says)
			}
		}
		if n := len(s.Sent("collMod")); n != 0 {
			t.Errorf("%s: the view was changed %d times", name, n)
		}
	}
}

func TestSetupChangesTheKindOfAViewOnlyWhenAskedTo(t *testing.T) {
	s := newViewServer(t)
	handMade := bson.D{{Key: "viewOn", Value: "events.buckets"}, {Key: "pipeline", Value: bson.A{bson.D{{Key: "$match", Value: bson.D{}}}}}}
	for i, step := range []struct {
		before func()
		ask    collection.ViewKind
		want   string
	}{
		{nil, collection.ViewPortable, portable},
		{nil, collection.ViewAuto, portable}, // the view works
		{nil, collection.ViewInternal, internal},
		{nil, collection.ViewAuto, internal},
		{func() { s.internal = false }, collection.ViewAuto, portable}, // as after an upgrade of the server
		{func() { s.internal = true }, collection.ViewNone, "none"},
		{func() { s.views["events"] = handMade }, collection.ViewNone, "$match"}, // a view made by hand stays
		{nil, collection.ViewAuto, internal},
	} {
		if step.before != nil {
			step.before()
		}
		if _, err := s.setup(step.ask); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if got := s.kind(); got != step.want {
			t.Errorf("step %d: MONGODB_VIEW=%s made it %s, want %s", i, step.ask, got, step.want)
		}
	}
}

// TestSetupKeepsAViewThroughAFailure checks that one answer without a meaning does not replace a view that has worked.
func TestSetupKeepsAViewThroughAFailure(t *testing.T) {
	s := newViewServer(t)
	if _, err := s.setup(collection.ViewAuto); err != nil {
		t.Fatal(err)
	}
	works, failures := s.Answers["aggregate"], 1
	s.Answer("aggregate", func(command bson.Raw) bson.D {
		s.lock.Lock()
		failures--
		fails := failures >= 0
		s.lock.Unlock()
		if fails {
			return mongodbtest.Failing(7_654_321, "a bad moment")(nil)
		}
		return works(command)
	})
	if said, err := s.setup(collection.ViewAuto); err != nil || s.kind() != internal {
		t.Errorf("the view is %s: %v, %s", s.kind(), err, said)
	}
	failures = 2 // like a server that refuses the stage
	if said, err := s.setup(collection.ViewAuto); err != nil || s.kind() != portable {
		t.Errorf("refused twice, the view is %s: %v, %s", s.kind(), err, said)
	}
}

// TestSetupNarrowsNoView checks a change of the span, which widens the view before the definition is written. A consumer that
// starts in between must not narrow it.
func TestSetupNarrowsNoView(t *testing.T) {
	s := newViewServer(t)
	if _, err := s.setup(collection.ViewAuto); err != nil {
		t.Fatal(err)
	}
	wide := internalView(86400)
	s.views["events"] = wide
	if _, err := s.setup(collection.ViewAuto); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wide, s.views["events"]); diff != "" {
		t.Errorf("the view: %s", diff)
	}
	s.views["events"] = internalView(60)
	if _, err := s.setup(collection.ViewAuto); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(internalView(3600), s.views["events"]); diff != "" {
		t.Errorf("one that was too narrow: %s", diff)
	}
	if w := s.Last("collMod").Lookup("writeConcern", "w").StringValue(); w != "majority" {
		t.Errorf("the change could be undone by an election: w is %q", w)
	}
}

// internalView returns a view with MongoDB's own stage and this span in seconds.
func internalView(span int32) bson.D {
	stage := bson.D{{Key: "timeField", Value: "time"}, {Key: "metaField", Value: "meta"}, {Key: "bucketMaxSpanSeconds", Value: span}}
	return bson.D{{Key: "viewOn", Value: "events.buckets"}, {Key: "pipeline", Value: bson.A{bson.D{{Key: internal, Value: stage}}}}}
}

// TestSetupOfSeveralAtOnceMakesOneView also checks that the probe's own filter excludes the view's other buckets.
func TestSetupOfSeveralAtOnceMakesOneView(t *testing.T) {
	s := newViewServer(t)
	var all sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		all.Go(func() { _, errs[i] = s.setup(collection.ViewAuto) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if got := s.kind(); got != internal {
		t.Errorf("the view is %s", got)
	}
	if got := fmt.Sprint(s.views["events"][1].Value); !strings.Contains(got, "3600") {
		t.Errorf("its pipeline is %s", got)
	}
}

func TestViewSaysWhichAndWhy(t *testing.T) {
	for _, c := range []struct {
		server func(*viewServer)
		made   collection.ViewKind // the kind that set-up made
		ask    collection.ViewKind // the kind that the reader of the state asks for
		kind   collection.ViewKind
		why    string
	}{
		{func(*viewServer) {}, collection.ViewAuto, collection.ViewAuto, collection.ViewInternal, "MongoDB's own stage"},
		{func(*viewServer) {}, collection.ViewPortable, collection.ViewPortable, collection.ViewPortable, "as MONGODB_VIEW=portable asks"},
		{func(*viewServer) {}, collection.ViewPortable, collection.ViewAuto, collection.ViewPortable, "the existing view works and is kept"},
		{func(*viewServer) {}, collection.ViewNone, collection.ViewNone, collection.ViewNone, "MONGODB_VIEW=none"},
		{func(*viewServer) {}, collection.ViewNone, collection.ViewAuto, collection.ViewNone, "no view was created"},
		{func(s *viewServer) { s.internal = false }, collection.ViewAuto, collection.ViewAuto, collection.ViewPortable, "does not run the stage of the internal view: unrecognized"},
		{func(s *viewServer) { s.internal, s.plain = false, true }, collection.ViewAuto, collection.ViewAuto, collection.ViewNone, "has no views"},
		{func(s *viewServer) { s.internal, s.portable = false, false }, collection.ViewAuto, collection.ViewAuto, collection.ViewNone, "runs neither the stages of the internal view nor those of the portable view: unrecognized"},
	} {
		s := newViewServer(t)
		c.server(s)
		if _, err := s.setup(c.made); err != nil {
			t.Fatal(err)
		}
		got, err := collection.Of(mongodbtest.Open(t, s.Fake), "events").View(t.Context(), c.ask)
		if err != nil || got.Kind != c.kind || !strings.Contains(got.Why, c.why) {
			t.Errorf("made as %s, looked at with %s: %+v, %v; want %s, %q", c.made, c.ask, got, err, c.kind, c.why)
		}
	}
}
