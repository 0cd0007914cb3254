package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/config"
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
			group := groupOptions(config.Config{Service: config.Service{ShutdownTimeout: shutdown}}, nil).Shutdown
			if took := time.Since(begun); took >= shutdown || took <= group || group < shutdown*9/10 {
				t.Errorf("%v: closing ends after %v, the group has %v", shutdown, took, group)
			}
		})
	}
}
