package sink_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/sink"
	"waterwheel/timeseries"
)

// viewed is a server with a view of a kind, and random buckets; the test is skipped where the server has no such view.
func viewed(t *testing.T, kind sink.ViewKind, buckets int) (*env, []bson.Raw) {
	t.Helper()
	e := connect(t, func(o *sink.Options) { o.View = kind })
	if _, err := e.Setup(t.Context(), "events", definition, 1000); err != nil {
		t.Skipf("the server at E2E_MONGODB_URI has no view of kind %s: %v", kind, err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	o, err := definition.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	var all []bson.Raw
	for range buckets {
		all = append(all, randomBucket(random, o, 1+random.IntN(200), random.IntN(30)))
	}
	if _, err := e.raw.Collection("events.buckets").InsertMany(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	return e, all
}

func (e *env) view(t *testing.T, filter bson.D) []bson.Raw {
	t.Helper()
	cursor, err := e.raw.Collection("events").Find(t.Context(), filter)
	if err != nil {
		t.Fatal(err)
	}
	var all []bson.Raw
	if err := cursor.All(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestViewsShowTheMeasurements: each kind of view shows what this program reads in the same buckets.
func TestViewsShowTheMeasurements(t *testing.T) {
	for _, kind := range []sink.ViewKind{sink.ViewInternal, sink.ViewPortable} {
		t.Run(string(kind), func(t *testing.T) {
			e, buckets := viewed(t, kind, 50)
			want := map[string]int{}
			for _, b := range buckets {
				measurements, err := sink.Measurements(definition, b)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range measurements {
					want[string(m)]++
				}
			}
			for _, m := range e.view(t, bson.D{}) {
				if want[string(m)]--; want[string(m)] < 0 {
					t.Errorf("the view shows what no bucket holds: %v", m)
				}
			}
			for m, n := range want {
				if n > 0 {
					t.Errorf("the view lacks %v", bson.Raw(m))
				}
			}
			if state, err := e.View(t.Context(), "events"); err != nil || state.Kind != kind {
				t.Errorf("it is said to be %+v, %v", state, err)
			}
		})
	}
}

// TestViewsByTime: what docs/bucket-document.md says of filters on time. The server narrows them by _id behind its own stage,
// and misses times before 1970 and after 2106; the view of documented stages finds them.
func TestViewsByTime(t *testing.T) {
	for _, kind := range []sink.ViewKind{sink.ViewInternal, sink.ViewPortable} {
		t.Run(string(kind), func(t *testing.T) {
			e, _ := viewed(t, kind, 1)
			for _, c := range []struct {
				at      time.Time
				outside bool
			}{
				{time.Date(1960, 1, 1, 0, 0, 30, 0, time.UTC), true},
				{time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC), false},
				{time.Date(2110, 1, 1, 0, 0, 30, 0, time.UTC), true},
			} {
				ms := c.at.UnixMilli()
				w := insertAt("by time", definition.Round(ms), timeseries.Position{Offset: ms})
				if _, err := e.raw.Collection("events.buckets").InsertOne(t.Context(), w.Document); err != nil {
					t.Fatal(err)
				}
				from := bson.DateTime(definition.Round(ms))
				found := e.view(t, bson.D{{Key: "meta", Value: "by time"}, {Key: "time", Value: bson.D{{Key: "$gte", Value: from}, {Key: "$lt", Value: from + 60_000}}}})
				if missed := kind == sink.ViewInternal && c.outside; (len(found) == 0) != missed {
					t.Errorf("a filter around %v finds %d measurements; this server differs from what the documents say", c.at, len(found))
				}
			}
		})
	}
}
