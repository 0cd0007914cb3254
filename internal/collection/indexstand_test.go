package collection_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb/mongodbtest"
	"waterwheel/internal/timeseries"
)

// ext parses a document in Extended JSON. "" gives nil.
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

// summary returns an index in one line.
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

// ownIndexes returns the indexes that a time series has from the start. One is for the view, if the server has its own stage.
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

// refusesParallelArrays reports whether the server refuses a document with arrays in two keys of an index.
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

// indexServer returns a fake that keeps indexes like MongoDB.
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
