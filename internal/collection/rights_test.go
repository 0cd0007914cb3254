package collection_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
	"waterwheel/internal/timeseries"
)

// ruledServer is a viewServer with logins and rights. It checks rights first, then refuses the same as MongoDB, and keeps
// indexes.
type ruledServer struct {
	*viewServer
	denied     map[string]bool // "collMod events" denies a command on collections whose names end so
	privileges bson.A          // the privileges that it lists
	indexes    map[string][]any
}

func newRuledServer(t *testing.T) *ruledServer {
	r := &ruledServer{viewServer: newViewServer(t), denied: map[string]bool{}, indexes: map[string][]any{}}
	r.Answer("connectionStatus", func(bson.Raw) bson.D {
		user := bson.D{{Key: "user", Value: "u"}, {Key: "db", Value: "db"}}
		return bson.D{{Key: "authInfo", Value: bson.D{{Key: "authenticatedUsers", Value: bson.A{user}}, {Key: "authenticatedUserPrivileges", Value: r.privileges}}}}
	})
	r.handle("createIndexes", func(name string, command bson.D) bson.D {
		for _, index := range fieldOf(command, "indexes").(bson.A) {
			key := fieldOf(index.(bson.D), "key").(bson.D)
			if kind, special := key[0].Value.(string); special {
				return mongodbtest.Failing(67, "Unknown index plugin '"+kind+"'")(nil)
			}
			same := func(one any) bool { return cmp.Equal(fieldOf(one.(bson.D), "key"), any(key)) }
			if !slices.ContainsFunc(r.indexes[name], same) {
				r.indexes[name] = append(r.indexes[name], index)
			}
		}
		return bson.D{}
	})
	r.handle("listIndexes", func(name string, _ bson.D) bson.D { return mongodbtest.CursorOf(r.indexes[name]...) })
	r.before("insert", func(_ string, command bson.D) bson.D {
		id := fieldOf(fieldOf(command, "documents").(bson.A)[0].(bson.D), "_id")
		if _, array := id.(bson.A); array {
			return bson.D{{Key: "n", Value: 0}, {Key: "writeErrors", Value: bson.A{bson.D{{Key: "index", Value: 0}, {Key: "code", Value: 53}, {Key: "errmsg", Value: "bad _id"}}}}}
		}
		return nil
	})
	unknownStage := func(_ string, command bson.D) bson.D {
		if pipeline, ok := fieldOf(command, "pipeline").(bson.A); ok && pipeline[0].(bson.D)[0].Key == "$waterwheel" {
			return mongodbtest.Failing(40324, "Unrecognized pipeline stage name: '$waterwheel'")(nil)
		}
		return nil
	}
	r.before("create", unknownStage)
	r.before("collMod", unknownStage)
	list := r.Answers["listCollections"]
	r.Answer("listCollections", func(command bson.Raw) bson.D {
		if _, err := command.LookupErr("filter", "name"); err == nil {
			return list(command)
		}
		r.lock.Lock()
		defer r.lock.Unlock()
		var all []any
		for _, name := range slices.Concat(slices.Collect(maps.Keys(r.documents)), slices.Collect(maps.Keys(r.views))) {
			all = append(all, bson.D{{Key: "name", Value: name}, {Key: "type", Value: "collection"}})
		}
		return mongodbtest.CursorOf(all...)
	})
	for _, command := range []string{
		"find", "insert", "update", "delete", "aggregate", "create", "createIndexes", "listIndexes", "listCollections", "collMod", "drop", "dropIndexes",
	} {
		r.before(command, func(name string, _ bson.D) bson.D {
			for denied := range r.denied {
				if what, on, _ := strings.Cut(denied, " "); what == command && strings.HasSuffix(name, on) {
					return mongodbtest.Failing(13, fmt.Sprintf(`not authorized on db to execute command { %s: "%s", lsid: 1, $db: "db" }`, command, name))(nil)
				}
			}
			return nil
		})
	}
	return r
}

// before answers a command instead of the server, unless first returns nil.
func (r *ruledServer) before(command string, first func(name string, command bson.D) bson.D) {
	then := r.Answers[command]
	r.Answer(command, func(raw bson.Raw) bson.D {
		name, _ := raw.Lookup(command).StringValueOK()
		r.lock.Lock()
		answer := first(name, decoded(r.t, raw))
		r.lock.Unlock()
		switch {
		case answer != nil:
			return answer
		case then == nil:
			return bson.D{}
		}
		return then(raw)
	})
}

// deny removes these rights, and grants all others.
func (r *ruledServer) deny(rights ...string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.denied = map[string]bool{}
	for _, right := range rights {
		r.denied[right] = true
	}
}

// state returns everything that the server keeps, as text.
func (r *ruledServer) state() string {
	r.lock.Lock()
	defer r.lock.Unlock()
	return fmt.Sprint(r.documents, r.views, r.indexes)
}

func (r *ruledServer) noted() bool { return fieldOf(r.definition(), "segments") == true }

// trial returns the result of a trial with these settings.
func (r *ruledServer) trial(t *testing.T, view collection.ViewKind, segments collection.Segments) collection.Trial {
	t.Helper()
	d := mongodbtest.Open(t, r.Fake)
	before := r.state()
	trial, err := collection.Of(d, "events").Trial(t.Context(), definition, collection.Settings{View: view, Segments: segments})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, r.state()); diff != "" {
		t.Errorf("the trial changed something: %s", diff)
	}
	return trial
}

// lacking returns the missing actions. Those that are due have a mark.
func lacking(trial collection.Trial) (all []string) {
	for _, r := range trial.Missing {
		name := r.Action + " " + r.Namespace
		if r.Due {
			name += "!"
		}
		all = append(all, name)
	}
	return all
}

// TestSegmentsAreNotNotedWhereTheirViewCannotBeMade checks that no irreversible step is taken before everything it needs is
// possible.
func TestSegmentsAreNotNotedWhereTheirViewCannotBeMade(t *testing.T) {
	for _, denied := range [][]string{
		{"collMod events", "drop"},
		{"collMod events", "create events"},
	} {
		r := newRuledServer(t)
		if _, err := r.setup(collection.ViewAuto); err != nil { // with segments off
			t.Fatal(err)
		}
		view := fmt.Sprint(r.views["events"])
		r.deny(denied...)
		for _, segments := range []collection.Segments{collection.SegmentsAuto, collection.SegmentsOn} {
			ready, said, err := r.setupSegments(collection.ViewAuto, segments)
			if segments == collection.SegmentsOn { // requested explicitly
				if !mongodb.LacksRight(err) {
					t.Fatalf("%v, SEGMENTS=on: %v", denied, err)
				}
				said = err.Error()
			} else if err != nil || ready.Segments || ready.HasSegments || !strings.Contains(said, "level=WARN") {
				t.Errorf("%v, SEGMENTS=auto: %v, %s", denied, err, said)
			}
			for _, part := range []string{"collMod on db.events,", "dbAdmin", "MONGODB_VIEW=none", "SEGMENTS=off"} {
				if !strings.Contains(said, part) {
					t.Errorf("%v, SEGMENTS=%s: %q is not in: %s", denied, segments, part, said)
				}
			}
			if r.noted() || fmt.Sprint(r.views["events"]) != view {
				t.Errorf("%v, SEGMENTS=%s: noted: %v, the view is %v", denied, segments, r.noted(), r.views["events"])
			}
		}
		if got := lacking(r.trial(t, collection.ViewAuto, collection.SegmentsAuto)); !slices.Equal(got, []string{"collMod db.events!"}) {
			t.Errorf("%v: a trial finds %v", denied, got)
		}
		if said, err := r.setup(collection.ViewAuto); err != nil || strings.Contains(said, "level=WARN") {
			t.Errorf("%v, SEGMENTS=off: %v, said %s", denied, err, said)
		}
	}
}

// TestAViewThatMayNotBeChangedIsCreatedAnew checks this because readWrite has the rights for it.
func TestAViewThatMayNotBeChangedIsCreatedAnew(t *testing.T) {
	r := newRuledServer(t)
	if _, err := r.setup(collection.ViewAuto); err != nil {
		t.Fatal(err)
	}
	r.deny("collMod events")
	if got := lacking(r.trial(t, collection.ViewAuto, collection.SegmentsAuto)); got != nil {
		t.Errorf("a trial finds %v", got)
	}
	ready, said, err := r.setupSegments(collection.ViewAuto, collection.SegmentsAuto)
	if err != nil || !ready.Segments || !r.noted() || r.kind() != union || !strings.Contains(said, "created again") {
		t.Errorf("%v, noted: %v, the view is %s; said %s", err, r.noted(), r.kind(), said)
	}
	r.views["events"] = internalView(3600) // as a consumer of a former version creates it
	d := mongodbtest.Open(t, r.Fake)
	if mended, err := collection.Of(d, "events").MendView(t.Context()); err != nil || !mended || r.kind() != union {
		t.Errorf("mended: %v, %v; the view is %s", mended, err, r.kind())
	}
	if _, _, err := collection.Of(d, "events").SetBucketing(t.Context(), timeseries.Options{Granularity: timeseries.Minutes}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]any{int32(86400), int32(86400)}, r.spans(t)); diff != "" {
		t.Error(diff)
	}
}

// TestTrialHeedsRightsOnTheViewAlone covers a role that names only the view. Nothing but the view may be dropped.
func TestTrialHeedsRightsOnTheViewAlone(t *testing.T) {
	r := newRuledServer(t)
	if _, err := r.setup(collection.ViewAuto); err != nil {
		t.Fatal(err)
	}
	r.deny("collMod events", "drop")
	for privilege, want := range map[string][]string{
		`{"resource": {"db": "db", "collection": "events"}, "actions": ["find", "dropCollection"]}`: nil,
		`{"resource": {"db": "db", "collection": "events.buckets"}, "actions": ["dropCollection"]}`: {"collMod db.events!"},
		`{"resource": {"db": "other", "collection": "events"}, "actions": ["dropCollection"]}`:      {"collMod db.events!"},
		`{"resource": {"db": "db", "collection": "events"}, "actions": ["find"]}`:                   {"collMod db.events!"},
		`{"resource": {"cluster": true}, "actions": ["dropCollection"]}`:                            {"collMod db.events!"},
	} {
		var listed bson.D
		if err := bson.UnmarshalExtJSON([]byte(privilege), false, &listed); err != nil {
			t.Fatal(err)
		}
		r.privileges = bson.A{listed}
		if got := lacking(r.trial(t, collection.ViewAuto, collection.SegmentsAuto)); !slices.Equal(got, want) {
			t.Errorf("with %s it finds %v, want %v", privilege, got, want)
		}
	}
}

// TestAViewThatCannotBeMadeStopsNothingElse covers a collection with segments, and one with segments off. The failure is logged,
// and everything else continues.
func TestAViewThatCannotBeMadeStopsNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		segments, then collection.Segments
		blind          bool // the view is of a version that knew no segments
		denied         []string
		view           collection.ViewKind
		fills          bool
		lacks          []string
	}{
		"no view, segments off":    {"", collection.SegmentsOff, false, []string{"create events"}, collection.ViewAuto, false, []string{"createCollection db.events!"}},
		"a blind view":             {collection.SegmentsOn, collection.SegmentsAuto, true, []string{"collMod events", "drop"}, collection.ViewAuto, false, []string{"collMod db.events!"}},
		"a blind view, off":        {collection.SegmentsOn, collection.SegmentsOff, true, []string{"collMod events", "drop"}, collection.ViewAuto, false, []string{"collMod db.events!"}},
		"a blind view, on":         {collection.SegmentsOn, collection.SegmentsOn, true, []string{"collMod events", "drop"}, collection.ViewAuto, false, []string{"collMod db.events!"}},
		"a view not to be dropped": {collection.SegmentsOn, collection.SegmentsOn, false, []string{"drop"}, collection.ViewNone, true, []string{"dropCollection db.events!"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRuledServer(t)
			if c.segments != "" {
				if _, _, err := r.setupSegments(collection.ViewAuto, c.segments); err != nil {
					t.Fatal(err)
				}
			}
			if c.blind {
				r.views["events"] = internalView(3600)
			}
			r.deny(c.denied...)
			if diff := cmp.Diff(c.lacks, lacking(r.trial(t, c.view, c.then))); diff != "" {
				t.Errorf("a trial finds: %s", diff)
			}
			ready, said, err := r.setupSegments(c.view, c.then)
			if err != nil || ready.Segments != c.fills || !strings.Contains(said, "level=WARN") || !strings.Contains(said, "a right is missing") {
				t.Errorf("%v, segments: %v; said %s", err, ready.Segments, said)
			}
		})
	}
}

// TestAMissingRightIsNoInability checks that a user's missing right does not decide about segments, because this decision is
// final.
func TestAMissingRightIsNoInability(t *testing.T) {
	r := newRuledServer(t)
	r.deny("create events")
	for range 2 {
		ready, said, err := r.setupSegments(collection.ViewAuto, collection.SegmentsAuto)
		if err != nil || ready.HasSegments || !strings.Contains(said, "createCollection on db.events,") || strings.Contains(said, "this MongoDB has no") {
			t.Errorf("%v, said %s", err, said)
		}
		if r.noted() {
			t.Error("segments are noted")
		}
		hasBuckets(r.viewServer) // as after a while
	}
	if got := lacking(r.trial(t, collection.ViewAuto, collection.SegmentsAuto)); !slices.Equal(got, []string{"createCollection db.events!"}) {
		t.Errorf("a trial finds %v", got)
	}
	r.deny()
	r.documents["events.buckets"] = r.documents["events.buckets"][:1]
	ready, said, err := r.setupSegments(collection.ViewAuto, collection.SegmentsAuto)
	if err != nil || !ready.Segments || !r.noted() || r.kind() != union {
		t.Errorf("with the right: %v, noted: %v, the view is %s; said %s", err, r.noted(), r.kind(), said)
	}
}

// TestNoViewIsMadeThatMayNotBeDropped also covers documents that may not be deleted. kind finds objects left behind.
func TestNoViewIsMadeThatMayNotBeDropped(t *testing.T) {
	for _, denied := range []string{"drop", "delete", "create probe"} {
		r := newRuledServer(t)
		r.deny(denied)
		r.before("create", func(name string, _ bson.D) bson.D {
			if denied == "create probe" && strings.HasPrefix(name, "waterwheel.probe") { // like a role that names its collections
				return mongodbtest.Failing(13, "not authorized on db to execute command { create: \"x\" }")(nil)
			}
			return nil
		})
		ready, said, err := r.setupSegments(collection.ViewAuto, collection.SegmentsAuto)
		if err != nil || !ready.Segments || r.kind() != union {
			t.Errorf("without %s: %v, the view is %s; said %s", denied, err, r.kind(), said)
		}
	}
}

// TestIndexesThatAreThereNeedNoRight also covers indexes that are not needed.
func TestIndexesThatAreThereNeedNoRight(t *testing.T) {
	r := newRuledServer(t)
	r.deny("createIndexes")
	_, _, err := r.setupSegments(collection.ViewAuto, collection.SegmentsAuto)
	if !mongodb.LacksRight(err) || !strings.Contains(err.Error(), "createIndex on db.events.buckets,") || r.noted() {
		t.Errorf("noted: %v, %v", r.noted(), err)
	}
	if got := lacking(r.trial(t, collection.ViewAuto, collection.SegmentsAuto)); !slices.Equal(got, []string{"createIndex db.events.buckets!"}) {
		t.Errorf("a trial finds %v", got)
	}
	r.deny()
	if _, err := r.setup(collection.ViewAuto); err != nil {
		t.Fatal(err)
	}
	r.deny("createIndexes")
	ready, said, err := r.setupSegments(collection.ViewAuto, collection.SegmentsAuto)
	if err != nil || !ready.Segments || strings.Count(said, "all buckets are scanned to find segments") != 1 {
		t.Errorf("%v, said %s", err, said)
	}
	r.deny()
	if _, _, err := r.setupSegments(collection.ViewAuto, collection.SegmentsAuto); err != nil {
		t.Fatal(err)
	}
	r.deny("createIndexes")
	if _, said, err := r.setupSegments(collection.ViewAuto, collection.SegmentsAuto); err != nil || strings.Contains(said, "level=WARN") {
		t.Errorf("%v, said %s", err, said)
	}
	if got := lacking(r.trial(t, collection.ViewAuto, collection.SegmentsAuto)); !slices.Equal(got, []string{"createIndex db.events.buckets"}) {
		t.Errorf("a trial finds %v, want what is not due", got)
	}
}

// TestTrialNamesEachMissingRight covers the state before and after the set-up of the time series.
func TestTrialNamesEachMissingRight(t *testing.T) {
	r := newRuledServer(t)
	for _, ready := range []bool{false, true} {
		if ready {
			r.deny()
			if _, _, err := r.setupSegments(collection.ViewAuto, collection.SegmentsAuto); err != nil {
				t.Fatal(err)
			}
		}
		due := map[bool]string{true: "!"}
		for denied, want := range map[string]string{
			"find options": "find db.events.options!", "find buckets": "find db.events.buckets!", "find partitions": "find db.events.partitions!",
			"insert options": "insert db.events.options!", "insert partitions": "insert db.events.partitions!", "insert buckets": "insert db.events.buckets!",
			"update options": "update db.events.options" + due[!ready], "update partitions": "update db.events.partitions!", "update buckets": "update db.events.buckets!",
			"delete buckets": "remove db.events.buckets!", "createIndexes buckets": "createIndex db.events.buckets" + due[!ready],
			"listIndexes buckets": "listIndexes db.events.buckets!", "nothing": "",
		} {
			r.deny(denied)
			got := lacking(r.trial(t, collection.ViewAuto, collection.SegmentsAuto))
			if want == "" && got != nil || want != "" && !slices.Equal(got, []string{want}) {
				t.Errorf("set up: %v: without %s it finds %v, want %q", ready, denied, got, want)
			}
		}
	}
}

// TestTrialSparesServersWithoutALogin checks that they get no commands that they might execute.
func TestTrialSparesServersWithoutALogin(t *testing.T) {
	r := newRuledServer(t)
	r.Answer("connectionStatus", func(bson.Raw) bson.D {
		return bson.D{{Key: "authInfo", Value: bson.D{{Key: "authenticatedUsers", Value: bson.A{}}}}}
	})
	for range 2 {
		r.trial(t, collection.ViewAuto, collection.SegmentsAuto)
		for _, command := range []string{"insert", "delete", "create", "createIndexes", "collMod", "drop"} {
			if n := len(r.Sent(command)); n > 0 {
				t.Errorf("%s was sent %d times", command, n)
			}
		}
		r.documents["events.buckets"] = nil
	}
	if n := len(r.Sent("update")); n != 1 {
		t.Errorf("%d updates, want one of the collection that is there", n)
	}
}

// TestMissingRightsHaveOneForm checks that the message names the right, and does not quote the whole command.
func TestMissingRightsHaveOneForm(t *testing.T) {
	const role = ", which the role readWrite on the database telemetry has"
	for message, want := range map[string]string{
		`not authorized on telemetry to execute command { collMod: "events", viewOn: "events.buckets", pipeline: [ {} ] }`:              "this user lacks the right collMod on telemetry.events, which the role dbAdmin on the database telemetry has",
		`not authorized on telemetry to execute command { delete: "events.buckets", ordered: true }`:                                    "this user lacks the right remove on telemetry.events.buckets" + role,
		`not authorized on telemetry to execute command { createIndexes: "events.buckets", indexes: [] }`:                               "this user lacks the right createIndex on telemetry.events.buckets" + role,
		`not authorized on telemetry to execute command { listCollections: 1, filter: {} }`:                                             "this user lacks the right listCollections on the database telemetry, which the role read on the database telemetry has",
		`not authorized on telemetry to execute command { aggregate: "events.buckets", pipeline: [ { $indexStats: {} } ], cursor: {} }`: "this user lacks the right indexStats on telemetry.events.buckets, which the role dbAdmin on the database telemetry has",
		`not authorized on telemetry to execute command { aggregate: "events.buckets", pipeline: [ { $match: {} } ], cursor: {} }`:      "this user lacks the right find on telemetry.events.buckets, which the role read on the database telemetry has",
		`not authorized on telemetry to execute command { unheardOf: "events" }`:                                                        `not authorized on telemetry to execute command { unheardOf: "events" }`,
		`command find requires authentication`: `command find requires authentication`,
	} {
		f := mongodbtest.NewFake(t, nil)
		f.Answer("find", mongodbtest.Failing(13, message))
		d := mongodbtest.Open(t, f)
		_, _, err := collection.Of(d, "events").Definition(t.Context())
		if !errors.Is(err, claim.ErrUnauthorized) || !mongodb.LacksRight(err) || err.Error() != "reading the collection's options: MongoDB refuses the request with code 13, Unauthorized: "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	f := mongodbtest.NewFake(t, nil)
	f.Answer("find", mongodbtest.Failing(2, "bad"))
	d := mongodbtest.Open(t, f, func(o *mongodb.Options) { o.WriteTimeout = time.Second })
	if _, _, err := collection.Of(d, "events").Definition(t.Context()); err == nil || errors.Is(err, claim.ErrUnauthorized) || mongodb.LacksRight(err) {
		t.Errorf("another refusal is taken for a missing right: %v", err)
	}
}
