package reader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/internal/timeseries"
)

// Series is a time series to read from: all that one consumer's collection holds. It is safe for concurrent use.
type Series struct {
	name      string
	namespace string // of its buckets
	options   timeseries.Options
	port      port
	// sibling opens another time series of the database. ErrNotSetUp means that there is none of the name.
	sibling func(ctx context.Context, name string) (*Series, error)

	orderOnce sync.Mutex
	orders    *bool // The server orders metas as groups are. Nil means that it was not asked yet.
}

// Open reads the definition of a time series; name is the consumer's MONGODB_COLLECTION, without suffix. ErrNotSetUp: there is
// none. The database, with its client, stays the caller's; its read preference is used, and reads see what a majority has on
// servers that can tell.
func Open(ctx context.Context, db *mongo.Database, name string) (*Series, error) {
	where := db.Name() + "." + name
	s := newSeries(name, where+timeseries.BucketsSuffix, timeseries.Options{}, newServer(ctx, db, name))
	s.sibling = func(ctx context.Context, name string) (*Series, error) { return Open(ctx, db, name) }
	var err error
	if s.options, err = s.define(ctx); err != nil {
		return nil, fmt.Errorf("opening %s: %w", where, err)
	}
	return s, nil
}

func newSeries(name, namespace string, o timeseries.Options, p port) *Series {
	return &Series{name: name, namespace: namespace, options: o, port: p}
}

// define asks once how the time series is defined now.
func (s *Series) define(ctx context.Context) (timeseries.Options, error) {
	d, _, err := s.definition(ctx)
	return d, err
}

// definition asks the same, and whether the time series may hold segments.
func (s *Series) definition(ctx context.Context) (o timeseries.Options, segments bool, err error) {
	raw, err := s.port.definition(ctx)
	switch {
	case err != nil:
		return o, false, fmt.Errorf("reading the definition: %w", err)
	case raw == nil:
		return o, false, ErrNotSetUp
	}
	d, err := timeseries.ReadDefinition(raw)
	segments, _ = raw.Lookup(fieldSegments).BooleanOK()
	return d.Options, segments, err
}

// fieldSegments is the field of the definition that says that there may be segments. Where it is not true nobody looks for
// them: without an index on them that would take a look at every bucket.
const fieldSegments = "segments"

// present puts into a plan how the time series is defined now: how long a bucket spans at most, in milliseconds, more than when it
// was opened, perhaps, and whether there may be segments. The span only ever grows, so that the present one is right for all buckets.
func (s *Series) present(ctx context.Context, p *plan) error {
	var missing error
	err := persist(ctx, func() error {
		now, segments, err := s.definition(ctx)
		if errors.Is(err, ErrNotSetUp) {
			missing = err
			return nil
		}
		p.span, p.segments = max(now.Span(), s.options.Span()), segments
		return err
	})
	return cmp.Or(missing, err)
}

// Name is the name it was opened with.
func (s *Series) Name() string { return s.name }

// Options are the definition of the time series, as it was when it was opened.
func (s *Series) Options() timeseries.Options { return s.options }

// minPath is the path of a bucket's rounded minimum time.
func (s *Series) minPath() string { return timeseries.MinPath(s.options.TimeField) }

// maxPath is the path of a bucket's maximum time.
func (s *Series) maxPath() string { return timeseries.MaxPath(s.options.TimeField) }

// index are the keys of the index that serves one series in the order of time.
func (s *Series) index() bson.D {
	return bson.D{{Key: timeseries.FieldMeta, Value: 1}, {Key: s.minPath(), Value: 1}}
}
