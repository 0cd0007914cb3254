package pipeline

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

// Dependency is a server or topic that a worker depends on.
type Dependency uint8

// The dependencies.
const (
	MongoDB Dependency = iota
	Kafka
	Coordinator // Kafka's group coordinator, which takes commits
	DeadLetterTopic
	Registry
	Dependencies // how many there are
)

// String is the label in metrics.
func (s Dependency) String() string {
	return [...]string{"mongodb", "kafka", "coordinator", "dlq", "registry"}[s]
}

// Name is the name in log lines and on the status page.
func (s Dependency) Name() string {
	return [...]string{"MongoDB", "Kafka", "Kafka's group coordinator", "the dead-letter topic", "the schema registry"}[s]
}

// operation is the purpose of an attempt.
type operation uint8

const (
	readingTheClaim operation = iota
	sendingTheClaim
	readingPositions
	releasingTheClaim
	writingBuckets
	readingBack
	askingPositions
	lookingUp
	fetchingRecords
	askingBounds
	askingTopic
	readingSegments
	compactingSegments
	notingLosses
	writingDeadLetters
	readingSchema
	committingOffsets
	operations // how many there are
)

// String is the name in messages and metrics.
func (d operation) String() string {
	return [...]string{
		"reading the claim", "claiming the partition", "reading the stored positions", "releasing the claim", "writing buckets",
		"reading writes back", "asking for stored positions", "looking up buckets", "fetching", "reading the log's start and end offsets",
		"reading the topic's id", "reading segments", "compacting segments", "recording lost records", "writing dead letters", "reading a schema",
		"committing offsets",
	}[d]
}

// Failure is a failure that is being retried. It is immutable.
type Failure struct {
	// Since is when the first of the attempts in a row failed.
	Since Instant
	// Operation is what was attempted, Cause the last error.
	Operation, Cause string
}

// String gives Doing and Cause.
func (t *Failure) String() string { return t.Operation + ": " + t.Cause }

// failed postpones the next attempt after one that failed.
func (w *Worker) failed(m Moment, retry *backoff, of Dependency, trying operation, err error) {
	retry.fail(m.Now, w.o.Random)
	w.outage(m, of, trying, err)
}

// succeeded ends the back-off and notes that the dependency works.
func (w *Worker) succeeded(retry *backoff, of Dependency) {
	retry.succeed()
	w.answered(of)
}

// outage notes a failure that is retried. It stops the partition if a retry does not help.
func (w *Worker) outage(m Moment, of Dependency, trying operation, err error) {
	if errors.Is(err, claim.ErrLapsed) {
		return // the lease has its own metric
	}
	if stop, ok := errors.AsType[*record.StopError](err); ok {
		w.stop(stop)
		return
	}
	w.metrics.failed(trying)
	// The error may already name the attempt.
	cause := strings.TrimPrefix(err.Error(), trying.String()+": ")
	failure := Failure{Since: m.Now, Operation: trying.String(), Cause: cause}
	if before := w.failures[of]; before != nil {
		failure.Since = before.Since
	}
	w.failures[of] = &failure
	w.o.Outages.Failed(of, w.name(), failure)
}

// answered notes that a dependency works again. While writes fail, an answer of MongoDB to anything else says little.
func (w *Worker) answered(of Dependency) {
	if of == MongoDB && w.flush != nil && w.flush.retry.failures > 0 {
		return
	}
	if w.failures[of] != nil {
		w.failures[of] = nil
		w.o.Outages.Answered(of, w.name())
	}
}

// giveUp notes that these dependencies are not tried again, so nothing here will tell whether they work.
func (w *Worker) giveUp(servers ...Dependency) {
	for _, of := range servers {
		if w.failures[of] != nil {
			w.failures[of] = nil
			w.o.Outages.GaveUp(of, w.name())
		}
	}
}

func (w *Worker) name() string { return w.o.Partition.String() }

// Delays between attempts against a server that does not answer. The longest delay is short, so that writing resumes soon after
// the server does.
const (
	shortestDelay = 50 * time.Millisecond
	longestDelay  = time.Second
)

// backoff counts failures in a row and says when to try again.
type backoff struct {
	failures int
	until    Instant
}

// fail postpones the next attempt. The delay grows exponentially up to longestDelay, and the jitter shortens it by up to half.
func (b *backoff) fail(now Instant, rnd *rand.Rand) {
	delay := min(shortestDelay<<min(b.failures, 10), longestDelay)
	b.failures++
	b.until = now + delay/2 + time.Duration(rnd.Int64N(int64(delay/2)))
}

func (b *backoff) succeed() { *b = backoff{} }

// ready reports whether the next attempt may be made.
func (b *backoff) ready(now Instant) bool { return now >= b.until }

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
func (o *Outages) Failed(of Dependency, by string, t Failure) {
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
	write(of.Name()+" is failing; retrying", "partitions", f.partitions(), "for", lasts.Round(time.Millisecond), "operation", t.Operation, "err", t.Cause)
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
