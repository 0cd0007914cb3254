package group

import (
	"log/slog"
	"time"
)

// repeatInterval is the least time between two log lines about the same trouble.
const repeatInterval = 10 * time.Second

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
