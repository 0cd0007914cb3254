package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // images have no time zone database, and EVENT_TIME_ZONE must mean the same in each consumer

	"waterwheel/internal/cli"
	"waterwheel/internal/connect"
)

// version is set by the linker (-X main.version=…) in released builds.
var version = "dev"

func main() {
	// The first signal starts an orderly shutdown. It also restores the default handling of signals, so that the second one ends
	// the process at once. "run" handles the second signal itself, to report the records that were not written.
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

// notifyInterval is the longest time between two messages to the service manager.
const notifyInterval = 10 * time.Second

// notifyManager reports the state of the process to the service manager that started it, until ctx ends. That is systemd, for a
// service of Type=notify. The first message says that the process runs, without waiting for any server. Each message has status
// as its text, and resets the watchdog. When asked ends, a message says that the process stops, unless it begins again. Without
// NOTIFY_SOCKET notifyManager does nothing.
func notifyManager(ctx, asked context.Context, lookup func(string) (string, bool), status func() string) error {
	socket, _ := lookup("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	manager, err := new(net.Dialer).DialContext(ctx, "unixgram", socket)
	if err != nil {
		return fmt.Errorf("connecting to the service manager at NOTIFY_SOCKET=%s: %w", socket, err)
	}
	defer manager.Close()
	tick := time.NewTicker(messageInterval(lookup))
	defer tick.Stop()
	stopping := asked.Done()
	for state := "READY=1\n"; ; state = "" {
		if stopping == nil && !beginsAgain(asked) {
			state = "STOPPING=1\n"
		}
		// If a message is lost, the next one makes up for it.
		_, _ = fmt.Fprintf(manager, "%sWATCHDOG=1\nSTATUS=%s\n", state, strings.ReplaceAll(status(), "\n", " "))
		select {
		case <-tick.C:
		case <-stopping:
			stopping = nil
		case <-ctx.Done():
			return nil
		}
	}
}

// beginsAgain reports whether the process was asked to stop its work and to begin again.
func beginsAgain(asked context.Context) bool { return errors.Is(context.Cause(asked), cli.ErrRotated) }

// messageInterval returns a third of the time after which the watchdog of the service manager kills a silent process.
func messageInterval(lookup func(string) (string, bool)) time.Duration {
	text, _ := lookup("WATCHDOG_USEC")
	microseconds, err := strconv.ParseInt(text, 10, 64)
	of, _ := lookup("WATCHDOG_PID")
	if err != nil || microseconds <= 0 || of != "" && of != strconv.Itoa(os.Getpid()) {
		return notifyInterval
	}
	return max(min(time.Duration(microseconds)*time.Microsecond/3, notifyInterval), time.Millisecond)
}

// closingContext returns a context for closing connections and pages. It ends before SHUTDOWN_TIMEOUT is over, by half the
// closing reserve. The time counts from the moment at which asked ends. Until then the context does not end.
func closingContext(asked context.Context, shutdown time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(asked))
	stop := context.AfterFunc(asked, func() {
		defer cancel()
		select {
		case <-time.After(shutdown - connect.ClosingReserve(shutdown)/2):
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel() }
}
