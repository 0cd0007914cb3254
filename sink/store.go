package sink

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// defaultParallel is the default number of bulk calls of one Send in flight.
const defaultParallel = 4

// DefaultStoredBytes is the default bound of the memory of one partition's stored positions.
const DefaultStoredBytes = 64 << 20

// StoreOptions set a Store up.
type StoreOptions struct {
	// MaxCount is the number of measurements from which a bucket is full.
	MaxCount int32
	// WriteTimeout bounds one write from its sending to its answer. Required.
	WriteTimeout time.Duration
	// Lease reports whether bucket writes and claims may be sent now. It is called often and by many goroutines. Nil means always.
	Lease func() bool
	// StoredBytes bounds the memory of one partition's stored positions. A larger set is read in several windows. Zero means
	// DefaultStoredBytes.
	StoredBytes int64
	// Parallel bounds the bulk calls of one Send in flight. Zero means 4. With 1 they are made one after the other, in the calling
	// goroutine.
	Parallel int
	// CallWrites bounds the writes of one bulk call. Zero means 1000.
	CallWrites int
	// Clock reads a clock that never goes back. Nil means the system's monotonic clock.
	Clock   func() time.Duration
	Metrics *Metrics     // Nil means that they are registered nowhere.
	Logger  *slog.Logger // Nil means slog.Default().
}

// Store is a time series whose collections exist. It is safe for concurrent use.
type Store struct {
	collection.Ready
	StoreOptions
	// collection is the present definition. Ready has the definition at the start.
	collection atomic.Pointer[timeseries.Options]
	// unhinted means that the hinted index is missing.
	unhinted atomic.Bool
}

// NewStore makes a Store of a time series whose collections exist.
func NewStore(of collection.Ready, o StoreOptions) *Store {
	o.Parallel = cmp.Or(o.Parallel, defaultParallel)
	o.CallWrites = cmp.Or(o.CallWrites, mongodb.MaxCallWrites)
	if o.Clock == nil {
		began := time.Now()
		o.Clock = func() time.Duration { return time.Since(began) }
	}
	o.StoredBytes = cmp.Or(o.StoredBytes, DefaultStoredBytes)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	s := &Store{Ready: of, StoreOptions: o}
	s.SetCollection(of.Options)
	return s
}

// SetCollection makes look-ups follow changed options. A bucket may take a measurement if its minimum time is less than the new
// span before. The names of the fields do not change.
func (s *Store) SetCollection(o timeseries.Options) { s.collection.Store(&o) }

// span is how long after its minimum time a bucket takes measurements, in milliseconds.
func (s *Store) span() int64 { return s.collection.Load().Span() }

// held reports whether the lease allows bucket writes and claims now (E7).
func (s *Store) held() bool { return s.Lease == nil || s.Lease() }

// ordering orders the reads of one goroutine after its writes.
type ordering struct {
	begin   func() (mongodb.Session, error) // Nil means that the server has no sessions.
	session mongodb.Session                 // nil until the first use
	stamped time.Time                       // the last stamp
}

// ordered returns a context whose reads see earlier writes made with it.
func (o *ordering) ordered(ctx context.Context) (context.Context, error) {
	if o.begin == nil {
		return ctx, nil
	}
	if o.session == nil {
		session, err := o.begin()
		if err != nil {
			return nil, fmt.Errorf("starting a session: %w", err)
		}
		o.session = session
	}
	return o.session.Context(ctx), nil
}

// write sends one write in the session, within a time limit.
func (o *ordering) write(ctx context.Context, limit time.Duration, send func(context.Context) (mongodb.Reply, error)) (mongodb.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx, err := o.ordered(ctx)
	if err != nil {
		return mongodb.Reply{}, &mongodb.NotSentError{Err: err}
	}
	reply, err := send(ctx)
	return reply, mongodb.Within(limit, err)
}

// stamp returns the present time for a field of a document. It is later than the last one, so a fence always changes its document.
func (o *ordering) stamp() bson.DateTime {
	now := time.Now().Round(0) // the wall clock, which may have been set back
	if least := o.stamped.Add(time.Millisecond); now.Before(least) {
		now = least
	}
	o.stamped = now
	return bson.NewDateTimeFromTime(now)
}

// Close ends the session. A claim stays in the database.
func (o *ordering) Close() {
	if o.session != nil {
		o.session.End()
		o.session = nil
	}
}

// Metrics count the requests to MongoDB. One value serves all time series of a process.
type Metrics struct {
	commands *prometheus.HistogramVec // by command
	writes   *prometheus.CounterVec   // by topic, partition, kind and result
	stopped  prometheus.Counter
}

// NewMetrics makes the metrics and registers them. With a nil Registerer they are only counted.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	auto := promauto.With(reg)
	m := &Metrics{
		commands: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "waterwheel_mongodb_command_duration_seconds",
			Help:    "Time from sending a command to MongoDB until its answer, or until the consumer stops waiting for it.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"command"}),
		writes: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "waterwheel_mongodb_write_attempts_total",
			Help: "Attempts to execute a write in MongoDB, by result.",
		}, []string{"topic", "partition", "kind", "result"}),
		stopped: auto.NewCounter(prometheus.CounterOpts{
			Name: "waterwheel_mongodb_writes_stopped_total",
			Help: "Messages that the connection did not send to MongoDB because the lease had expired.",
		}),
	}
	for _, command := range []string{"insert", "update", "find"} {
		m.commands.WithLabelValues(command)
	}
	return m
}

// Stopped counts a command that was stopped inside the connection because the lease had expired.
func (m *Metrics) Stopped() { m.stopped.Inc() }

// begin makes the counters of a partition begin at zero, unless they exist.
func (m *Metrics) begin(of timeseries.Source) {
	for _, kind := range []bucketer.Kind{bucketer.Insert, bucketer.Update} {
		for _, label := range attempts {
			m.attempt(of, kind, label)
		}
	}
}

func (m *Metrics) attempt(of timeseries.Source, kind bucketer.Kind, label string) prometheus.Counter {
	return m.writes.WithLabelValues(of.Topic, strconv.Itoa(int(of.Partition)), kindName(kind), label)
}

// attempts are the labels of the results of an attempt.
var attempts = map[bucketer.Result]string{
	bucketer.Applied: "acked", bucketer.NotExecuted: "not_executed", bucketer.Unknown: "unknown", bucketer.Refused: "refused",
}

func kindName(kind bucketer.Kind) string {
	if kind == bucketer.Insert {
		return "insert"
	}
	return "update"
}

// command notes one command that began at start.
func (m *Metrics) command(name string, start time.Time) {
	m.commands.WithLabelValues(name).Observe(time.Since(start).Seconds())
}

// attempts notes the result of one attempt for each of the writes.
func (m *Metrics) attempts(of timeseries.Source, writes []*bucketer.Write, sent []bucketer.Sent) {
	type label struct {
		kind   bucketer.Kind
		result bucketer.Result
	}
	count := map[label]int{}
	for i := range sent {
		count[label{writes[i].Kind, sent[i].Result}]++
	}
	for l, n := range count {
		m.attempt(of, l.kind, attempts[l.result]).Add(float64(n))
	}
}
