package cli

import (
	"testing"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

func TestRetrialOutlastsARecordThatMakesTheDecoderFail(t *testing.T) {
	wrong := retrial{decoder: nil}.of(&dlq.Found{Letter: record.Letter{Place: record.Place{Offset: 7}, Value: []byte(`{"time":1700000000}`)}})
	if wrong == nil || wrong.Reason != measurement.InternalError {
		t.Errorf("%v", wrong)
	}
}

// TestRetrialReadsHeaders verifies that a dead letter is tried with the headers of its record.
func TestRetrialReadsHeaders(t *testing.T) {
	env := map[string]string{"EVENT_META_FIELD": "header:sensor"}
	c, err := config.LoadEvents(func(name string) (string, bool) { value, ok := env[name]; return value, ok }, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRetrial(c)
	if err != nil {
		t.Fatal(err)
	}
	f := &dlq.Found{Letter: record.Letter{Timestamp: 1_700_000_000_000, Value: []byte(`{"time":1700000000}`)}}
	if got := r.reason(f); got != string(measurement.MissingMeta) {
		t.Errorf("without the header the reason is %q, want %q", got, measurement.MissingMeta)
	}
	f.Headers = []record.Header{{Key: "sensor", Value: []byte("s-17")}}
	if wrong := r.of(f); wrong != nil {
		t.Errorf("with the header: %v", wrong)
	}
}
