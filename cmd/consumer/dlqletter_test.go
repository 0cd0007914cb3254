package main

import (
	"testing"

	"waterwheel/dlq"
	"waterwheel/measurement"
	"waterwheel/record"
)

func TestRetrialOutlastsARecordThatMakesTheDecoderFail(t *testing.T) {
	wrong := retrial{decoder: nil}.of(&dlq.Found{Letter: record.Letter{Place: record.Place{Offset: 7}, Value: []byte(`{"time":1700000000}`)}})
	if wrong == nil || wrong.Reason != measurement.InternalError {
		t.Errorf("%v", wrong)
	}
}
