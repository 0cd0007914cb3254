package collection_test

import (
	"errors"
	"testing"

	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
)

func TestSetGranularityOnlyGrows(t *testing.T) {
	e := connect(t)
	o := definition
	o.ExpireAfterSeconds = 7 * 24 * 3600
	if _, err := collection.Of(e.Database, "events").Setup(t.Context(), o, collection.Settings{}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		to      timeseries.Granularity
		refused bool
		now     timeseries.Granularity
		version int32
	}{
		{timeseries.Seconds, false, timeseries.Seconds, 1},
		{timeseries.Minutes, false, timeseries.Minutes, 2},
		{timeseries.Minutes, false, timeseries.Minutes, 2},
		{timeseries.Seconds, true, timeseries.Minutes, 2},
		{timeseries.Hours, false, timeseries.Hours, 3},
	} {
		_, _, err := collection.Of(e.Database, "events").SetBucketing(t.Context(), timeseries.Options{Granularity: step.to})
		if _, ok := errors.AsType[*timeseries.Error](err); ok != step.refused || err != nil && !step.refused {
			t.Errorf("to %s: %v", step.to, err)
		}
		have, version, err := collection.Of(e.Database, "events").Definition(t.Context())
		if err != nil || have.Granularity != step.now || version != step.version || have.ExpireAfterSeconds != o.ExpireAfterSeconds {
			t.Errorf("after %s: %+v, version %d, %v", step.to, have, version, err)
		}
	}
	// The consumer's own set-up agrees with the present view and expiry.
	o.Granularity = timeseries.Hours
	if _, err := collection.Of(e.Database, "events").Setup(t.Context(), o, collection.Settings{}); err != nil {
		t.Error(err)
	}
	if _, _, err := collection.Of(e.Database, "nothing").SetBucketing(t.Context(), timeseries.Options{Granularity: timeseries.Hours}); !errors.Is(err, collection.ErrNotSetUp) {
		t.Errorf("of a collection that is not there: %v", err)
	}
}

func TestSetGranularityOfCustomBucketing(t *testing.T) {
	e := connect(t)
	o := timeseries.Options{TimeField: "time", MetaField: "meta", MaxSpanSeconds: 600, RoundingSeconds: 600}
	if _, err := collection.Of(e.Database, "events").Setup(t.Context(), o, collection.Settings{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := collection.Of(e.Database, "events").SetBucketing(t.Context(), timeseries.Options{Granularity: timeseries.Minutes}); err != nil {
		t.Fatal(err)
	}
	o.Granularity, o.MaxSpanSeconds, o.RoundingSeconds = timeseries.Minutes, 0, 0
	if _, err := collection.Of(e.Database, "events").Setup(t.Context(), o, collection.Settings{}); err != nil {
		t.Error(err)
	}
}
