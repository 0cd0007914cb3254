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

// defaultParallel is how many bulk calls of one flush are in flight.
const defaultParallel = 4

// DefaultStoredBytes is how much memory D of one partition takes at most.
const DefaultStoredBytes = 64 << 20

// StoreOptions say how a Store works.
type StoreOptions struct {
	// MaxCount is the number of measurements from which a bucket is full.
	MaxCount int32
	// WriteTimeout bounds one write from its sending to its answer. Required.
	WriteTimeout time.Duration
	// Lease reports whether bucket writes and claims may be sent now; it is asked often and from many goroutines. Nil means always.
	Lease func() bool
	// StoredBytes bounds the memory that D of one partition takes: more is read in several windows. Zero means DefaultStoredBytes.
	StoredBytes int64
	// Parallel bounds the bulk calls of one Send in flight. Zero means 4. With 1 they are made one after the other, in the calling
	// goroutine.
	Parallel int
	// CallWrites bounds the writes of one bulk call. Zero means 1000.
	CallWrites int
	// Clock is a reading of a clock that never goes back. Nil means the system's.
	Clock   func() time.Duration
	Metrics *Metrics     // Nil means that none are kept.
	Logger  *slog.Logger // Nil means slog.Default().
}

// Store is a time series whose collections exist. It is safe for concurrent use.
type Store struct {
	collection.Ready
	StoreOptions
	// collection is the definition of now: Ready has that of the beginning.
	collection atomic.Pointer[timeseries.Options]
	// unhinted means that the index named by the hint was found missing.
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

// SetCollection makes look-ups follow changed options: a bucket whose minimum time is less than the new span ago may take a
// measurement. The names of the fields do not change.
func (s *Store) SetCollection(o timeseries.Options) { s.collection.Store(&o) }

// span is how long after its minimum time a bucket takes measurements, in milliseconds.
func (s *Store) span() int64 { return s.collection.Load().Span() }

// held reports whether the lease allows bucket writes and claims now (E7).
func (s *Store) held() bool { return s.Lease == nil || s.Lease() }
