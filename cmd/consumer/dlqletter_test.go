package main

import (
	"testing"

	"waterwheel/dlq"
	"waterwheel/measurement"
)

func TestRetrialOutlastsARecordThatMakesTheDecoderFail(t *testing.T) {
	wrong := retrial{decoder: nil}.of(&dlq.Letter{Offset: 7, Value: []byte(`{"time":1700000000}`)})
	if wrong == nil || wrong.Reason != measurement.InternalError {
		t.Errorf("%v", wrong)
	}
}
