package hostile

import (
	"context"
	"testing"

	"waterwheel/e2e/harness"
)

// world is shared by all tests. It does not change after the tests start.
var world struct {
	servers *harness.Servers
	binary  string
}

// TestMain builds the program once and starts the servers.
func TestMain(m *testing.M) {
	harness.Main(m, "hostile", func(ctx context.Context, s *harness.Shared) (err error) {
		if world.binary, err = harness.Build(ctx, s.Dir, false); err != nil {
			return err
		}
		if world.servers, err = harness.StartServers(ctx); err != nil {
			return err
		}
		s.AtEnd(world.servers.Close)
		return nil
	})
}
