package status

import (
	"context"
	"errors"
	"testing"
	"time"
)

// endless is a MongoDB that answers when the asker gives up.
type endless struct{}

func (endless) Ping(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestAStopIsNoOutage: a ping that the end of the process cuts says nothing about MongoDB.
func TestAStopIsNoOutage(t *testing.T) {
	v := idle()
	v.parts.Store(&Parts{Database: endless{}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v.ping(ctx)
	if out := v.database.Load(); out != nil {
		t.Errorf("MongoDB is said to be away: %v", out.err)
	}
}

func TestStartSaysWhatItWaitsFor(t *testing.T) {
	v := idle()
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	v.Waiting("MongoDB", since, errors.New("connection refused"))
	if got := v.snapshot().NotReady; len(got) != 1 || got[0] != "waiting for MongoDB since 2026-03-01T12:00:00Z: connection refused" {
		t.Errorf("/readyz says %q", got)
	}
	v.Waiting("MongoDB", since, nil)
	if got := v.snapshot().NotReady; len(got) != 1 || got[0] != "connecting to Kafka and MongoDB" {
		t.Errorf("then /readyz says %q", got)
	}
}
