package sink

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// askedServer has segments, and records requests for compactions.
type askedServer struct {
	mongodb.Collection
	segments map[int]*askedSegment
	asked    []time.Time
	before   func() // called before the segments are read
}

type askedSegment struct {
	owner  string
	frozen bool
	until  time.Time
}

func (a *askedServer) Find(_ context.Context, q mongodb.Query, each func(bson.Raw) error) error {
	if a.before != nil {
		a.before()
	}
	shownAfter := q.Filter.Lookup(timeseries.PathVisibleUntil, "$not", "$lte").Time()
	for id, s := range a.segments {
		about := bson.D{{Key: timeseries.FieldOwner, Value: s.owner}}
		if s.frozen {
			about = append(about, bson.E{Key: timeseries.FieldCompaction, Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}})
		}
		if !s.until.IsZero() {
			about = append(about, bson.E{Key: timeseries.FieldVisibleUntil, Value: bson.NewDateTimeFromTime(s.until)})
			if !s.until.After(shownAfter) {
				continue
			}
		}
		if err := each(mongodb.Document(bson.D{{Key: "_id", Value: id}, {Key: "control", Value: bson.D{{Key: "segment", Value: about}}}})); err != nil {
			return err
		}
	}
	return nil
}

func (a *askedServer) Update(context.Context, []mongodb.Update) (mongodb.Reply, error) {
	a.asked = append(a.asked, time.Now())
	return mongodb.Reply{N: 1}, nil
}

// wish returns a wait for the segments of the server. released reports whether the first of its partitions is released.
func (a *askedServer) wish(released bool) *compactionWish {
	return &compactionWish{
		buckets: a, options: a, left: func(int) {},
		clock: func(context.Context) (time.Time, error) { return time.Now(), nil },
		partitions: func(context.Context) ([]PartitionDocument, error) {
			return []PartitionDocument{{ID: "c/events/3", Document: claim.Document{Released: released}}, {ID: "c/events/4"}}, nil
		},
	}
}

func newAskedServer() *askedServer {
	return &askedServer{segments: map[int]*askedSegment{1: {owner: "c/events/3"}, 2: {owner: "c/events/3"}}}
}

// TestCompactedWaitsUntilNoQueryShowsTheSegments covers the segments that exist at the start. A request without an effect is
// repeated.
func TestCompactedWaitsUntilNoQueryShowsTheSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskedServer()
		began := time.Now()
		until := began.Add(270*time.Second + 4*time.Minute)
		a.before = func() {
			switch since := time.Since(began); {
			case since >= 440*time.Second: // a slow server
				a.segments[2].until = until
			case since >= 270*time.Second:
				a.segments[1].until = until
			case since >= 100*time.Second: // the first request was lost
				a.segments[3] = &askedSegment{owner: "c/events/3"}
				a.segments[1].frozen, a.segments[2].frozen = true, true
			}
		}
		if err := a.wish(false).wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if late := time.Since(until.Add(compactedMargin)); late < 0 || late > askSlowPause {
			t.Errorf("it returned %v after the end of the last segment", late)
		}
		if len(a.asked) != 2 || a.asked[0] != began { // frozen segments need no request
			t.Errorf("asked at %v", a.asked)
		}
	})
}

// TestCompactedSaysWhatToStart checks that the error comes in bounded time, and soon if the consumers have released the
// partitions.
func TestCompactedSaysWhatToStart(t *testing.T) {
	for released, within := range map[bool]time.Duration{true: 35 * time.Second, false: 185 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := newAskedServer().wish(released).wait(t.Context())
			if err == nil || !strings.Contains(err.Error(), "events/3") || !strings.Contains(err.Error(), "start `waterwheel run`") {
				t.Fatal(err)
			}
			if took := time.Since(began); took > within || !released && took < askPatience {
				t.Errorf("released %v: it took %v", released, took)
			}
		})
	}
}

// TestCompactedDoesNotAskForNothing covers collections in which no segment is shown, or all shown ones have ended.
func TestCompactedDoesNotAskForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &askedServer{segments: map[int]*askedSegment{
			1: {frozen: true, until: time.Now().Add(-time.Minute)}, 2: {frozen: true, until: time.Now().Add(10 * time.Minute)},
		}}
		began := time.Now()
		if err := a.wish(true).wait(t.Context()); err != nil || len(a.asked) > 0 {
			t.Errorf("asked %d times, %v", len(a.asked), err)
		}
		if took := time.Since(began); took < 10*time.Minute {
			t.Errorf("it waited %v", took)
		}
		delete(a.segments, 2)
		began = time.Now()
		if err := a.wish(true).wait(t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
