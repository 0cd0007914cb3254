package sink

import (
	"cmp"
	"log/slog"
	"sync/atomic"
	"time"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// defaultParallel is the default number of bulk calls of one Send in flight.
const defaultParallel = 4

// DefaultStoredBytes is the default bound of the memory of one partition's D.
const DefaultStoredBytes = 64 << 20

// StoreOptions set a Store up.
type StoreOptions struct {
	// MaxCount is the number of measurements from which a bucket is full.
	MaxCount int32
	// WriteTimeout bounds one write from its sending to its answer. Required.
	WriteTimeout time.Duration
	// Lease reports whether bucket writes and claims may be sent now. It is called often and by many goroutines. Nil means always.
	Lease func() bool
	// StoredBytes bounds the memory of one partition's D. A larger D is read in several windows. Zero means DefaultStoredBytes.
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
