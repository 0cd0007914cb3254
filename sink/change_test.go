package sink_test

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/sink"
	"waterwheel/timeseries"
)

func TestSetGranularityOnlyGrows(t *testing.T) {
	e := connect(t)
	o := definition
	o.ExpireAfterSeconds = 7 * 24 * 3600
	if _, err := e.Setup(t.Context(), "events", o, 1000); err != nil {
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
		_, _, err := e.SetGranularity(t.Context(), "events", step.to)
		if refused := (*timeseries.Error)(nil); errors.As(err, &refused) != step.refused || err != nil && !step.refused {
			t.Errorf("to %s: %v", step.to, err)
		}
		have, version, err := e.Definition(t.Context(), "events")
		if err != nil || have.Granularity != step.now || version != step.version || have.ExpireAfterSeconds != o.ExpireAfterSeconds {
			t.Errorf("after %s: %+v, version %d, %v", step.to, have, version, err)
		}
	}
	// The consumer's own set-up agrees with view and expiry as they are now.
	o.Granularity = timeseries.Hours
	if _, err := e.Setup(t.Context(), "events", o, 1000); err != nil {
		t.Error(err)
	}
	if _, _, err := e.SetGranularity(t.Context(), "nothing", timeseries.Hours); !errors.Is(err, sink.ErrNotSetUp) {
		t.Errorf("of a collection that is not there: %v", err)
	}
}

func TestSetGranularityOfCustomBucketing(t *testing.T) {
	e := connect(t)
	o := timeseries.Options{TimeField: "time", MetaField: "meta", MaxSpanSeconds: 600, RoundingSeconds: 600}
	if _, err := e.Setup(t.Context(), "events", o, 1000); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.SetGranularity(t.Context(), "events", timeseries.Minutes); err != nil {
		t.Fatal(err)
	}
	o.Granularity, o.MaxSpanSeconds, o.RoundingSeconds = timeseries.Minutes, 0, 0
	if _, err := e.Setup(t.Context(), "events", o, 1000); err != nil {
		t.Error(err)
	}
}

// TestSetGranularityChangesViewAndExpiryFirst: whatever reads buckets knows the larger span before the first is written.
func TestSetGranularityChangesViewAndExpiryFirst(t *testing.T) {
	f := newFake(t, replicaSet)
	stored := bson.D{
		{Key: "_id", Value: "options"},
		{Key: "version", Value: int32(8)},
		{Key: "timeField", Value: "time"},
		{Key: "granularity", Value: "seconds"},
		{Key: "bucketMaxSpanSeconds", Value: int32(3600)},
		{Key: "expireAfterSeconds", Value: int64(1000)},
	}
	f.answer("find", func(bson.Raw) bson.D { return cursorOf(stored) })
	f.answer("listIndexes", func(bson.Raw) bson.D {
		return cursorOf(bson.D{
			{Key: "v", Value: int32(2)},
			{Key: "key", Value: bson.D{{Key: "control.min.time", Value: int32(1)}}},
			{Key: "name", Value: "expiry"},
			{Key: "expireAfterSeconds", Value: int32(4600)},
		})
	})
	f.answer("listCollections", func(bson.Raw) bson.D {
		return cursorOf(bson.D{{Key: "name", Value: "events"}, {Key: "type", Value: "view"}, {Key: "options", Value: bson.D{
			{Key: "viewOn", Value: "events.buckets"}, {Key: "pipeline", Value: sink.InternalPipeline(definition)},
		}}})
	})
	f.answer("collMod", func(bson.Raw) bson.D {
		if n := len(f.sent("update")); n > 0 {
			t.Error("the options were written before")
		}
		return bson.D{}
	})
	f.answer("update", counting(0)) // somebody was quicker
	_, _, err := openFake(t, f).SetGranularity(t.Context(), "events", timeseries.Minutes)
	if !errors.Is(err, sink.ErrChangedMeanwhile) {
		t.Error(err)
	}
	changes := f.sent("collMod")
	if len(changes) != 2 {
		t.Fatalf("%d collMods: %v", len(changes), changes)
	}
	if after := changes[0].Lookup("index", "expireAfterSeconds"); after.AsInt64() != 1000+86400 {
		t.Errorf("expiry %v", after)
	}
	if pipeline := changes[1].Lookup("pipeline").String(); !strings.Contains(pipeline, "86400") {
		t.Errorf("view %s", pipeline)
	}
	if filter := f.sent("update")[0].Lookup("updates", "0", "q"); filter.Document().Lookup("version").AsInt64() != 8 {
		t.Errorf("the condition is %v", filter)
	}
}
