package pipeline

import (
	"log/slog"
	"sync"
	"time"
)

// endsApart is the least time between two lines that say that a dependency answers again. A longer outage has its line in any
// case.
const endsApart = 10 * time.Second

// ErrorAfter is how long an outage lasts before its lines are errors, for every dependency. An election, a broker's restart and
// a lost connection are over by then.
const ErrorAfter = time.Minute

// Outages logs failing dependencies. All callers that try the same one share a line, which says how many they are. One more
// line says when the dependency works again. The logger bounds how often a line may come. Outages is safe for concurrent use.
type Outages struct {
	log   *slog.Logger
	clock func() Instant

	mu      sync.Mutex
	failing [Dependencies]failing
}

// failing is the state of one dependency, as its callers see it.
type failing struct {
	open  bool // the failure was logged, and its end was not yet
	since Instant
	by    map[string]bool // callers without success. True means a partition.
	most  int             // the largest number of partitions
	ended Instant         // when the last end was logged
}

// Prober stands for any caller that is not a partition.
const Prober = ""

// NewOutages returns Outages without any.
func NewOutages(log *slog.Logger, clock func() Instant) *Outages {
	return &Outages{log: log, clock: clock}
}

// Failed notes a failed attempt that is repeated. The caller by is a partition or Prober.
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

// Answered notes that a caller whose attempts had failed got an answer. The outage ends with the last of these callers.
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

// GaveUp notes that a caller stops trying. Other callers will find out whether the server works.
func (o *Outages) GaveUp(of Dependency, by string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failing[of].over(by)
}

// over removes a caller, and reports whether that ended the outage.
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
