package sink

import (
	"context"
	"errors"
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
	away     bool
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
	if a.away {
		return &mongodb.OutageError{Err: errors.New("connection refused")}
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

// request returns a request for the segments of the server. released reports whether the first of its partitions is released.
func (a *askedServer) request(released bool) *CompactionRequest {
	return &CompactionRequest{
		buckets: a, options: a, needed: func(context.Context) (bool, error) { return true, nil },
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
		if _, err := a.request(false).Wait(t.Context(), func(int) {}); err != nil {
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
			_, err := newAskedServer().request(released).Wait(t.Context(), func(int) {})
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
		if _, err := a.request(true).Wait(t.Context(), func(int) {}); err != nil || len(a.asked) > 0 {
			t.Errorf("asked %d times, %v", len(a.asked), err)
		}
		if took := time.Since(began); took < 10*time.Minute {
			t.Errorf("it waited %v", took)
		}
		delete(a.segments, 2)
		began = time.Now()
		if _, err := a.request(true).Wait(t.Context(), func(int) {}); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestARequestSurvivesAnOutage checks that a wait after an outage goes on with the same segments, with new patience.
func TestARequestSurvivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskedServer()
		began := time.Now()
		a.before = func() {
			since := time.Since(began)
			a.away = since > 2*time.Minute && since < 4*time.Minute
			if since > time.Minute {
				a.segments[1].frozen = true
			}
			if since > 4*time.Minute { // consumers write on
				a.segments[3] = &askedSegment{owner: "c/events/3"}
			}
			if since > 6*time.Minute {
				delete(a.segments, 1)
				delete(a.segments, 2)
			}
		}
		r := a.request(false)
		progress, err := r.Wait(t.Context(), func(int) {})
		if _, outage := errors.AsType[*mongodb.OutageError](err); !outage || !progress {
			t.Fatalf("progress %v, %v", progress, err)
		}
		for ; err != nil && time.Since(began) < 5*time.Minute; _, err = r.Wait(t.Context(), func(int) {}) {
			time.Sleep(10 * time.Second)
		}
		if took := time.Since(began); err != nil || took < 6*time.Minute || took > 7*time.Minute {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
