package sink_test

import (
	"math"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// TestTimesThatDoNotSort has buckets before 1970 and after January 2038, whose _ids do not sort by time.
func TestTimesThatDoNotSort(t *testing.T) {
	e := connect(t)
	e.setup(t)
	at := func(day string) int64 {
		parsed, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		return parsed.UnixMilli()
	}
	days := []string{"1912-03-01", "1969-12-31", "1970-01-01", "2026-01-01", "2038-01-19", "2038-01-20", "9999-12-30"}
	for _, day := range days {
		one := bson.D{{Key: "time", Value: bson.DateTime(at(day))}}
		_, err := e.Raw.Collection("events.buckets").InsertOne(t.Context(), bson.D{
			{Key: "_id", Value: timeseries.BucketIDOf(at(day), make([]byte, 8))},
			{Key: "control", Value: bson.D{{Key: "min", Value: one}, {Key: "max", Value: one}}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r := sink.RollupsOf(e.Database, "events")
	defer r.Close()
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	err := r.Bounds(t.Context(), definition, func(begin, end int64) { first, last = min(first, begin), max(last, end) })
	if err != nil || first != at(days[0]) || last != at(days[len(days)-1])+definition.Span() {
		t.Errorf("the times are from %v to %v, %v", time.UnixMilli(first).UTC(), time.UnixMilli(last).UTC(), err)
	}
	unordered := 0
	if err := r.Unordered(t.Context(), definition, nil, func(int64, int64) { unordered++ }); err != nil || unordered != 4 {
		t.Errorf("%d buckets do not sort by time, %v", unordered, err)
	}
	for from, want := range map[string]string{
		"1900-01-01": "1970-01-01", "1970-01-01": "1970-01-01", "1970-01-02": "2026-01-01", "2038-01-19": "2038-01-19", "2038-01-20": "", "9999-01-01": "",
	} {
		next, found, err := r.After(t.Context(), definition, nil, at(from))
		if err != nil || found != (want != "") || found && next != at(want) {
			t.Errorf("after %s comes %v (%t), want %q, %v", from, time.UnixMilli(next).UTC(), found, want, err)
		}
	}
}
