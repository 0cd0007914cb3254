package sink_test

import (
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/sink"
	"waterwheel/timeseries"
)

// TestHoldingsTellsSegmentsFromBuckets: a settling that is announced has its measurements in segments, one that is over in buckets, and each
// counts once.
func TestHoldingsTellsSegmentsFromBuckets(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	uuid := func(first byte) bson.Binary {
		return bson.Binary{Subtype: 4, Data: append([]byte{first}, make([]byte, 15)...)}
	}
	announced, over := uuid(1), uuid(2)
	segment := func(by *bson.Binary) bson.D {
		about := bson.D{{Key: "low", Value: int32(1)}, {Key: "high", Value: int32(2)}}
		if by != nil {
			about = append(about, bson.E{Key: "until", Value: bson.DateTime(minute)}, bson.E{Key: "by", Value: *by})
		}
		return bson.D{{Key: "control.segment", Value: about}}
	}
	settled := func(by bson.Binary) bson.D {
		return bson.D{{Key: "control.settled", Value: bson.D{{Key: "from", Value: bson.DateTime(minute)}, {Key: "by", Value: by}}}}
	}
	buckets := e.raw.Collection("events.buckets")
	for i, set := range []bson.D{
		segment(nil), segment(&announced), segment(&over), settled(announced), settled(over), {{Key: "control.closed", Value: false}},
	} {
		sendAll(t, p, bucketer.Applied, insertOf(itoa(i), run(int64(i)*100, 10+i)...))
		if r, err := buckets.UpdateMany(t.Context(), bson.D{{Key: "meta", Value: itoa(i)}}, bson.D{{Key: "$set", Value: set}}); err != nil || r.MatchedCount != 1 {
			t.Fatal(r, err)
		}
	}
	announce := bson.D{{Key: "$set", Value: bson.D{{Key: "settling", Value: bson.D{{Key: "by", Value: announced}}}}}}
	if _, err := e.raw.Collection("events.partitions").UpdateMany(t.Context(), bson.D{}, announce); err != nil {
		t.Fatal(err)
	}
	for newest, want := range map[int64]sink.Holding{
		0: {Buckets: 2, Measurements: 14 + 15, Segments: 2, Staged: 10 + 11, Ended: 1, Unfinished: 1, First: 0, Last: 514},
		4: {Buckets: 2, Measurements: 14 + 15, Ended: 1, Unfinished: 1, First: 400, Last: 514, Cut: true},
	} {
		all, err := e.Holdings(t.Context(), "events", newest)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		got := all[0]
		if !reflect.DeepEqual(got.Counts, map[int32]int64{14: 1, 15: 1}) {
			t.Errorf("buckets by their count: %v", got.Counts)
		}
		if got.Settled != 1 {
			t.Errorf("newest %d: %d buckets were made of segments", newest, got.Settled)
		}
		if got.Buckets != want.Buckets || got.Measurements != want.Measurements || got.Segments != want.Segments || got.Staged != want.Staged ||
			got.Ended != want.Ended || got.Unfinished != want.Unfinished || got.First != want.First || got.Last != want.Last || got.Cut != want.Cut {
			t.Errorf("newest %d: %+v, want %+v", newest, got, want)
		}
	}
}

// TestScanTellsOfSettlings: also without columns.
func TestScanTellsOfSettlings(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	sendAll(t, p, bucketer.Applied, insertOf("a", run(0, 3)...), insertOf("b", run(10, 3)...))
	for series, set := range map[string]bson.D{
		"a": {{Key: "control.segment", Value: bson.D{{Key: "low", Value: int32(7)}}}},
		"b": {{Key: "control.settled", Value: bson.D{{Key: "from", Value: bson.DateTime(5)}}}},
	} {
		if r, err := e.raw.Collection("events.buckets").UpdateMany(t.Context(), bson.D{{Key: "meta", Value: series}}, bson.D{{Key: "$set", Value: set}}); err != nil || r.MatchedCount != 1 {
			t.Fatal(r, err)
		}
	}
	for _, whole := range []bool{false, true} {
		var low int32
		var from int64
		err := e.Buckets("events").Find(t.Context(), source, 0, 100, whole, func(d bson.Raw) error {
			if v, ok := d.Lookup(timeseries.FieldControl, timeseries.FieldSegment, timeseries.FieldLow).Int32OK(); ok {
				low = v
			}
			if v, ok := d.Lookup(timeseries.FieldControl, timeseries.FieldSettled, timeseries.FieldFrom).DateTimeOK(); ok {
				from = v
			}
			if data := d.Lookup(timeseries.FieldData); (data.Type != 0) != whole {
				t.Errorf("whole %v: %v", whole, d)
			}
			return nil
		})
		if err != nil || low != 7 || from != 5 {
			t.Errorf("whole %v: %d, %d, %v", whole, low, from, err)
		}
	}
}
