package pipeline

import (
	"log/slog"
	"sync"
	"time"
)

// endsApart is the least time between two lines that say that a dependency answers again, unless the outage was longer.
const endsApart = 10 * time.Second

// ErrorAfter is how long an outage lasts before the lines about it are errors, of whatever server it is: an election, a broker that
// restarts and a lost connection are over by then.
const ErrorAfter = time.Minute

// Outages writes the lines about dependencies that fail: one line for all who try the same one, with how many they are, and
// one when it works again. How often a line may come is for the logger to bound. It is safe for concurrent use.
type Outages struct {
	log   *slog.Logger
	clock func() Instant

	mu      sync.Mutex
	failing [Dependencies]failing
}

// failing is one dependency, as those see it who try it.
type failing struct {
	open  bool // it was said that it fails, and not yet that it works
	since Instant
	by    map[string]bool // who tries it without success. True means a partition.
	most  int             // how many partitions there were at most
	ended Instant         // when the last end was written
}

// Prober stands for whoever tries a dependency and is not a partition.
const Prober = ""

// NewOutages returns Outages without any.
func NewOutages(log *slog.Logger, clock func() Instant) *Outages {
	return &Outages{log: log, clock: clock}
}

// Failed notes an attempt that failed and is repeated; by is the partition that made it, or Prober.
func (o *Outages) Failed(of Dependency, by string, t Trouble) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &o.failing[of]
	if !f.open {
		f.open, f.since, f.by, f.most = true, t.Since, map[string]bool{}, 0
	}
	f.by[by] = by != Prober
	f.most = max(f.most, f.partitions())
	write, lasts := o.log.Warn, o.clock()-f.since
	if lasts >= ErrorAfter {
		write = o.log.Error
	}
	write(of.Name()+" is failing; retrying", "partitions", f.partitions(), "for", lasts.Round(time.Millisecond), "doing", t.Doing, "err", t.Cause)
}

// Answered notes that a caller whose attempts had failed got an answer. The outage is over with the last of these callers.
func (o *Outages) Answered(of Dependency, by string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &o.failing[of]
	if !f.over(by) {
		return
	}
	now := o.clock()
	if lasted := now - f.since; f.ended == 0 || now-f.ended >= endsApart || lasted >= endsApart {
		f.ended = now
		o.log.Info(of.Name()+" answers again", "after", lasted.Round(time.Millisecond), "partitions", f.most)
	}
}

// GaveUp notes that a caller does not try any more. Another caller will find out whether the server works.
func (o *Outages) GaveUp(of Dependency, by string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failing[of].over(by)
}

// over removes one of those who try it, and reports whether that ended the outage.
func (f *failing) over(by string) bool {
	delete(f.by, by)
	if !f.open || len(f.by) > 0 {
		return false
	}
	f.open = false
	return true
}

func (f *failing) partitions() (n int) {
	for _, partition := range f.by {
		if partition {
			n++
		}
	}
	return n
}
