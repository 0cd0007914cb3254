package hostile

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"testing"

	"waterwheel/e2e/harness"
)

// world is what all tests share; it does not change once they run.
var world struct {
	servers *harness.Servers
	binary  string
}

// TestMain builds the program once and starts the servers.
func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "waterwheel-hostile-")
	if err != nil {
		return 0, fmt.Errorf("making a folder for the binary: %w", err)
	}
	defer os.RemoveAll(dir)
	if world.binary, err = harness.Build(ctx, dir, false); err != nil {
		return 0, err
	}
	if world.servers, err = harness.StartServers(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, world.servers.Close()) }()
	return m.Run(), nil
}
