package collection_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
)

// randomBucket returns a bucket of any shape, as this program writes it. It has sparse columns, values of any type, names with
// special meanings, and times before 1970 and after 2106.
func randomBucket(random *rand.Rand, o timeseries.Options, count, fields int) bson.Raw {
	begin := random.Int64N(300*365*24*3600*1000) - 100*365*24*3600*1000
	start := o.Round(begin)
	times := bson.D{}
	latest := begin
	for i := range count {
		at := begin + random.Int64N(o.Span()-(begin-start))
		if i == 0 {
			at = begin
		}
		latest = max(latest, at)
		times = append(times, bson.E{Key: strconv.Itoa(i), Value: bson.DateTime(at)})
	}
	names := []string{"a", "$b", "data", "k", "v", "_id", "with space", "ü", "times", "columns", "place", "cells", "template"}
	data := bson.D{{Key: o.TimeField, Value: times}}
	for f := range fields {
		name := fmt.Sprint("f", f)
		if f < len(names) {
			name = names[f]
		}
		column, likely := bson.D{}, random.Float64()
		for i := range count {
			if likely > 0.7 || random.Float64() < likely {
				column = append(column, bson.E{Key: strconv.Itoa(i), Value: randomValue(random, 3)})
			}
		}
		if len(column) > 0 {
			data = append(data, bson.E{Key: name, Value: column})
		}
	}
	random.Shuffle(len(data), func(i, j int) { data[i], data[j] = data[j], data[i] })
	d := bson.D{
		{Key: "_id", Value: timeseries.BucketID(timeseries.Source{Topic: "view"}, timeseries.Position{Offset: random.Int64()}, 0, start)},
		{Key: "control", Value: bson.D{
			{Key: "version", Value: int32(1)},
			{Key: "min", Value: bson.D{{Key: o.TimeField, Value: bson.DateTime(start)}}},
			{Key: "max", Value: bson.D{{Key: o.TimeField, Value: bson.DateTime(latest)}}},
			{Key: "count", Value: int32(count)},
		}},
	}
	if o.MetaField != "" && random.IntN(5) > 0 {
		d = append(d, bson.E{Key: "meta", Value: randomValue(random, 2)})
	}
	return marshal(append(d, bson.E{Key: "data", Value: data}))
}

func randomValue(random *rand.Rand, depth int) any {
	switch n := random.IntN(14); {
	case n == 0 && depth > 0:
		array := bson.A{}
		for range random.IntN(4) {
			array = append(array, randomValue(random, depth-1))
		}
		return array
	case n <= 2 && depth > 0:
		object := bson.D{}
		for i := range random.IntN(4) {
			name := []string{"x", "$x", "a.b", "0", "k", "v", "$$ROOT"}[random.IntN(7)] + strconv.Itoa(i)
			object = append(object, bson.E{Key: name, Value: randomValue(random, depth-1)})
		}
		return object
	default:
		return []any{
			nil, true, int32(-7), int64(1) << 40, 0.5, "text", "$a", "$$ROOT", "", bson.DateTime(1), bson.NewObjectIDFromTimestamp(time.Unix(1, 0)),
			bson.Binary{Subtype: 4, Data: make([]byte, 16)},
			bson.NewDecimal128(1, 2),
			bson.MinKey{},
			bson.MaxKey{},
			bson.Timestamp{T: 1, I: 2},
			bson.Regex{Pattern: "a"},
		}[random.IntN(17)]
	}
}

// decoded returns a document in the model's form.
func decoded(t testing.TB, raw bson.Raw) (d bson.D) {
	t.Helper()
	if err := bson.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// modelled returns the measurements that the model computes from buckets.
func modelled(t testing.TB, pipeline bson.A, buckets ...bson.Raw) (all []bson.Raw, err error) {
	t.Helper()
	var documents []bson.D
	for _, b := range buckets {
		documents = append(documents, decoded(t, b))
	}
	made, err := aggregate(pipeline, documents...)
	for _, d := range made {
		all = append(all, marshal(d))
	}
	return all, err
}

func TestPortablePipelineMakesTheSameMeasurements(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		o := timeseries.Options{TimeField: []string{"time", "t", "times", "k"}[random.IntN(4)], MetaField: []string{"meta", "", "tags", "columns"}[random.IntN(4)]}
		o, err := o.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		bucket := randomBucket(random, o, 1+random.IntN(30), random.IntN(20))
		if o.MetaField == "columns" || o.TimeField == "times" || o.TimeField == "k" {
			bucket = randomBucket(random, o, 1+random.IntN(30), 3) // its columns have other names
		}
		want, err := collection.Measurements(o, bucket)
		if err != nil {
			t.Fatal(err)
		}
		got, err := modelled(t, roundTrip(t, collection.PortablePipeline(o)), bucket)
		if err == nil {
			err = collection.CompareMeasurements(got, want)
		}
		if err != nil {
			t.Fatalf("%v: %v, of %v", o, err, bucket)
		}
	}
}

// roundTrip returns the pipeline as a server reads it.
func roundTrip(t testing.TB, pipeline bson.A) bson.A {
	t.Helper()
	return decoded(t, marshal(bson.D{{Key: "pipeline", Value: pipeline}}))[0].Value.(bson.A)
}
