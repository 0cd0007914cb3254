package mongodb_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
)

// TestBulkCallsOfSmallAndLargeWritesSayTheSame checks that commands from this package and from the driver are the same except for
// their writes. This concerns above all the session, the server's time limit and the write concern.
func TestBulkCallsOfSmallAndLargeWritesSayTheSame(t *testing.T) {
	hello := bson.D{{Key: "setName", Value: "rs"}, {Key: "logicalSessionTimeoutMinutes", Value: int32(30)}}
	f := mongodbtest.NewFake(t, hello)
	d, err := mongodb.Open(t.Context(), mongodb.Options{
		URI: "mongodb://" + f.Addr().String() + "/?replicaSet=rs&w=1&retryWrites=true&readPreference=secondaryPreferred", Database: "db",
		WriteTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(t.Context()) })
	f.Answer("insert", mongodbtest.Counting(2))
	f.Answer("update", mongodbtest.Counting(2))
	buckets := d.Collection("events.buckets")
	for _, padding := range []string{"s", strings.Repeat("l", 6000)} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		document := mongodb.Document(bson.D{{Key: "_id", Value: 1}, {Key: "padding", Value: padding}})
		if _, err := buckets.Insert(ctx, []bson.Raw{document, document}); err != nil {
			t.Fatal(err)
		}
		update := mongodb.Update{
			Filter: mongodb.Document(bson.D{{Key: "_id", Value: 1}}),
			Update: mongodb.Document(bson.D{{Key: "$set", Value: bson.D{{Key: "padding", Value: padding}}}}),
		}
		if _, err := buckets.Update(ctx, []mongodb.Update{update, update}); err != nil {
			t.Fatal(err)
		}
	}
	for name, list := range map[string]string{"insert": "documents", "update": "updates"} {
		sent := f.Sent(name)
		if len(sent) != 2 {
			t.Fatalf("%s: %d commands were sent", name, len(sent))
		}
		small, large := beside(t, sent[0], list), beside(t, sent[1], list)
		if diff := cmp.Diff(large, small); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for key, want := range map[string]string{
			name: `"events.buckets"`, "$db": `"db"`, "ordered": "false", "writeConcern": `{"w": "majority","j": true}`,
			"maxTimeMS": "a minute", "lsid": "a session",
		} {
			if small[key] != want {
				t.Errorf("%s: %s is %s, want %s", name, key, small[key], want)
			}
		}
	}
}

// beside returns the fields of a command without its writes. Times and sessions differ between calls, so fixed words replace
// them.
func beside(t *testing.T, command bson.Raw, list string) map[string]string {
	t.Helper()
	elements, err := command.Elements()
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, e := range elements {
		said[e.Key()] = e.Value().String()
	}
	if ms := command.Lookup("maxTimeMS").AsInt64(); ms > 50_000 && ms <= 60_000 {
		said["maxTimeMS"] = "a minute"
	}
	if _, _, ok := command.Lookup("lsid", "id").BinaryOK(); ok {
		said["lsid"] = "a session"
	}
	delete(said, list)
	return said
}
