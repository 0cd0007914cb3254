package status

import (
	"context"
	"testing"
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
