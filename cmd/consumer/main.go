package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // images have no time zone database, and EVENT_TIME_ZONE must mean the same in each consumer

	"waterwheel/internal/cli"
)

// version is set by the linker (-X main.version=…) in released builds.
var version = "dev"

func main() {
	// The first signal starts an orderly shutdown. It also restores the default handling of signals, so that the second one ends
	// the process at once. "run" handles the second signal itself, to report what was not written.
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
	context.AfterFunc(ctx, stop)
	os.Exit(cli.New(version, run).Execute(ctx, os.Args[1:]))
}

// stopSignals returns the signals that stop the program.
func stopSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}
