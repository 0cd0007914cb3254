package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/config"
	"waterwheel/internal/cli"
	"waterwheel/internal/connect"
	"waterwheel/internal/logtest"
)

// TestServiceManagerIsTold checks that the process reports that it runs, repeatedly that it is alive, and that it ends.
func TestServiceManagerIsTold(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	manager.SetReadDeadline(time.Now().Add(10 * time.Second))
	hear := func() string {
		message := make([]byte, 1000)
		n, err := manager.Read(message)
		if err != nil {
			t.Fatal(err)
		}
		return string(message[:n])
	}
	environment := map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "3000"}
	ctx, end := context.WithCancel(t.Context())
	asked, ask := context.WithCancel(ctx)
	told := make(chan error)
	go func() {
		told <- notifyManager(ctx, asked, func(name string) (string, bool) { v, ok := environment[name]; return v, ok }, func() string { return "not\nready" })
	}()
	if first := hear(); first != "READY=1\nWATCHDOG=1\nSTATUS=not ready\n" {
		t.Errorf("the first message is %q", first)
	}
	for range 3 {
		if next := hear(); next != "WATCHDOG=1\nSTATUS=not ready\n" {
			t.Errorf("a message between is %q", next)
		}
	}
	ask()
	for next := ""; !strings.HasPrefix(next, "STOPPING=1\n"); next = hear() {
		if strings.Contains(next, "READY") {
			t.Errorf("a message says %q again", next)
		}
	}
	end()
	if err := <-told; err != nil {
		t.Error(err)
	}
}

// TestBeginningAgainIsNoStop checks that a new beginning is not reported as a stop, because systemd would then end the process.
func TestBeginningAgainIsNoStop(t *testing.T) {
	asked, ask := context.WithCancelCause(t.Context())
	if beginsAgain(asked) {
		t.Error("nothing was asked")
	}
	ask(fmt.Errorf("MONGODB_URI changed, %w", cli.ErrRotated))
	if !beginsAgain(asked) {
		t.Error("a secret changed")
	}
	stopped, stop := context.WithCancel(t.Context())
	if stop(); beginsAgain(stopped) {
		t.Error("a signal came")
	}
}

func TestServiceManagerIsOptional(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	if err := notifyManager(t.Context(), t.Context(), none, nil); err != nil {
		t.Error(err)
	}
	missing := func(string) (string, bool) { return filepath.Join(t.TempDir(), "none"), true }
	if err := notifyManager(t.Context(), t.Context(), missing, nil); err == nil || !strings.Contains(err.Error(), "NOTIFY_SOCKET") {
		t.Errorf("a socket that does not exist: %v", err)
	}
}

func TestWatchdogOfThisProcessSetsTheInterval(t *testing.T) {
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"", "", notifyInterval},
		{"30000000", "", 10 * time.Second},
		{"3000000", strconv.Itoa(os.Getpid()), time.Second},
		{"3000000", "1", notifyInterval},
		{"-5", "", notifyInterval},
		{"1", "", time.Millisecond},
	} {
		lookup := func(name string) (string, bool) {
			return map[string]string{"WATCHDOG_USEC": c.usec, "WATCHDOG_PID": c.pid}[name], true
		}
		if got := messageInterval(lookup); got != c.want {
			t.Errorf("WATCHDOG_USEC=%s WATCHDOG_PID=%s: %v, want %v", c.usec, c.pid, got, c.want)
		}
	}
}

// TestClosingEndsWithinTheShutdown checks that hanging connections are closed before SHUTDOWN_TIMEOUT ends, however short it is,
// and after the group had its part of the time.
func TestClosingEndsWithinTheShutdown(t *testing.T) {
	for _, shutdown := range []time.Duration{time.Second, 8 * time.Second, 25 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			asked, ask := context.WithCancel(t.Context())
			closing, cancel := closingContext(asked, shutdown)
			defer cancel()
			time.Sleep(2 * shutdown)
			if closing.Err() != nil {
				t.Errorf("%v: it ends though nobody has asked", shutdown)
			}
			ask()
			begun := time.Now()
			<-closing.Done()
			group := connect.GroupOptions(config.Config{Service: config.Service{ShutdownTimeout: shutdown}}, nil).Shutdown
			if took := time.Since(begun); took >= shutdown || took <= group || group < shutdown*9/10 {
				t.Errorf("%v: closing ends after %v, the group has %v", shutdown, took, group)
			}
		})
	}
}

// TestAStopIsLogged checks that the log contains the cause of the stop and the time that it may take.
func TestAStopIsLogged(t *testing.T) {
	env := settings()
	env["KAFKA_BROKERS"], env["MONGODB_URI"], env["HTTP_ADDR"] = "127.0.0.1:1", "mongodb://127.0.0.1:1/db", ""
	c, err := config.Load(func(name string) (string, bool) { v, ok := env[name]; return v, ok }, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out logtest.Lines
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, c, slog.New(slog.NewTextHandler(&out, nil))) }()
	out.Await(t, `msg="waiting for Kafka"`)
	stop(errors.New("terminated signal received"))
	if err := <-ended; err != nil {
		t.Error(err)
	}
	out.Await(t, `level=INFO msg=stopping why="terminated signal received" within=25s`)
}
