package sink

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// defaultParallel is how many bulk calls of one flush are in flight.
const defaultParallel = 4

// Ports are the collections of a time series, and how to order reads after writes.
type Ports struct {
	Buckets             Editable
	Partitions, Options Collection
	// Session begins a causally consistent session. Nil means that the server has none.
	Session func() (Session, error)
	// FenceShards orders what is read next after every write of a bucket executed before, on all shards. Nil means that a write of a partition
	// document does so.
	FenceShards func(ctx context.Context) error
	// Clock asks for the server's time.
	Clock func(ctx context.Context) (time.Time, error)
}

// StoreOptions describe a time series to its Store.
type StoreOptions struct {
	// Namespace is database and name of the buckets' collection, for messages.
	Namespace string
	// Collection is the normalised definition of the time series.
	Collection timeseries.Options
	// MaxCount is the number of measurements from which a bucket is full.
	MaxCount int32
	// Segments: what arrives for slow series is written into segments. HasSegments: there may be some, which are compacted in any
	// case.
	Segments, HasSegments bool
	// Rollups reports that the time series has rollups: a claim begins a watermark.
	Rollups bool
	// WriteTimeout, Lease and StoredBytes are as in Options.
	WriteTimeout time.Duration
	Lease        func() bool
	StoredBytes  int64
	// Parallel bounds the bulk calls of one Send in flight. Zero means 4. With 1 they are made one after the other, in the calling
	// goroutine.
	Parallel int
	// CallWrites bounds the writes of one bulk call. Zero means 1000.
	CallWrites int
	// Clock is a reading of a clock that never goes back. Nil means the system's.
	Clock func() time.Duration
	// BSONSize: a query can ask for a document's size.
	BSONSize bool
	// SetsInTextOrder: new fields of one $set are made in the order of their names' text, "10" before "9". MongoDB has
	// ordered numeric names by number since 5.0.
	SetsInTextOrder bool
	Metrics         *Metrics     // Nil means that none are kept.
	Logger          *slog.Logger // Nil means slog.Default().
}

// Store is a time series whose collections exist. It is safe for concurrent use.
type Store struct {
	StoreOptions
	ports Ports
	// collection is the definition of now: StoreOptions has that of the beginning.
	collection atomic.Pointer[timeseries.Options]
	// unhinted: the index named by the hint was found missing.
	unhinted atomic.Bool
}

// NewStore makes a Store on collections that are set up; Database.Setup does both.
func NewStore(ports Ports, o StoreOptions) *Store {
	o.Parallel = cmp.Or(o.Parallel, defaultParallel)
	o.CallWrites = cmp.Or(o.CallWrites, maxCallWrites)
	if o.Clock == nil {
		began := time.Now()
		o.Clock = func() time.Duration { return time.Since(began) }
	}
	o.StoredBytes = cmp.Or(o.StoredBytes, DefaultStoredBytes)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	s := &Store{StoreOptions: o, ports: ports}
	s.SetCollection(o.Collection)
	return s
}

// held reports whether the lease allows bucket writes and claims now (E7).
func (s *Store) held() bool { return s.Lease == nil || s.Lease() }

// sourceFilter are the elements that find the buckets of a partition.
func sourceFilter(source timeseries.Source) bson.D {
	return bson.D{
		{Key: timeseries.PathTopicID, Value: uuid(source.TopicID)},
		{Key: timeseries.PathPartition, Value: source.Partition},
	}
}

func uuid(id [16]byte) bson.Binary { return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]} }

// document encodes a document made of this package's own values, which always have an encoding.
func document(d bson.D) bson.Raw {
	raw, err := bson.Marshal(d)
	if err != nil {
		panic("sink: a document of our own has no encoding: " + err.Error())
	}
	return raw
}
