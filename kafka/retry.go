package kafka

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	retryMin = 100 * time.Millisecond
	retryMax = 500 * time.Millisecond
	// patience is how often Patiently asks.
	patience = 20
	// repeatInterval is the least time between two log lines about the same trouble.
	repeatInterval = 10 * time.Second
)

// pause waits between two attempts, with jitter, and reports whether ctx is still alive.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(retryMin + rand.N(retryMax-retryMin))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Patiently asks again while an answer may still come, for some seconds.
func Patiently(ctx context.Context, ask func() error) error {
	for try := 1; ; try++ {
		err := ask()
		class := Classify(err)
		if err == nil || try == patience || class != Retry && class != KeepCommit && class != StopIfPersists {
			return err
		}
		if !pause(ctx) {
			return context.Cause(ctx)
		}
	}
}

// outage logs a trouble that repeats itself: its beginning, then at most once in repeatInterval with a count, and its end.
// It belongs to one goroutine.
type outage struct {
	log    *slog.Logger
	now    func() time.Duration
	since  time.Duration
	logged time.Duration
	count  int
}

func (o *outage) trouble(what string, err error) {
	now := o.now()
	if o.count++; o.count == 1 {
		o.since = now
	} else if now-o.logged < repeatInterval {
		return
	}
	o.logged = now
	o.log.Warn(what, "err", err, "times", o.count)
}

func (o *outage) over(what string) {
	if o.count > 0 {
		o.log.Info(what, "after", (o.now() - o.since).Round(time.Millisecond), "times", o.count)
	}
	o.count = 0
}
