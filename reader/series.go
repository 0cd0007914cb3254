package reader

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// Series is a time series to read from, that is, everything in one collection of a consumer. It is safe for concurrent use.
type Series struct {
	name      string
	namespace string // the namespace of its collection of buckets
	options   timeseries.Options
	segments  bool // the time series may have held segments when it was opened
	// current means that the series was opened for one query. Its definition is not read again for that query.
	current bool
	port    port
	// sibling opens another time series of the database. ErrNotSetUp means that no time series has this name.
	sibling func(ctx context.Context, name string) (*Series, error)

	orders ability // of the server: to order metas as groups are ordered
	bits   ability // of the server: to compare bits, so that a Bloom filter tells which segments to skip
}

// Open reads the definition of a time series. The name is the consumer's MONGODB_COLLECTION, without suffix. The error is
// ErrNotSetUp if there is none. The database and its client stay the caller's. Open uses its read preference. Reads have read
// concern majority on servers that support it.
func Open(ctx context.Context, db *mongo.Database, name string) (*Series, error) {
	return openOn(ctx, newServer(ctx, db, name), name)
}

// openOn reads the definition of a time series on its server.
func openOn(ctx context.Context, on *server, name string) (*Series, error) {
	where := on.buckets.Database().Name() + "." + name
	s := newSeries(name, where+timeseries.BucketsSuffix, timeseries.Options{}, on)
	s.sibling = func(ctx context.Context, name string) (*Series, error) { return openOn(ctx, on.sibling(name), name) }
	var err error
	if s.options, s.segments, err = s.definition(ctx); err != nil {
		return nil, fmt.Errorf("opening %s: %w", where, err)
	}
	return s, nil
}

func newSeries(name, namespace string, o timeseries.Options, p port) *Series {
	return &Series{name: name, namespace: namespace, options: o, port: p}
}

// definition reads the current definition, without retries, and whether the time series may hold segments.
func (s *Series) definition(ctx context.Context) (o timeseries.Options, segments bool, err error) {
	raw, err := s.port.definition(ctx)
	switch {
	case err != nil:
		return o, false, fmt.Errorf("reading the definition of the time series: %w", err)
	case raw == nil:
		return o, false, ErrNotSetUp
	}
	d, err := timeseries.ReadDefinition(raw)
	segments, _ = raw.Lookup(fieldSegments).BooleanOK()
	return d.Options, segments, err
}

// fieldSegments is the field of the definition that is true if there may be segments. If it is not, reading does not look for
// segments, because without an index on them the server would read every bucket.
const fieldSegments = "segments"

// present puts the current definition into a plan: the longest span of a bucket in milliseconds, and whether there may be
// segments. The span may have grown since the series was opened. It never shrinks, so the current span is right for all buckets.
func (s *Series) present(ctx context.Context, p *plan) error {
	if s.current {
		p.span, p.segments = s.options.Span(), s.segments
		return nil
	}
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

// Name returns the name that the series was opened with.
func (s *Series) Name() string { return s.name }

// Options returns the definition of the time series at the time it was opened.
func (s *Series) Options() timeseries.Options { return s.options }

// minPath is the path of a bucket's minimum time, which is rounded down.
func (s *Series) minPath() string { return timeseries.MinPath(s.options.TimeField) }

// maxPath is the path of a bucket's maximum time.
func (s *Series) maxPath() string { return timeseries.MaxPath(s.options.TimeField) }

// Measurement is one measurement. Its Meta and Fields are valid until the iterator's next step.
type Measurement struct {
	// Time is in UTC, in whole milliseconds.
	Time time.Time
	// Meta is the identity of the series. Type 0 means that it has none, which is another series than null.
	Meta bson.RawValue
	// Fields is a document of all fields except time and meta.
	Fields bson.Raw
	// Source is the Kafka partition that the measurement came from, and Position its place there. The Offset is
	// timeseries.Unlisted if the bucket does not record it.
	Source   timeseries.Source
	Position timeseries.Position

	options *timeseries.Options
}

// Clone returns the measurement with bytes of its own.
func (m Measurement) Clone() Measurement {
	m.Meta.Value, m.Fields = bytes.Clone(m.Meta.Value), bytes.Clone(m.Fields)
	return m
}

// AppendDocument appends the measurement as one BSON document to dst, as the view shows it: time, meta, then the fields.
func (m Measurement) AppendDocument(dst []byte) []byte {
	if m.options == nil { // not from an iterator
		return append(dst, rawbson.Empty, 0, 0, 0, 0)
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = rawbson.AppendDate(dst, m.options.TimeField, m.Time.UnixMilli())
	if m.Meta.Type != 0 {
		dst = append(rawbson.AppendHeader(dst, m.Meta.Type, m.options.MetaField), m.Meta.Value...)
	}
	if len(m.Fields) > rawbson.Empty {
		dst = append(dst, rawbson.Content(m.Fields)...)
	}
	return rawbson.EndDocument(dst, start)
}

// Document returns the measurement as a new document: time, meta, then the fields, under the names they are stored under.
func (m Measurement) Document() bson.Raw { return m.AppendDocument(nil) }

// Decode fills v, a pointer to a struct or a map, from the Document. Struct fields are matched by their bson tags. Time and meta
// have the names under which they are stored.
func (m Measurement) Decode(v any) error {
	if err := bson.Unmarshal(m.Document(), v); err != nil {
		return fmt.Errorf("decoding the measurement of %s: %w", m.Time.Format(time.RFC3339Nano), err)
	}
	return nil
}
