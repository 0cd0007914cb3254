package status

import (
	"context"
	"testing"
)

// endless is a MongoDB server that answers only when the client gives up.
type endless struct{}

func (endless) Ping(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestAStopIsNoOutage checks that a ping that is cancelled at the end of the process does not count as an outage of MongoDB.
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
