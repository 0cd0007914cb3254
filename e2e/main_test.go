package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// world is shared by all tests. It does not change once they run.
var world struct {
	servers *harness.Servers
	binary  string
}

var withRace = flag.Bool("consumer.race", false, "build the consumer with the race detector")

// TestMain builds the program once and starts the servers.
func TestMain(m *testing.M) {
	harness.Main(m, "e2e", func(ctx context.Context, s *harness.Shared) (err error) {
		start := time.Now()
		if world.binary, err = harness.Build(ctx, s.Dir, *withRace); err != nil {
			return err
		}
		if world.servers, err = harness.StartServers(ctx); err != nil {
			return err
		}
		s.AtEnd(world.servers.Close)
		fmt.Printf("e2e: the consumer was built in %.1fs; %s\n", time.Since(start).Seconds(), world.servers)
		return nil
	})
}
