package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // images have no database of time zones, and EVENT_TIME_ZONE must mean the same on each consumer

	"waterwheel/internal/cli"
)

// version is set by the linker (-X main.version=…) in released builds.
var version = "dev"

func main() {
	// The first signal asks for an orderly end. It also gives the signals back to the system, so that the second ends the
	// process at once; "run" listens to that one itself, to say what was not written.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(cli.New(version, run).Execute(ctx, os.Args[1:]))
}
