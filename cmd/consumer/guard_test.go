package main

import (
	"testing"

	"waterwheel/bucketer"
	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/measurement"
)

func TestRetrialOutlastsARecordThatMakesTheDecoderFail(t *testing.T) {
	wrong := retrial{decoder: nil}.of(&dlq.Letter{Offset: 7, Value: []byte(`{"time":1700000000}`)})
	if wrong == nil || wrong.Reason != measurement.InternalError {
		t.Errorf("%v", wrong)
	}
}

func TestSampleOutlastsARecordThatMakesTheDecoderFail(t *testing.T) {
	s := sampler{decoder: nil, bad: map[string]*BadView{}}
	s.take(0, &dlq.Record{Offset: 7, Value: []byte(`{"time":1700000000}`)})
	if bad := s.bad["internal_error"]; bad == nil || bad.Count != 1 {
		t.Errorf("%+v", s.bad)
	}
}

// TestSampleDropsACatalogThatFailed: what a catalog holds after a panic is not known.
func TestSampleDropsACatalogThatFailed(t *testing.T) {
	env := settings()
	c, err := config.Load(func(name string) (string, bool) { v, ok := env[name]; return v, ok }, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSampler(c, "events")
	if err != nil {
		t.Fatal(err)
	}
	s.catalogs[4] = new(bucketer.Catalog) // without its maps it fails when it is inserted into
	for offset := range int64(2) {
		s.take(4, &dlq.Record{Offset: offset, Timestamp: 1_700_000_000_000, Value: []byte(`{"time":1700000000,"meta":"a"}`)})
	}
	view := s.finish()
	if view.Measurements != 1 || view.Buckets != 1 || len(view.Bad) != 1 || view.Bad[0].Reason != "internal_error" || view.Bad[0].Count != 1 {
		t.Errorf("%+v", view)
	}
}
