package kafka

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	kafkago "github.com/segmentio/kafka-go"
)

// TestPatienceIsForWhatMayPass checks that an outage is retried for a limited time, and that a refusal is final.
func TestPatienceIsForWhatMayPass(t *testing.T) {
	silence := errors.New("no answer")
	for name, c := range map[string]struct {
		errs []error // of the requests in order. The last one repeats.
		want error
		asks int
	}{
		"answered":  {[]error{nil}, nil, 1},
		"at last":   {[]error{silence, silence, nil}, nil, 3},
		"refused":   {[]error{silence, kafkago.TopicAuthorizationFailed}, kafkago.TopicAuthorizationFailed, 2},
		"no answer": {[]error{silence}, silence, patience},
	} {
		synctest.Test(t, func(t *testing.T) {
			asks := 0
			err := Patiently(t.Context(), func() error {
				asks++
				return c.errs[min(asks, len(c.errs))-1]
			})
			if !errors.Is(err, c.want) || asks != c.asks {
				t.Errorf("%s: %v after %d questions", name, err, asks)
			}
		})
	}
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := Patiently(ctx, func() error { cancel(interrupted); return silence }); !errors.Is(err, interrupted) {
		t.Errorf("interrupted: %v", err)
	}
}
