package main

import (
	"context"
	"time"

	"waterwheel/internal/connect"
)

// closingContext returns a context for closing connections and pages. It ends half the reserve before SHUTDOWN_TIMEOUT is over,
// counted from the moment in which the process is asked to end. It has no end while the process is not asked to.
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
