package sink_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
)

// TestExpiredDeletesWholeBucketsOnly checks that buckets that may hold a younger measurement stay, to the millisecond. A write to
// a deleted bucket does not match, and is read back like any other.
func TestExpiredDeletesWholeBucketsOnly(t *testing.T) {
	e := connect(t)
	store := e.setup(t)
	if _, _, err := collection.Of(e.Database, "events").Expired(t.Context(), time.Time{}); !errors.Is(err, collection.ErrNeverExpires) {
		t.Errorf("of a collection that keeps all: %v", err)
	}
	if _, _, err := collection.Of(e.Database, "nothing").Expired(t.Context(), time.Time{}); !errors.Is(err, collection.ErrNotSetUp) {
		t.Errorf("of a collection that is not there: %v", err)
	}
	if _, _, err := collection.Of(e.Database, "events").Expired(t.Context(), time.Now().Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "is in the future") {
		t.Errorf("in an hour: %v", err)
	}
	p := e.claimed(t, store)
	span := definition.Span()
	old, edge, young := insertAt("a", minute, run(0, 3)...), insertAt("b", minute+60_000, run(3, 2)...), insertAt("c", minute+120_000, run(5, 4)...)
	sendAll(t, p, bucketer.Applied, old, edge, young)
	selected, before, err := collection.Of(e.Database, "events").Expired(t.Context(), time.UnixMilli(minute+60_000+span-1))
	if err != nil {
		t.Fatal(err)
	}
	if amount, err := selected.Amount(t.Context(), func(int64) {}); err != nil || amount != (collection.Amount{Buckets: 1, Measurements: 3}) {
		t.Errorf("a millisecond before the second is due: %+v, %v", amount, err)
	}
	if before.UnixMilli() != minute+60_000+span-1 {
		t.Errorf("before %v", before)
	}
	if selected, _, err = collection.Of(e.Database, "events").Expired(t.Context(), time.UnixMilli(minute+60_000+span)); err != nil {
		t.Fatal(err)
	}
	deletion := selected.Delete(func(collection.Edited) {})
	if err := deletion.Run(t.Context()); err != nil || deletion.Edited().Done != (collection.Amount{Buckets: 2, Measurements: 5}) {
		t.Errorf("%+v, %v", deletion.Edited(), err)
	}
	if n, err := e.Raw.Collection("events.buckets").CountDocuments(t.Context(), bson.D{}); err != nil || n != 1 {
		t.Errorf("%d buckets are left, %v", n, err)
	}
	sendAll(t, p, bucketer.Unknown, updateOf(old, timeseries.Position{Offset: 9}))
	sendAll(t, p, bucketer.Applied, updateOf(young, timeseries.Position{Offset: 10}))
}

// TestExpiredStopsWhenItIsToBeKept checks that nothing is deleted by an expiry that was extended or removed since the start.
func TestExpiredStopsWhenItIsToBeKept(t *testing.T) {
	e := connect(t)
	o := definition
	o.ExpireAfterSeconds = 7200
	ready, err := collection.Of(e.Database, "events").Setup(t.Context(), o, collection.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	sendAll(t, e.claimed(t, e.store(ready)), bucketer.Applied, insertAt("a", minute, run(0, 3)...))
	left := func() int64 {
		n, err := e.Raw.Collection("events.buckets").CountDocuments(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, seconds := range []int64{7201, 0} {
		if _, _, err := collection.Of(e.Database, "events").SetExpiry(t.Context(), 7200); err != nil {
			t.Fatal(err)
		}
		selected, _, err := collection.Of(e.Database, "events").Expired(t.Context(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := collection.Of(e.Database, "events").SetExpiry(t.Context(), seconds); err != nil {
			t.Fatal(err)
		}
		if err := selected.Delete(func(collection.Edited) {}).Run(t.Context()); !errors.Is(err, collection.ErrKeptLonger) || left() != 1 {
			t.Errorf("kept for %d s: %v, %d buckets are left", seconds, err, left())
		}
	}
	if _, _, err := collection.Of(e.Database, "events").SetExpiry(t.Context(), 3600); err != nil {
		t.Fatal(err)
	}
	selected, _, err := collection.Of(e.Database, "events").Expired(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if err := selected.Delete(func(collection.Edited) {}).Run(t.Context()); err != nil || left() != 0 {
		t.Errorf("%v, %d buckets are left", err, left())
	}
}

// TestExpiredGoesByTheCollection covers a call without a time, which uses the collection's expiry and MongoDB's clock.
func TestExpiredGoesByTheCollection(t *testing.T) {
	e := connect(t)
	o := definition
	o.ExpireAfterSeconds = 7200
	if _, err := collection.Of(e.Database, "events").Setup(t.Context(), o, collection.Settings{}); err != nil {
		t.Fatal(err)
	}
	clock, err := e.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, before, err := collection.Of(e.Database, "events").Expired(t.Context(), time.Time{})
	if late := before.Sub(clock.Add(-2 * time.Hour)); err != nil || late < 0 || late > 10*time.Second {
		t.Errorf("%v, by a clock at %v: %v", before, clock, err)
	}
}
