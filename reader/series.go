package reader

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/timeseries"
)

// Series is a time series to read from: all that one consumer's collection holds. It is safe for concurrent use.
type Series struct {
	name      string
	namespace string // of its buckets
	options   timeseries.Options
	port      port
}

// Open reads the definition of a time series; name is the consumer's MONGODB_COLLECTION, without suffix. ErrNotSetUp: there is
// none. The database, with its client, stays the caller's; its read preference is used, and reads see what a majority has on
// servers that can tell.
//
// A bucketing that is changed later only gets larger: Open again to see what buckets of it hold.
func Open(ctx context.Context, db *mongo.Database, name string) (*Series, error) {
	server, definition := newServer(ctx, db, name)
	raw, err := definition.FindOne(ctx, bson.D{{Key: timeseries.FieldID, Value: timeseries.DefinitionID}}).Raw()
	where := db.Name() + "." + name
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, fmt.Errorf("opening %s: %w", where, ErrNotSetUp)
	case err != nil:
		return nil, fmt.Errorf("opening %s: reading %s: %w", where, definition.Name(), err)
	}
	d, err := timeseries.ReadDefinition(raw)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", where, err)
	}
	return newSeries(name, where+timeseries.BucketsSuffix, d.Options, server), nil
}

func newSeries(name, namespace string, o timeseries.Options, p port) *Series {
	return &Series{name: name, namespace: namespace, options: o, port: p}
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
