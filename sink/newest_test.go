package sink_test

import (
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/timeseries"
)

func TestNewestIsNotExceeded(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	other := timeseries.Source{Topic: "events", TopicID: source.TopicID, Partition: 9}
	newest := func() int64 {
		t.Helper()
		found, err := p.Newest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := newest(); found != math.MinInt64 {
		t.Errorf("without a bucket the newest is of %d", found)
	}
	sendAll(t, p, bucketer.Applied, insertAt("a", minute, run(0, 2)...), insertAt("b", minute-60_000, run(10, 1)...))
	foreign := bson.D{{Key: "_id", Value: timeseries.BucketID(other, timeseries.Position{}, 0, minute+600_000)}, {Key: "control", Value: bson.D{
		{Key: "source", Value: bson.D{{Key: "topicId", Value: bson.Binary{Subtype: 4, Data: other.TopicID[:]}}, {Key: "partition", Value: other.Partition}}},
	}}}
	if _, err := e.Raw.Collection("events.buckets").InsertOne(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if found := newest(); found < minute || found >= minute+60_000 {
		t.Errorf("the newest is of %d, want %d", found, minute)
	}
	// The _id of a bucket from before 1970 does not contain its time.
	sendAll(t, p, bucketer.Applied, insertAt("c", -60_000, run(20, 1)...))
	if found := newest(); found != math.MaxInt64 {
		t.Errorf("with a bucket from before 1970 the newest is of %d", found)
	}
}
