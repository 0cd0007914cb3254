package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // images have no database of time zones, and EVENT_TIME_ZONE must mean the same on each consumer
)

func main() {
	// The first signal asks for an orderly end. It also gives the signals back to the system, so that the second ends the
	// process at once; "run" listens to that one itself, to say what was not written.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	p := program{
		stdin:      os.Stdin,
		stdout:     os.Stdout,
		stderr:     os.Stderr,
		lookup:     os.LookupEnv,
		environ:    os.Environ(),
		onTerminal: isTerminal(os.Stderr),
		screen:     terminalOf(os.Stdout),
		run:        run,
		initialize: initialize,
		read:       readSeries,
	}
	p.interactive = p.onTerminal && terminalOf(os.Stdin) != (terminal{})
	os.Exit(p.execute(ctx, os.Args[1:]))
}

// isTerminal tells whether a person reads the file.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
