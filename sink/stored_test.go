package sink_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

func TestStoredIsWhatWasSent(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	a := insertOf("a", run(100, 5)...)
	b := insertOf("b", timeseries.Position{Offset: 105}, timeseries.Position{Offset: 105, Part: 7})
	sendAll(t, p, bucketer.Applied, a, b)
	sendAll(t, p, bucketer.Applied, updateOf(a, timeseries.Position{Offset: 300}))

	for _, c := range []struct {
		start, end int64
		len        int
	}{{0, 1 << 32, 8}, {103, 400, 5}, {103, 106, 4}, {106, 300, 0}, {301, 1000, 0}, {300, math.MaxInt32, 1}} {
		d, err := p.Stored(t.Context(), c.start, c.end)
		if err != nil {
			t.Fatal(err)
		}
		if d.Len() != c.len {
			t.Errorf("[%d, %d): %d positions, want %d", c.start, c.end, d.Len(), c.len)
		}
	}
	d, err := p.Stored(t.Context(), 0, 1000)
	if err != nil || !d.Contains(timeseries.Position{Offset: 105, Part: 7}) || d.Contains(timeseries.Position{Offset: 105, Part: 6}) {
		t.Errorf("parts are mixed up (%v)", err)
	}
	// Another partition, and another topic with the same name, have nothing stored.
	for _, other := range []timeseries.Source{
		{Topic: "events", TopicID: source.TopicID, Partition: 4}, {Topic: "events", TopicID: [16]byte{9}, Partition: 3},
	} {
		q := s.Partition(other, "cluster", "group", "host")
		if d, err := q.Stored(t.Context(), 0, 1000); err != nil || d.Len() != 0 {
			t.Errorf("%+v: %v, %v", other, d, err)
		}
		q.Close()
	}
}

func TestDamagedBucketIsNamed(t *testing.T) {
	set := func(field string, value any) bson.D {
		return bson.D{{Key: "$set", Value: bson.D{{Key: "control." + field, Value: value}}}}
	}
	unset := func(fields ...string) bson.D {
		gone := bson.D{}
		for _, field := range fields {
			gone = append(gone, bson.E{Key: "control." + field, Value: 1})
		}
		return bson.D{{Key: "$unset", Value: gone}}
	}
	for name, c := range map[string]struct {
		damage bson.D
		// anywhere means that nothing says which offsets it may list.
		anywhere bool
	}{
		"count":           {damage: set("count", 9)},
		"no count":        {damage: unset("count")},
		"offsets":         {damage: set("source.offsets", bson.A{bson.Binary{Data: []byte{0xff}}})},
		"no list":         {damage: set("source.offsets", "x")},
		"no binary":       {damage: set("source.offsets", bson.A{1})},
		"no first, count": {damage: unset("source.first", "count")},
		"no last, count":  {damage: unset("source.last", "count"), anywhere: true},
		"last is text":    {damage: append(set("source.last", "12"), unset("count")...), anywhere: true},
		"last is null":    {damage: append(set("source.last", nil), unset("count")...), anywhere: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := connect(t)
			p := e.claimed(t, e.setup(t))
			w := insertOf("a", run(10, 3)...)
			sendAll(t, p, bucketer.Applied, w)
			if _, err := e.Raw.Collection("events.buckets").UpdateByID(t.Context(), w.ID, c.damage); err != nil {
				t.Fatal(err)
			}
			named := func(operation string, err error) {
				t.Helper()
				var damaged *record.StopError
				if !errors.As(err, &damaged) || damaged.Reason != "damaged_bucket" || !strings.Contains(damaged.Detail, w.ID.Hex()) {
					t.Fatalf("%s: %v", operation, err)
				}
			}
			_, err := p.Stored(t.Context(), 0, 100)
			named("in range", err)
			_, err = p.Positions(t.Context(), insertOf("b", run(12, 3)...))
			named("asked for positions", err)
			d, err := p.Stored(t.Context(), 50, 100)
			if c.anywhere {
				named("out of range", err)
			} else if err != nil || d.Len() != 0 {
				t.Fatalf("out of range: %v", err)
			}
		})
	}
}

// TestBucketWithoutLastIsRead checks that the listed positions count, not the bucket's summary of them.
func TestBucketWithoutLastIsRead(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	w := insertOf("a", run(10, 3)...)
	sendAll(t, p, bucketer.Applied, w)
	gone := bson.D{{Key: "$unset", Value: bson.D{{Key: "control.source.last", Value: 1}}}}
	if _, err := e.Raw.Collection("events.buckets").UpdateByID(t.Context(), w.ID, gone); err != nil {
		t.Fatal(err)
	}
	if d, err := p.Stored(t.Context(), 11, 100); err != nil || d.Len() != 2 {
		t.Errorf("%d positions, %v", d.Len(), err)
	}
}
