package sink_test

import (
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// TestHoldingsTellsSegmentsFromBuckets checks that the measurements of an unfinished compaction count in segments, and those of a
// finished one in buckets. Each counts once.
func TestHoldingsTellsSegmentsFromBuckets(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	uuid := func(first byte) bson.Binary {
		return bson.Binary{Subtype: 4, Data: append([]byte{first}, make([]byte, 15)...)}
	}
	open, over := uuid(1), uuid(2)
	segment := func(more ...bson.E) bson.D {
		return bson.D{{Key: "control.segment", Value: append(bson.D{{Key: "owner", Value: "0/0"}}, more...)}}
	}
	of := func(id bson.Binary) bson.E { return bson.E{Key: "compaction", Value: id} }
	ended := bson.E{Key: "visibleUntil", Value: bson.DateTime(minute)}
	compacted := func(id bson.Binary) bson.D {
		return bson.D{{Key: "control.compaction", Value: bson.D{{Key: "id", Value: id}, {Key: "visibleFrom", Value: bson.DateTime(minute)}}}}
	}
	buckets := e.Raw.Collection("events.buckets")
	for i, set := range []bson.D{
		segment(), segment(of(open)), segment(of(over), ended), compacted(open), compacted(over), {{Key: "control.closed", Value: false}},
	} {
		sendAll(t, p, bucketer.Applied, insertOf(itoa(i), run(int64(i)*100, 10+i)...))
		if r, err := buckets.UpdateMany(t.Context(), bson.D{{Key: "meta", Value: itoa(i)}}, bson.D{{Key: "$set", Value: set}}); err != nil || r.MatchedCount != 1 {
			t.Fatal(r, err)
		}
	}
	for newest, want := range map[int64]sink.Holding{
		0: {Buckets: 2, Measurements: 14 + 15, Segments: 2, InSegments: 10 + 11, Ended: 1, Unfinished: 1, First: 0, Last: 514},
		4: {Buckets: 2, Measurements: 14 + 15, Ended: 1, Unfinished: 1, First: 400, Last: 514, Cut: true},
	} {
		all, err := sink.ContentsOf(e.Database, "events").Holdings(t.Context(), newest)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		got := all[0]
		if !reflect.DeepEqual(got.Counts, map[int32]int64{14: 1, 15: 1}) {
			t.Errorf("buckets by their count: %v", got.Counts)
		}
		if got.Compacted != 1 {
			t.Errorf("newest %d: %d buckets were made of segments", newest, got.Compacted)
		}
		if got.Buckets != want.Buckets || got.Measurements != want.Measurements || got.Segments != want.Segments || got.InSegments != want.InSegments ||
			got.Ended != want.Ended || got.Unfinished != want.Unfinished || got.First != want.First || got.Last != want.Last || got.Cut != want.Cut {
			t.Errorf("newest %d: %+v, want %+v", newest, got, want)
		}
	}
}

// TestScanTellsOfCompactions also covers scans without columns.
func TestScanTellsOfCompactions(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	sendAll(t, p, bucketer.Applied, insertOf("a", run(0, 3)...), insertOf("b", run(10, 3)...))
	for series, set := range map[string]bson.D{
		"a": {{Key: "control.segment", Value: bson.D{{Key: "owner", Value: "7"}}}},
		"b": {{Key: "control.compaction", Value: bson.D{{Key: "visibleFrom", Value: bson.DateTime(5)}}}},
	} {
		if r, err := e.Raw.Collection("events.buckets").UpdateMany(t.Context(), bson.D{{Key: "meta", Value: series}}, bson.D{{Key: "$set", Value: set}}); err != nil || r.MatchedCount != 1 {
			t.Fatal(r, err)
		}
	}
	for _, whole := range []bool{false, true} {
		owner := ""
		var from int64
		err := sink.ContentsOf(e.Database, "events").Buckets("time").Find(t.Context(), source, 0, 100, whole, func(d bson.Raw) error {
			if v, ok := d.Lookup(timeseries.FieldControl, timeseries.FieldSegment, timeseries.FieldOwner).StringValueOK(); ok {
				owner = v
			}
			if v, ok := d.Lookup(timeseries.FieldControl, timeseries.FieldCompaction, timeseries.FieldVisibleFrom).DateTimeOK(); ok {
				from = v
			}
			if data := d.Lookup(timeseries.FieldData); (data.Type != 0) != whole {
				t.Errorf("whole %v: %v", whole, d)
			}
			return nil
		})
		if err != nil || owner != "7" || from != 5 {
			t.Errorf("whole %v: %q, %d, %v", whole, owner, from, err)
		}
	}
}

// TestACompactionWithAnEndedSegmentIsNotUnfinished checks this because it is not rolled back any more.
func TestACompactionWithAnEndedSegmentIsNotUnfinished(t *testing.T) {
	e := connect(t)
	e.setup(t)
	segment := func(compaction byte, until any) bson.D {
		about := bson.D{{Key: "owner", Value: "0/0"}}
		if compaction > 0 {
			about = append(about, bson.E{Key: "compaction", Value: bson.Binary{Subtype: 4, Data: append([]byte{compaction}, make([]byte, 15)...)}})
		}
		if until != nil {
			about = append(about, bson.E{Key: "visibleUntil", Value: until})
		}
		return bson.D{{Key: "_id", Value: bson.NewObjectID()}, {Key: "control", Value: bson.D{{Key: "version", Value: 1}, {Key: "segment", Value: about}}}}
	}
	ended := bson.DateTime(minute)
	var all []any
	for _, d := range []bson.D{segment(0, nil), segment(1, nil), segment(1, nil), segment(2, nil), segment(2, ended), segment(3, ended)} {
		all = append(all, d)
	}
	if _, err := e.Raw.Collection("events.buckets").InsertMany(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	unfinished, err := sink.ContentsOf(e.Database, "events").Buckets("time").Unfinished(t.Context())
	if err != nil || len(unfinished) != 1 || !unfinished[claim.Token{1}] {
		t.Errorf("%v, %v", unfinished, err)
	}
}

// TestARollBackDeletesBucketsOfSegmentsThatAreGone covers a compaction with expired segments. Its buckets list their offsets too.
func TestARollBackDeletesBucketsOfSegmentsThatAreGone(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	sendAll(t, p, bucketer.Applied, insertOf("a", run(0, 30)...), insertOf("b", run(100, 3)...))
	id := claim.Token{1}
	made := bson.D{{Key: "control.compaction", Value: bson.D{
		{Key: "visibleFrom", Value: bson.DateTime(minute)}, {Key: "id", Value: bson.Binary{Subtype: 4, Data: id[:]}},
	}}}
	buckets := e.Raw.Collection("events.buckets")
	if _, err := buckets.UpdateMany(t.Context(), bson.D{{Key: "meta", Value: "a"}}, bson.D{{Key: "$set", Value: made}}); err != nil {
		t.Fatal(err)
	}
	c := &claim.Compaction{ID: id, TopicID: source.TopicID, Segments: []claim.Segment{{First: 3, Last: 5}}}
	if err := p.DeleteCompacted(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if n, err := buckets.CountDocuments(t.Context(), bson.D{}); err != nil || n != 1 {
		t.Errorf("%d buckets are left, %v; want the one of no compaction", n, err)
	}
}
