package collection_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
	"waterwheel/internal/timeseries"
)

// TestUserExpiryFollowsTheSpan creates an index that expires some series, and raises the granularity. The index must not delete a
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
	if diff := cmp.Diff(`{"key": {"control.min.time": {"$numberInt":"1"}},"name": "time_1","partialFilterExpression": {"meta.kind": "debug","control.segment.owner": null},`+
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

// TestFirstExpiryMayBeBuiltForLong has a build that takes longer than a change may hold the lock. Nothing interrupts it.
func TestFirstExpiryMayBeBuiltForLong(t *testing.T) {
	const timeout = 100 * time.Millisecond
	for _, lists := range []bool{true, false} { // whether the server lists the index while it is built
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

// TestExpiryOfAnIndexBeingBuilt checks a change during a build, in which MongoDB lists the index but finds none to change.
// Nothing is written then, and the error says why.
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
	if err == nil || !strings.Contains(err.Error(), "may still be building") {
		t.Error(err)
	}
	for _, command := range f.Sent("update") {
		if command.Lookup("updates", "0", "q", "_id").StringValue() == timeseries.DefinitionID {
			t.Errorf("the definition was written: %v", command)
		}
	}
}

// TestInterruptedBuildIsExplained checks that an interrupted command says that MongoDB may continue the build.
func TestInterruptedBuildIsExplained(t *testing.T) {
	o := definition
	o.MaxSpanSeconds = 3600
	f, _ := indexServer(t, o)
	d := mongodbtest.Open(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	f.Answer("createIndexes", func(bson.Raw) bson.D {
		cancel()
		time.Sleep(50 * time.Millisecond) // so that the client notices first
		return bson.D{}
	})
	_, _, err := collection.Of(d, "events").CreateIndex(ctx, userIndex(t, `{"meta.a": 1}`, ""))
	if !errors.Is(err, collection.ErrInterruptedBuild) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestUserExpiryIsNeverTooEarly checks that a measurement outlives the user's expiry, for any record of an index and any time of
// growth.
func TestUserExpiryIsNeverTooEarly(t *testing.T) {
	const hour, minutes = 3600, 86400
	for name, c := range map[string]struct {
		grown   bool  // the span grew while MongoDB built the index
		byHand  int64 // The index was recreated by hand with these seconds. Zero means that it was not.
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
			if c.grown { // there is no difference on this server
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

// TestUserExpiryLeavesSegments has filters that the meta of a segment matches too. A real server deletes the buckets, and no
// segment, which has measurements of other series.
func TestUserExpiryLeavesSegments(t *testing.T) {
	defer connect(t).expireEverySecond(t)()
	for _, filter := range []string{`{"meta": {"$exists": true}}`, `{"meta": {"$type": ["binData", "string"]}}`, `{"meta.kind": null}`} {
		e := connect(t)
		e.setup(t)
		buckets := e.Raw.Collection("events.buckets")
		segment := segmentOf(t, definition, bucketOf("", minute-60_000, records(0, 3)...), 0, func(i int) any { return []any{"a", missing{}, "b"}[i] })
		for _, document := range []bson.Raw{segment, bucketOf("a", minute, records(3, 3)...)} {
			if _, err := buckets.InsertOne(t.Context(), document); err != nil {
				t.Fatal(err)
			}
		}
		options := `{"expireAfterSeconds": 60, "partialFilterExpression": ` + filter + `}`
		index, made, err := collection.Of(e.Database, "events").CreateIndex(t.Context(), userIndex(t, `{"time": 1}`, options))
		if err != nil || !made {
			t.Fatalf("%v, %v", index, err)
		}
		for range 700 { // of 100 ms, because the server begins with its former pause of a minute
			if n, err := buckets.CountDocuments(t.Context(), bson.D{{Key: "meta", Value: "a"}}); err != nil || n == 0 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		var left []bson.Raw
		cursor, err := buckets.Find(t.Context(), bson.D{})
		if err == nil {
			err = cursor.All(t.Context(), &left)
		}
		if err != nil || len(left) != 1 || left[0].Lookup("_id").ObjectID() != segment.Lookup("_id").ObjectID() {
			t.Errorf("%s: %d documents are left, %v", filter, len(left), err)
		}
	}
}

// expireEverySecond makes the server look for expired documents each second. It skips the test if the server cannot.
func (e *env) expireEverySecond(t *testing.T) (restore func()) {
	t.Helper()
	set := func(seconds any) (bson.Raw, error) {
		return e.Raw.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "setParameter", Value: 1}, {Key: "ttlMonitorSleepSecs", Value: seconds}}).Raw()
	}
	was, err := set(1)
	if err != nil {
		t.Skipf("the server at E2E_MONGODB_URI does not let a test hurry its deletion of expired documents: %v", err)
	}
	return func() {
		if _, err := set(was.Lookup("was")); err != nil {
			t.Error(err)
		}
	}
}
