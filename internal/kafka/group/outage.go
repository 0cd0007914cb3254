package group

import (
	"context"
	"log/slog"
	"time"

	"waterwheel/internal/kafka"
)

// repeatInterval is the least time between two log lines about the same trouble.
const repeatInterval = 10 * time.Second

// outage logs a trouble that repeats itself: its beginning, then at most once in repeatInterval with a count, and its end. It belongs to
// one goroutine.
type outage struct {
	log     *slog.Logger
	now     func() time.Duration
	serious time.Duration // from when on its lines are errors. Zero means never.
	since   time.Duration
	logged  time.Duration
	count   int
}

func (o *outage) trouble(what string, err error) {
	now := o.now()
	if o.count++; o.count == 1 {
		o.since = now
	} else if now-o.logged < repeatInterval {
		return
	}
	write, lasts := o.log.Warn, now-o.since
	if o.serious > 0 && lasts >= o.serious {
		write = o.log.Error
	}
	o.logged = now
	write(what, "for", lasts.Round(time.Millisecond), "err", err, "times", o.count)
}

func (o *outage) over(what string) {
	if o.count > 0 {
		o.log.Info(what, "after", (o.now() - o.since).Round(time.Millisecond), "times", o.count)
	}
	o.count = 0
}

// persist asks until that succeeds or ctx is done, which is then its error. It counts and tells what does not succeed.
func (g *Group) persist(ctx context.Context, request string, o *outage, trouble string, question func() error) error {
	for {
		err := question()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			g.metrics.retries.WithLabelValues(request).Inc()
			o.trouble(trouble, err)
		}
		if !kafka.Pause(ctx) {
			return context.Cause(ctx)
		}
	}
}
