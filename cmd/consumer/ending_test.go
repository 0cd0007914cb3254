package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/config"
	"waterwheel/internal/connect"
	"waterwheel/internal/logtest"
)

// TestClosingEndsWithinTheShutdown: connections that hang are given up before SHUTDOWN_TIMEOUT is over, however short that is, and
// after the group had its part of it.
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

// TestAStopIsLogged with what asked for it, and how long it may take.
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
