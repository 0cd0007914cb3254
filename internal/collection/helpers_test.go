package collection_test

import (
	"strconv"
	"testing"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
	"waterwheel/internal/timeseries"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// records returns the positions of n records from an offset on.
func records(from int64, n int) []timeseries.Position {
	all := make([]timeseries.Position, n)
	for i := range all {
		all[i].Offset = from + int64(i)
	}
	return all
}

// bucketOf returns a bucket of a series with a measurement for each position.
func bucketOf(series string, minTime int64, positions ...timeseries.Position) bson.Raw {
	first, last := positions[0].Offset, positions[0].Offset
	times, values := bson.D{}, bson.D{}
	for i, p := range positions {
		first, last = min(first, p.Offset), max(last, p.Offset)
		times = append(times, bson.E{Key: strconv.Itoa(i), Value: bson.DateTime(minTime + int64(i))})
		values = append(values, bson.E{Key: strconv.Itoa(i), Value: i})
	}
	return mongodb.Document(bson.D{
		{Key: "_id", Value: timeseries.BucketID(source, positions[0], 0, minTime)},
		{Key: "control", Value: bson.D{
			{Key: "version", Value: int32(1)},
			{Key: "min", Value: bson.D{{Key: "time", Value: bson.DateTime(minTime)}, {Key: "x", Value: 0}}},
			{Key: "max", Value: bson.D{{Key: "time", Value: bson.DateTime(minTime + int64(len(positions)))}, {Key: "x", Value: len(positions) - 1}}},
			{Key: "count", Value: int32(len(positions))},
			{Key: "source", Value: bson.D{
				{Key: "topic", Value: source.Topic},
				{Key: "partition", Value: source.Partition},
				{Key: "topicId", Value: timeseries.UUID(source.TopicID)},
				{Key: "first", Value: first},
				{Key: "last", Value: last},
				{Key: "offsets", Value: bson.A{bson.Binary{Data: timeseries.AppendPositions(nil, positions)}}},
			}},
		}},
		{Key: "meta", Value: series},
		{Key: "data", Value: bson.D{{Key: "time", Value: times}, {Key: "x", Value: values}}},
	})
}

// minute is the rounded time of the buckets in these tests.
const minute = int64(1_700_000_040_000)

var (
	definition = timeseries.Options{TimeField: "time", MetaField: "meta", Granularity: timeseries.Seconds}
	source     = timeseries.Source{Topic: "events", TopicID: [16]byte{7, 1, 2}, Partition: 3}
)

// env is a real server with a database of its own, and the settings of its time series.
type env struct {
	*mongodbtest.Real
	as collection.Settings
}

func connect(t testing.TB) *env { return &env{Real: mongodbtest.Connect(t)} }

// setup sets up the time series events.
func (e *env) setup(t testing.TB) {
	t.Helper()
	if _, err := collection.Of(e.Database, "events").Setup(t.Context(), definition, e.as); err != nil {
		t.Fatal(err)
	}
}

func marshal(v any) bson.Raw {
	raw, err := bson.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
