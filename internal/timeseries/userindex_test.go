package timeseries

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestUserIndexIsTheWayBack checks that the index made by BucketIndex is translated back to the original.
func TestUserIndexIsTheWayBack(t *testing.T) {
	for _, c := range []struct{ keys, options string }{
		{`{"t": 1}`, ``},
		{`{"t": -1}`, `{"name": "late"}`},
		{`{"m": "hashed"}`, ``},
		{`{"m.$**": 1}`, ``},
		{`{"m.sensor": 1, "t": -1}`, `{"hidden": true}`},
		{`{"m": 1, "x": -1, "t": 1}`, ``},
		{`{"x.y": 1}`, `{"partialFilterExpression": {"m.a": {"$gt": 1}}}`},
		{`{"x": 1}`, `{"partialFilterExpression": {"$and": [{"m": 1}, {"$or": [{"m.b": 2}]}]}}`},
		{`{"loc": "2dsphere"}`, ``},
		{`{"m.loc": "2dsphere", "t": 1}`, ``},
		{`{"t": 1}`, `{"expireAfterSeconds": 60, "partialFilterExpression": {"m.a": 1}}`},
		{`{"t": -1}`, `{"expireAfterSeconds": 0, "partialFilterExpression": {"m.a": 1}, "name": "n"}`},
		{`{"t": 1}`, `{"expireAfterSeconds": 60, "partialFilterExpression": {"m": {"$exists": true}, "$and": [{"m.b": null}]}}`},
	} {
		want := Index{Keys: ext(t, c.keys), Options: ext(t, c.options)}
		buckets, err := indexed.BucketIndex(want)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := indexed.UserIndex(buckets)
		if !ok {
			t.Errorf("%s: %v is not taken back", c.keys, buckets)
			continue
		}
		sameDocument(t, "the key", got.Keys, objectValue(want.Keys))
		if want.Options != nil {
			sameFields(t, "the options", got.Options, objectValue(want.Options))
		}
		again, err := indexed.BucketIndex(got)
		if err != nil {
			t.Fatal(err)
		}
		sameDocument(t, "the key, again", again.Keys, objectValue(buckets.Keys))
		sameFields(t, "the options, again", again.Options, objectValue(buckets.Options))
	}
}

// TestUserIndexKnowsForeignOnes checks that an index that no user can have requested stays an index on buckets.
func TestUserIndexKnowsForeignOnes(t *testing.T) {
	for _, c := range []struct{ keys, options string }{
		{`{"_id": 1}`, ``},
		{`{"control.source.topicId": 1}`, ``},
		{`{"control.min.t": 1}`, ``},
		{`{"meta": 1, "control.min.t": 1}`, ``},
		{`{"control.max.t": 1, "control.min.t": 1}`, ``},
		{`{"control.min.t": 1, "control.max.x": 1}`, ``},
		{`{"control.min.t": 1, "control.max.t": -1}`, ``},
		{`{"data.x": 1}`, ``},
		{`{"metadata": 1}`, ``},
		{`{"meta.a": 1}`, `{"partialFilterExpression": {"control.count": 1}}`},
		{`{"meta.a": 1}`, `{"partialFilterExpression": {"$and": [{"control.count": 1}]}}`},
		{`{"meta.a": 1}`, `{"unique": true}`},
		{`{"control.min.t": 1}`, `{"expireAfterSeconds": 5}`},
		{`{"control.min.t": 1}`, `{"expireAfterSeconds": 5, "partialFilterExpression": {"meta": 1}}`}, // earlier than any measurement
		{`{}`, ``},
	} {
		if user, ok := indexed.UserIndex(Index{Keys: ext(t, c.keys), Options: ext(t, c.options)}); ok {
			t.Errorf("%s %s is taken for %v", c.keys, c.options, user)
		}
	}
	if user, ok := (Options{TimeField: "t"}).UserIndex(Index{Keys: ext(t, `{"meta": 1}`)}); ok {
		t.Errorf("without a meta field: %v", user)
	}
}

func FuzzUserIndex(f *testing.F) {
	f.Add([]byte(ext(f, `{"meta": 1, "control.min.t": 1, "control.max.t": 1}`)), []byte(ext(f, `{"name": "n", "partialFilterExpression": {"meta.a": 1}}`)))
	f.Add([]byte(ext(f, `{"control.min.t": -1}`)), []byte(ext(f, `{"expireAfterSeconds": 4000, "partialFilterExpression": {"meta.a": 1}}`)))
	f.Fuzz(func(t *testing.T, keys, options []byte) {
		user, ok := indexed.UserIndex(Index{Keys: keys, Options: options})
		if !ok {
			return
		}
		there, err := indexed.BucketIndex(user)
		if err != nil || Compare(objectValue(there.Keys), bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: keys}) != 0 {
			t.Errorf("%v comes back as %v (%v)", bson.Raw(keys), there.Keys, err)
		}
	})
}
