package sink_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/sink"
	"waterwheel/timeseries"
)

func TestStoredIsWhatWasSent(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	a := insertOf("a", run(100, 5)...)
	b := insertOf("b", timeseries.Position{Offset: 105}, timeseries.Position{Offset: 105, Part: 7})
	sendAll(t, p, sink.Acked, a, b)
	sendAll(t, p, sink.Acked, updateOf(a, timeseries.Position{Offset: 300}))

	for _, c := range []struct {
		start, end int64
		len        int
	}{{0, 1 << 32, 8}, {103, 400, 5}, {103, 106, 4}, {106, 300, 0}, {301, 1000, 0}, {300, math.MaxInt32, 1}} {
		d, err := p.Stored(t.Context(), c.start, c.end, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d.Len() != c.len {
			t.Errorf("[%d, %d): %d positions, want %d", c.start, c.end, d.Len(), c.len)
		}
	}
	d, err := p.Stored(t.Context(), 0, 1000, nil)
	if err != nil || !d.Contains(timeseries.Position{Offset: 105, Part: 7}) || d.Contains(timeseries.Position{Offset: 105, Part: 6}) {
		t.Errorf("parts are mixed up (%v)", err)
	}
	// Another partition, and another topic of the same name, have nothing stored.
	for _, other := range []timeseries.Source{
		{Topic: "events", TopicID: source.TopicID, Partition: 4}, {Topic: "events", TopicID: [16]byte{9}, Partition: 3},
	} {
		q := s.Partition(other, "cluster", "group", "host")
		if d, err := q.Stored(t.Context(), 0, 1000, nil); err != nil || d.Len() != 0 {
			t.Errorf("%+v: %v, %v", other, d, err)
		}
		q.Close()
	}
}

func TestStoredReportsProgress(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	var writes []*bucketer.Write
	for i := range 1050 {
		writes = append(writes, insertOf(itoa(i), run(int64(i)*2, 2)...))
	}
	sendAll(t, p, sink.Acked, writes...)
	var told []string
	d, err := p.Stored(t.Context(), 0, 1<<31, func(buckets, positions int) { told = append(told, fmt.Sprint(buckets, " ", positions)) })
	if err != nil || d.Len() != 2100 {
		t.Fatalf("%v, %v", d.Len(), err)
	}
	if diff := cmp.Diff([]string{"1000 2000"}, told); diff != "" {
		t.Error(diff)
	}
}

func TestDamagedBucketIsNamed(t *testing.T) {
	for name, damage := range map[string]bson.D{
		"count":           {{Key: "$set", Value: bson.D{{Key: "control.count", Value: 9}}}},
		"no count":        {{Key: "$unset", Value: bson.D{{Key: "control.count", Value: 1}}}},
		"offsets":         {{Key: "$set", Value: bson.D{{Key: "control.source.offsets", Value: bson.A{bson.Binary{Data: []byte{0xff}}}}}}},
		"no list":         {{Key: "$set", Value: bson.D{{Key: "control.source.offsets", Value: "x"}}}},
		"no binary":       {{Key: "$set", Value: bson.D{{Key: "control.source.offsets", Value: bson.A{1}}}}},
		"no first, count": {{Key: "$unset", Value: bson.D{{Key: "control.source.first", Value: 1}, {Key: "control.count", Value: 1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			e := connect(t)
			p := e.claimed(t, e.setup(t))
			w := insertOf("a", run(10, 3)...)
			sendAll(t, p, sink.Acked, w)
			if _, err := e.raw.Collection("events.buckets").UpdateByID(t.Context(), w.ID, damage); err != nil {
				t.Fatal(err)
			}
			var damaged *sink.DamagedError
			if _, err := p.Stored(t.Context(), 0, 100, nil); !errors.As(err, &damaged) || damaged.ID.ObjectID() != w.ID {
				t.Fatalf("in range: %v", err)
			}
			if _, err := p.Positions(t.Context(), insertOf("b", run(12, 3)...)); !errors.As(err, &damaged) {
				t.Fatalf("asked for positions: %v", err)
			}
			if d, err := p.Stored(t.Context(), 50, 100, nil); err != nil || d.Len() != 0 {
				t.Fatalf("out of range: %v", err)
			}
		})
	}
}
