package group

import (
	"context"
	"log/slog"
	"time"

	"waterwheel/internal/kafka"
)

// repeatInterval is the least time between two log lines about the same trouble.
const repeatInterval = 10 * time.Second

// outage logs a repeated trouble: its beginning, then at most one line in repeatInterval with a count, and its end. It belongs to
// one goroutine.
type outage struct {
	log     *slog.Logger
	now     func() time.Duration
	serious time.Duration // after how long the lines become errors. Zero means never.
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

// persist repeats a question until it succeeds or ctx is done. Its error is ctx's. It counts and logs failures.
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
