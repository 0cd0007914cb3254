package collection_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb/mongodbtest"
	"waterwheel/internal/timeseries"
)

const union = "$unionWith"

// definition returns the stored definition.
func (s *viewServer) definition() bson.D {
	s.lock.Lock()
	defer s.lock.Unlock()
	i := slices.IndexFunc(s.documents["events.options"], func(d bson.D) bool { return fieldOf(d, "_id") == "options" })
	if i < 0 {
		return nil
	}
	return slices.Clone(s.documents["events.options"][i])
}

// steps returns the set-up commands in order, for the definition, the view and the index of segments.
func (s *viewServer) steps() (steps []string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, c := range s.Commands {
		text := c.String()
		switch name := mongodbtest.NameOf(c); {
		case name == "update" && strings.Contains(text, `"segments": true`):
			steps = append(steps, "definition")
		case name == "createIndexes" && strings.Contains(text, "control.segment.owner"):
			step := "index"
			if _, partial := c.Lookup("indexes", "0", "partialFilterExpression").DocumentOK(); partial {
				step += " partial"
			}
			steps = append(steps, step)
		case (name == "collMod" || name == "create") && c.Lookup(name).StringValue() == "events":
			values, _ := c.Lookup("pipeline").Array().Values()
			steps = append(steps, fmt.Sprintf("%s %d", name, len(values)))
		case name == "drop" && c.Lookup(name).StringValue() == "events":
			steps = append(steps, "drop")
		}
	}
	return steps
}

// hasBuckets adds a bucket to the time series.
func hasBuckets(s *viewServer) {
	s.documents["events.buckets"] = []bson.D{{{Key: "_id", Value: bson.NewObjectID()}}}
}

func TestSetupBeginsSegmentsWhereTheyAreShown(t *testing.T) {
	for name, c := range map[string]struct {
		server func(*viewServer)
		view   collection.ViewKind
		ask    collection.Segments
		noted  bool // in the definition
		filled bool // new segments are written
		want   string
		says   string
	}{
		"off":                         {func(*viewServer) {}, collection.ViewAuto, collection.SegmentsOff, false, false, internal, ""},
		"auto":                        {func(*viewServer) {}, collection.ViewAuto, collection.SegmentsAuto, true, true, union, ""},
		"on":                          {func(*viewServer) {}, collection.ViewAuto, collection.SegmentsOn, true, true, union, ""},
		"auto, portable":              {func(*viewServer) {}, collection.ViewPortable, collection.SegmentsAuto, true, true, union, ""},
		"auto, no view asked for":     {func(*viewServer) {}, collection.ViewNone, collection.SegmentsAuto, false, false, "none", "no view can show segments"},
		"on, no view asked for":       {func(*viewServer) {}, collection.ViewNone, collection.SegmentsOn, true, true, "none", "only `waterwheel query`"},
		"auto, no views":              {func(s *viewServer) { s.refuses = 238 }, collection.ViewAuto, collection.SegmentsAuto, false, false, "none", "no view can show segments"},
		"on, no views":                {func(s *viewServer) { s.refuses = 238 }, collection.ViewAuto, collection.SegmentsOn, true, true, "none", "only `waterwheel query`"},
		"auto, one collection only":   {func(s *viewServer) { s.single = true }, collection.ViewAuto, collection.SegmentsAuto, false, false, internal, "unrecognized pipeline stage"},
		"on, one collection only":     {func(s *viewServer) { s.single = true }, collection.ViewAuto, collection.SegmentsOn, true, true, "none", "only `waterwheel query`"},
		"auto, another time":          {func(s *viewServer) { s.late = 2 * time.Hour }, collection.ViewAuto, collection.SegmentsAuto, false, false, internal, "measurements"},
		"auto, a time in the future":  {func(s *viewServer) { s.late = -2 * time.Hour }, collection.ViewAuto, collection.SegmentsAuto, false, false, internal, "measurements"},
		"auto, buckets at any time":   {func(s *viewServer) { s.always = "$lte" }, collection.ViewAuto, collection.SegmentsAuto, false, false, internal, "returned 60 measurements instead of 48"},
		"auto, segments at any time":  {func(s *viewServer) { s.always = "$gt" }, collection.ViewAuto, collection.SegmentsAuto, false, false, internal, "returned 60 measurements instead of 48"},
		"auto, documented only":       {func(s *viewServer) { s.internal = false }, collection.ViewAuto, collection.SegmentsAuto, true, true, union, ""},
		"auto, a wrong stage":         {func(s *viewServer) { s.wrong = true }, collection.ViewAuto, collection.SegmentsAuto, true, true, union, ""},
		"auto, with buckets":          {hasBuckets, collection.ViewAuto, collection.SegmentsAuto, false, false, internal, "set SEGMENTS=on to use segments"},
		"on, with buckets":            {hasBuckets, collection.ViewAuto, collection.SegmentsOn, true, true, union, ""},
		"auto, collections for views": {func(s *viewServer) { s.plain = true }, collection.ViewAuto, collection.SegmentsAuto, false, false, "none", "returned 0 measurements instead of 48"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newViewServer(t)
			c.server(s)
			for range 2 { // the second time nothing changes
				ready, said, err := s.setupSegments(c.view, c.ask)
				if err != nil {
					t.Fatal(err)
				}
				if ready.Segments != c.filled || s.kind() != c.want || !strings.Contains(said, c.says) {
					t.Errorf("written: %v, view %s; want %v, %s; said %q, want %q", ready.Segments, s.kind(), c.filled, c.want, said, c.says)
				}
				if noted := fieldOf(s.definition(), "segments") == true; noted != c.noted {
					t.Errorf("noted in the definition: %v, want %v", noted, c.noted)
				}
			}
			if n := len(s.Sent("collMod")); n != 0 {
				t.Errorf("the view was changed %d times", n)
			}
		})
	}
}

// TestSetupSwitchesTheViewBeforeTheFirstSegment checks the order. The index comes first, because the view uses it to find
// segments. The view comes before the definition, because the definition is final and must not promise a view that cannot be
// made.
func TestSetupSwitchesTheViewBeforeTheFirstSegment(t *testing.T) {
	for kind, stages := range map[collection.ViewKind]int{collection.ViewInternal: 4, collection.ViewPortable: 5} {
		s := newViewServer(t)
		if _, err := s.setup(kind); err != nil {
			t.Fatal(err)
		}
		before := s.steps()
		if _, _, err := s.setupSegments(kind, collection.SegmentsAuto); err != nil {
			t.Fatal(err)
		}
		want := []string{"index partial", fmt.Sprint("collMod ", stages), "definition"}
		if diff := cmp.Diff(want, s.steps()[len(before):]); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
		if version := fieldOf(s.definition(), "version"); version != int32(2) {
			t.Errorf("%s: version %v of the definition", kind, version)
		}
		// This is final. With segments off, the existing ones are still shown.
		ready, said, err := s.setupSegments(kind, collection.SegmentsOff)
		if err != nil || ready.Segments || s.kind() != union || strings.Contains(said, "level=WARN") {
			t.Errorf("%s: off again: %v, written: %v, the view is %s; said %s", kind, err, ready.Segments, s.kind(), said)
		}
		d := mongodbtest.Open(t, s.Fake)
		if state, err := collection.Of(d, "events").View(t.Context(), collection.ViewAuto); err != nil || state.Kind != kind {
			t.Errorf("it is said to be %+v, %v; want %s", state, err, kind)
		}
	}
}

// TestSetupDropsAViewThatShowsMeasurementsTwice forces segments on a server without a view for them.
func TestSetupDropsAViewThatShowsMeasurementsTwice(t *testing.T) {
	s := newViewServer(t)
	s.single = true
	if _, err := s.setup(collection.ViewAuto); err != nil || s.kind() != internal {
		t.Fatal(err, s.kind())
	}
	ready, said, err := s.setupSegments(collection.ViewAuto, collection.SegmentsOn)
	if err != nil || !ready.Segments || s.kind() != "none" || !strings.Contains(said, "it does not show segments correctly") {
		t.Errorf("%v, the view is %s; said %s", err, s.kind(), said)
	}
	s.single = false
	ready, said, err = s.setupSegments(collection.ViewAuto, collection.SegmentsOff)
	if err != nil || ready.Segments || s.kind() != union {
		t.Errorf("on a server that has one, %v, the view is %s; said %s", err, s.kind(), said)
	}
}

// TestSetupLeavesAViewWithSegments has two consumers that start at the same time. A consumer that has not yet read of segments
// does not remove them from the view.
func TestSetupLeavesAViewWithSegments(t *testing.T) {
	s := newViewServer(t)
	if _, _, err := s.setupSegments(collection.ViewAuto, collection.SegmentsOn); err != nil {
		t.Fatal(err)
	}
	s.documents["events.options"] = []bson.D{{ // as it was read before
		{Key: "_id", Value: "options"},
		{Key: "version", Value: int32(1)},
		{Key: "timeField", Value: "time"},
		{Key: "metaField", Value: "meta"},
		{Key: "bucketMaxSpanSeconds", Value: int32(3600)},
		{Key: "granularity", Value: "seconds"},
	}}
	if _, err := s.setup(collection.ViewAuto); err != nil || s.kind() != union {
		t.Errorf("%v, the view is %s", err, s.kind())
	}
	if n := len(s.Sent("collMod")); n != 0 {
		t.Errorf("the view was changed %d times", n)
	}
}

// spans returns the spans of the view's stages.
func (s *viewServer) spans(t *testing.T) (all []any) {
	t.Helper()
	s.lock.Lock()
	defer s.lock.Unlock()
	pipeline := s.views["events"][1].Value.(bson.A)
	if last := pipeline[len(pipeline)-1].(bson.D)[0]; last.Key == union {
		pipeline = append(slices.Clone(pipeline), fieldOf(last.Value.(bson.D), "pipeline").(bson.A)...)
	}
	for _, stage := range pipeline {
		if stage := stage.(bson.D)[0]; stage.Key == internal {
			all = append(all, fieldOf(stage.Value.(bson.D), "bucketMaxSpanSeconds"))
		}
	}
	return all
}

func TestBothPartsOfTheViewFollowTheSpan(t *testing.T) {
	s := newViewServer(t)
	if _, _, err := s.setupSegments(collection.ViewAuto, collection.SegmentsOn); err != nil {
		t.Fatal(err)
	}
	want := func(operation string, spans ...any) {
		t.Helper()
		if diff := cmp.Diff(spans, s.spans(t)); diff != "" {
			t.Errorf("%s: %s", operation, diff)
		}
	}
	want("made", int32(3600), int32(3600))
	d := mongodbtest.Open(t, s.Fake)
	minutes := timeseries.Options{Granularity: timeseries.Minutes}
	if _, _, err := collection.Of(d, "events").SetBucketing(t.Context(), minutes); err != nil {
		t.Fatal(err)
	}
	want("raised", int32(86400), int32(86400))
	if granularity := fmt.Sprint(fieldOf(s.definition(), "granularity")); granularity != "minutes" {
		t.Errorf("the definition has granularity %q", granularity)
	}
	if _, err := s.setup(collection.ViewAuto); err != nil {
		t.Fatal(err)
	}
	want("started again", int32(86400), int32(86400))

	// A view with a smaller span in one part covers only this smaller span.
	o := definition
	o.Granularity, o.MaxSpanSeconds = timeseries.Minutes, 86400
	pipeline := collection.UnionPipeline(collection.ViewInternal, o, "events.buckets", nil)
	inner := fieldOf(pipeline[3].(bson.D)[0].Value.(bson.D), "pipeline").(bson.A)
	stage := inner[1].(bson.D)[0].Value.(bson.D)
	stage[len(stage)-1].Value = int32(60)
	s.views["events"][1].Value = roundTrip(t, pipeline)
	if covered, err := collection.Of(d, "events").Covers(t.Context(), o); err != nil || covered {
		t.Errorf("a part that looks less far covers the options: %v, %v", covered, err)
	}
	if _, err := s.setup(collection.ViewAuto); err != nil {
		t.Fatal(err)
	}
	want("with a part that looked less far", int32(86400), int32(86400))
}

// TestChangingTheSpanKeepsSegmentsInTheView has a consumer that has begun segments and not yet changed the view when an operator
// changes the span.
func TestChangingTheSpanKeepsSegmentsInTheView(t *testing.T) {
	s := newViewServer(t)
	if _, _, err := s.setupSegments(collection.ViewAuto, collection.SegmentsOn); err != nil {
		t.Fatal(err)
	}
	s.views["events"] = internalView(3600)
	d := mongodbtest.Open(t, s.Fake)
	if state, err := collection.Of(d, "events").View(t.Context(), collection.ViewAuto); err != nil || !strings.Contains(state.Why, "twice") {
		t.Errorf("it is said to be %+v, %v", state, err)
	}
	if _, _, err := collection.Of(d, "events").SetBucketing(t.Context(), timeseries.Options{Granularity: timeseries.Minutes}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{int32(86400), int32(86400)}, s.spans(t)); diff != "" {
		t.Error(diff)
	}
}

// TestViewsAreMended has a consumer of a former version that was starting when segments began, and has made the former view.
func TestViewsAreMended(t *testing.T) {
	s := newViewServer(t)
	d := mongodbtest.Open(t, s.Fake)
	mend := func(operation string, want bool) {
		t.Helper()
		if mended, err := collection.Of(d, "events").MendView(t.Context()); err != nil || mended != want {
			t.Errorf("%s: mended: %v, %v; want %v", operation, mended, err, want)
		}
	}
	if _, err := s.setup(collection.ViewAuto); err != nil {
		t.Fatal(err)
	}
	mend("without segments", false)
	if _, _, err := s.setupSegments(collection.ViewAuto, collection.SegmentsOn); err != nil {
		t.Fatal(err)
	}
	mend("as it should be", false)
	s.views["events"] = internalView(86400)
	mend("the former one", true)
	if diff := cmp.Diff([]any{int32(86400), int32(86400)}, s.spans(t)); diff != "" {
		t.Error(diff)
	}
	mend("mended", false)
	s.views["events"] = bson.D{{Key: "viewOn", Value: "events.buckets"}, {Key: "pipeline", Value: bson.A{bson.D{{Key: "$match", Value: bson.D{}}}}}}
	mend("made by hand", false)
	delete(s.views, "events")
	mend("none", false)
}

func TestSetupOfSegmentsBySeveralAtOnce(t *testing.T) {
	s := newViewServer(t)
	errs := make(chan error)
	const starting = 4
	for range starting {
		go func() {
			ready, _, err := s.setupSegments(collection.ViewAuto, collection.SegmentsAuto)
			if err == nil && !ready.Segments {
				err = fmt.Errorf("one of them writes no segments")
			}
			errs <- err
		}()
	}
	for range starting {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := s.kind(); got != union {
		t.Errorf("the view is %s", got)
	}
	if version := fieldOf(s.definition(), "version"); version != int32(2) {
		t.Errorf("version %v of the definition: it was noted more than once", version)
	}
}

func TestServersWithoutPartialIndexesGoWithout(t *testing.T) {
	s := newViewServer(t)
	s.Answer("createIndexes", func(command bson.Raw) bson.D {
		if _, err := command.LookupErr("indexes", "0", "partialFilterExpression"); err == nil {
			return mongodbtest.Failing(238, "not implemented")(nil)
		}
		return bson.D{}
	})
	ready, said, err := s.setupSegments(collection.ViewAuto, collection.SegmentsAuto)
	if err != nil || !ready.Segments || strings.Count(said, "no partial indexes") != 1 {
		t.Errorf("%v, said %s", err, said)
	}
}

// TestSetupHearsOfSegmentsThatOthersBegin has another consumer that notes segments while this one, which begins none, creates its
// indexes.
func TestSetupHearsOfSegmentsThatOthersBegin(t *testing.T) {
	s := newViewServer(t)
	s.handle("createIndexes", func(string, bson.D) bson.D {
		for i, d := range s.documents["events.options"] {
			if fieldOf(d, "_id") == "options" {
				s.documents["events.options"][i] = merged(slices.Clone(d), bson.D{{Key: "segments", Value: true}})
			}
		}
		return bson.D{}
	})
	if _, err := s.setup(collection.ViewAuto); err != nil || s.kind() != union {
		t.Errorf("%v, the view is %s", err, s.kind())
	}
}

// TestSetupLeavesNotingToOthers checks that a process without the lock continues once another one has noted the segments.
func TestSetupLeavesNotingToOthers(t *testing.T) {
	for noted, fails := range map[bool]bool{true: false, false: true} {
		s := newViewServer(t)
		if _, err := s.setup(collection.ViewAuto); err != nil {
			t.Fatal(err)
		}
		holder, update := 0, s.update
		s.handle("update", func(name string, command bson.D) bson.D { // the lock has another holder at each read
			filter := fieldOf(fieldOf(command, "updates").(bson.A)[0].(bson.D), "q").(bson.D)
			if fieldOf(filter, "_id") != "change" {
				return update(name, command)
			}
			holder++
			documents := s.documents["events.options"]
			if noted {
				documents[0] = merged(slices.Clone(documents[0]), bson.D{{Key: "segments", Value: true}})
			}
			s.documents["events.options"] = append(slices.DeleteFunc(documents, func(d bson.D) bool { return fieldOf(d, "_id") == "change" }),
				bson.D{{Key: "_id", Value: "change"}, {Key: "token", Value: fmt.Sprint(holder)}, {Key: "waitMs", Value: int64(1)}})
			return bson.D{{Key: "n", Value: 0}}
		})
		ready, _, err := s.setupSegments(collection.ViewAuto, collection.SegmentsAuto)
		if (err != nil) != fails || err == nil && !ready.Segments {
			t.Errorf("noted by others: %v: %v", noted, err)
		}
	}
}
