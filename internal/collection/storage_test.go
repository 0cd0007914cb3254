package collection_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
)

// storageServer is a scripted server that creates and lists collections as it was told to.
type storageServer struct {
	*mongodbtest.Fake
	create func(bson.Raw) bson.D // answers the creation of the buckets collection
	keeps  bool                  // it lists the options of the buckets
	there  bool                  // the buckets collection exists
}

func newStorageServer(t *testing.T) *storageServer {
	s := &storageServer{Fake: mongodbtest.NewFake(t, nil), keeps: true, create: func(bson.Raw) bson.D { return bson.D{} }}
	s.Answer("find", mongodbtest.EmptyCursor)
	s.Answer("insert", mongodbtest.Counting(1))
	s.Answer("createIndexes", func(bson.Raw) bson.D { return bson.D{} })
	var engine bson.RawValue
	s.Answer("create", func(command bson.Raw) bson.D {
		answer := s.create(command)
		s.there, engine = s.there || len(answer) == 0, command.Lookup("storageEngine")
		return answer
	})
	s.Answer("listCollections", func(command bson.Raw) bson.D {
		name := command.Lookup("filter", "name").StringValue()
		if name != "events.buckets" || !s.there {
			return mongodbtest.CursorOf()
		}
		o := bson.D{}
		if s.keeps && engine.Type != 0 {
			o = bson.D{{Key: "storageEngine", Value: engine}}
		}
		return mongodbtest.CursorOf(bson.D{{Key: "name", Value: name}, {Key: "type", Value: "collection"}, {Key: "options", Value: o}})
	})
	return s
}

func TestSetupChoosesZstdWhereTheServerLetsIt(t *testing.T) {
	for name, c := range map[string]struct {
		server func(*storageServer)
		says   string // the only line in the log
	}{
		"takes it":           {func(*storageServer) {}, ""},
		"ignores it":         {func(s *storageServer) { s.keeps = false }, "the server ignores the option storageEngine"},
		"does not know zstd": {func(s *storageServer) { s.create = mongodbtest.Failing(2, "unknown compressor 'zstd'") }, "unknown compressor 'zstd' (code 2)"},
		"has no such engine": {func(s *storageServer) {
			s.create = mongodbtest.Failing(72, "wiredTiger is not a registered storage engine")
		}, "(code 72)"},
		"no privilege":         {func(s *storageServer) { s.create = mongodbtest.Failing(13, "not authorized") }, "a right is missing"},
		"a code of a hoster's": {func(s *storageServer) { s.create = mongodbtest.Failing(8000, "storageEngine is not allowed") }, "(code 8000)"},
		"another was quicker":  {func(s *storageServer) { s.create = mongodbtest.Failing(48, "exists") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStorageServer(t)
			c.server(s)
			var log strings.Builder
			d := mongodbtest.Open(t, s.Fake, func(o *mongodb.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			if _, err := collection.Of(d, "events").Setup(t.Context(), definition, collection.Settings{View: collection.ViewNone}); err != nil {
				t.Fatal(err)
			}
			const asked = `{"wiredTiger": {"configString": "block_compressor=zstd"}}`
			commands := s.Sent("create")
			if len(commands) != 1 || commands[0].Lookup("create").StringValue() != "events.buckets" || commands[0].Lookup("storageEngine").String() != asked {
				t.Errorf("it was asked %v", commands)
			}
			if n := strings.Count(log.String(), "compressed with"); n != min(1, len(c.says)) || !strings.Contains(log.String(), c.says) {
				t.Errorf("said %q, want %q", log.String(), c.says)
			}
			if n := len(s.Sent("createIndexes")); n != 2 {
				t.Errorf("%d indexes", n)
			}
		})
	}
}

func TestSetupLeavesTheStorageOfExistingBucketsAlone(t *testing.T) {
	s := newStorageServer(t)
	s.there = true
	if _, err := collection.Of(mongodbtest.Open(t, s.Fake), "events").Setup(t.Context(), definition, collection.Settings{}); err != nil {
		t.Fatal(err)
	}
	for _, command := range s.Sent("create") {
		if command.Lookup("create").StringValue() == "events.buckets" {
			t.Errorf("sent %v", command)
		}
	}
}

// TestSetupDoesNotTakeAnOutageForARefusal checks that a temporary error says nothing about the server's features. The next
// attempt tries again.
func TestSetupDoesNotTakeAnOutageForARefusal(t *testing.T) {
	for _, code := range []int32{11600, 462, 10107} {
		s := newStorageServer(t)
		s.create = mongodbtest.Failing(code, "not now")
		var outage *mongodb.OutageError
		if _, err := collection.Of(mongodbtest.Open(t, s.Fake), "events").Setup(t.Context(), definition, collection.Settings{}); !errors.As(err, &outage) {
			t.Errorf("code %d: %v", code, err)
		}
		if n := len(s.Sent("createIndexes")); n != 0 {
			t.Errorf("code %d: the buckets were made without compressor", code)
		}
	}
}

func TestSizeTellsTheCompressor(t *testing.T) {
	engine := func(words string) bson.D {
		return bson.D{{Key: "wiredTiger", Value: bson.D{{Key: "creationString", Value: words}}}}
	}
	f := mongodbtest.NewFake(t, nil)
	d := mongodbtest.Open(t, f)
	for _, c := range []struct {
		stats bson.D
		want  string
	}{
		{bson.D{}, ""},
		{engine("access_pattern_hint=none,block_allocation=best,block_compressor=zstd,cache_resident=false"), "zstd"},
		{engine("block_compressor=,key_format=q"), "none"},
		{engine("app_metadata=(other_block_compressor=zlib),key_format=q"), ""},
		{bson.D{{Key: "shards", Value: bson.D{
			{Key: "a", Value: engine("x=,block_compressor=zstd")},
			{Key: "b", Value: engine("block_compressor=snappy,x=")},
			{Key: "c", Value: engine("block_compressor=zstd")},
		}}}, "snappy, zstd"},
	} {
		f.Answer("collStats", func(bson.Raw) bson.D { return append(bson.D{{Key: "count", Value: 3}}, c.stats...) })
		got, err := collection.Of(d, "events").Size(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(collection.Size{Documents: 3, Compressor: c.want}, got); diff != "" {
			t.Errorf("%v: %s", c.stats, diff)
		}
	}
}
