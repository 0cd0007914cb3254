package collection_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
)

// segmentOf returns a bucket as a segment. The metas become a column at the given place among the columns. A missing meta adds no
// value.
func segmentOf(t testing.TB, o timeseries.Options, bucket bson.Raw, place int, metaOf func(i int) any) bson.Raw {
	t.Helper()
	d, metas := decoded(t, bucket), bson.D{}
	for i, at := range fieldOf(fieldOf(d, "data").(bson.D), o.TimeField).(bson.D) {
		if meta := metaOf(i); meta != any(missing{}) {
			metas = append(metas, bson.E{Key: at.Key, Value: meta})
		}
	}
	d = slices.DeleteFunc(d, func(e bson.E) bool { return e.Key == "meta" })
	d = append(d, bson.E{Key: "meta", Value: timeseries.SegmentMetaOf(fieldOf(d, "_id").(bson.ObjectID))})
	for i := range d {
		switch d[i].Key {
		case "control":
			d[i].Value = append(d[i].Value.(bson.D),
				bson.E{Key: "closed", Value: true},
				bson.E{Key: "segment", Value: bson.D{{Key: "owner", Value: "c/t/0"}}})
		case "data":
			if columns := d[i].Value.(bson.D); o.MetaField != "" && len(metas) > 0 {
				d[i].Value = slices.Insert(columns, min(place, len(columns)), bson.E{Key: o.MetaField, Value: metas})
			}
		}
	}
	return marshal(d)
}

// with sets a field of control by its path.
func with(t testing.TB, document bson.Raw, path string, at time.Time) bson.Raw {
	t.Helper()
	d := decoded(t, document)
	outer, inner, _ := strings.Cut(path, ".")
	control := fieldOf(d, "control").(bson.D)
	part, _ := fieldOf(control, outer).(bson.D)
	control = merged(control, bson.D{{Key: outer, Value: append(part, bson.E{Key: inner, Value: bson.NewDateTimeFromTime(at)})}})
	return marshal(merged(d, bson.D{{Key: "control", Value: control}}))
}

// sorted returns documents in a fixed order.
func sorted(all []bson.Raw) []bson.Raw {
	slices.SortFunc(all, slices.Compare[bson.Raw])
	return all
}

// TestPortableUnionMakesTheSameMeasurements checks the measurements of the shown buckets and segments, for any position of a
// segment's meta among its columns.
func TestPortableUnionMakesTheSameMeasurements(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	metas := []any{"s-1", bson.D{{Key: "sensor", Value: "s-2"}}, int32(17), "$a", missing{}, nil}
	for range 150 {
		o := timeseries.Options{TimeField: []string{"time", "t"}[random.IntN(2)], MetaField: []string{"meta", "", "tags"}[random.IntN(3)]}
		o, err := o.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		var buckets, want []bson.Raw
		for range 1 + random.IntN(8) {
			document, path := randomBucket(random, o, 1+random.IntN(20), random.IntN(8)), "compaction.visibleFrom"
			shownFrom := []time.Duration{-time.Hour, time.Hour}[random.IntN(2)]
			if random.IntN(2) == 0 {
				document, path = segmentOf(t, o, document, random.IntN(4), func(int) any { return metas[random.IntN(len(metas))] }), "segment.visibleUntil"
			}
			shown := true
			if random.IntN(3) > 0 {
				document = with(t, document, path, time.Now().Add(shownFrom))
				shown = (shownFrom > 0) == (path == "segment.visibleUntil")
			}
			buckets = append(buckets, document)
			if !shown {
				continue
			}
			measurements, err := collection.Measurements(o, document)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, measurements...)
		}
		got, err := modelled(t, roundTrip(t, collection.UnionPipeline(collection.ViewPortable, o, "b", nil)), buckets...)
		if err == nil {
			err = collection.CompareMeasurements(sorted(got), sorted(want))
		}
		if err != nil {
			t.Fatalf("%v: %v, of %v", o, err, buckets)
		}
	}
}

// TestUnionOfMongoDBsOwnStages compares the pipeline with docs/segments.md literally.
func TestUnionOfMongoDBsOwnStages(t *testing.T) {
	o, err := definition.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	got, err := bson.MarshalExtJSON(bson.D{{Key: "p", Value: collection.UnionPipeline(collection.ViewInternal, o, "events.buckets", nil)}}, false, false)
	want := `{"p":[` +
		`{"$match":{"control.segment.owner":{"$gte":""},` +
		`"$expr":{"$gt":[{"$ifNull":["$control.segment.visibleUntil",{"$date":"9999-12-31T23:59:59Z"}]},"$$NOW"]}}},` +
		`{"$unset":"meta"},` +
		`{"$_internalUnpackBucket":{"timeField":"time","bucketMaxSpanSeconds":3600}},` +
		`{"$unionWith":{"coll":"events.buckets","pipeline":[` +
		`{"$match":{"control.segment.owner":{"$exists":false},"$expr":{"$lte":["$control.compaction.visibleFrom","$$NOW"]}}},` +
		`{"$_internalUnpackBucket":{"timeField":"time","metaField":"meta","bucketMaxSpanSeconds":3600}}]}}]}`
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}
