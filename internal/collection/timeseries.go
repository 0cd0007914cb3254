package collection

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// TimeSeries is a time series of a database, by its name: the handle of all that is done with its collections. They need not exist.
type TimeSeries struct {
	db   *mongodb.Database
	name string
}

// Of is the time series of a name.
func Of(db *mongodb.Database, name string) TimeSeries { return TimeSeries{db, name} }

// Names lists the names of the time series that have been set up in a database, in their order.
func Names(ctx context.Context, db *mongodb.Database) ([]string, error) {
	have, err := db.Driver().ListCollectionNames(ctx, bson.D{})
	if err != nil {
		return nil, mongodb.Failure("listing collections", db.Translate(err))
	}
	var names []string
	for _, name := range have {
		if series, ok := strings.CutSuffix(name, timeseries.OptionsSuffix); ok && slices.Contains(have, series+timeseries.BucketsSuffix) {
			names = append(names, series)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Settings say how a time series is set up, beside its options.
type Settings struct {
	// View is the kind of view that is made of measurements. Empty means ViewAuto.
	View ViewKind
	// Segments says whether the time series becomes one that has segments. Empty means SegmentsOff.
	Segments Segments
	// MetaPaths are the parts of the meta that queries ask for, as meta.sensor. What segments have of them is indexed.
	MetaPaths []string
}

func (s Settings) withDefaults() Settings {
	s.View, s.Segments = cmp.Or(s.View, ViewAuto), cmp.Or(s.Segments, SegmentsOff)
	return s
}

// Ports are the collections of a time series, and how to order reads after writes.
type Ports struct {
	Buckets, Options mongodb.Editable
	Partitions       mongodb.Collection
	// Session begins a causally consistent session. Nil means that the server has none.
	Session func() (mongodb.Session, error)
	// FenceShards orders what is read next after every write of a bucket executed before, on all shards. Nil means that a write of a
	// partition document does so.
	FenceShards func(ctx context.Context) error
	// Clock asks for the server's time.
	Clock func(ctx context.Context) (time.Time, error)
}

// Ports returns the ports of the time series.
func (t TimeSeries) Ports() Ports {
	p := Ports{
		Buckets: t.db.Collection(t.name + timeseries.BucketsSuffix), Partitions: t.db.Collection(t.name + timeseries.PartitionsSuffix),
		Options: t.db.Collection(t.name + timeseries.OptionsSuffix), Clock: t.db.Clock,
	}
	if t.db.Server().Sharded {
		p.FenceShards = func(ctx context.Context) error { return t.db.FenceShards(ctx, t.name+timeseries.BucketsSuffix) }
	}
	if t.db.Server().Sessions {
		p.Session = t.db.Session
	}
	return p
}

// Ready is a time series whose collections exist.
type Ready struct {
	Ports Ports
	// Namespace is database and name of the buckets' collection, for messages.
	Namespace string
	// Options are the normalised options of the time series.
	Options timeseries.Options
	// Segments means that what arrives for slow series is written into segments. HasSegments means that there may be some, which are
	// compacted in any case.
	Segments, HasSegments bool
	// Rollups reports that the time series has rollups: a claim begins a watermark.
	Rollups bool
	// BSONSize means that a query can ask for a document's size.
	BSONSize bool
	// SetsInTextOrder means that new fields of one $set are made in the order of their names' text, "10" before "9". MongoDB has
	// ordered numeric names by number since 5.0.
	SetsInTextOrder bool
	// Ignored are the settings that do not hold.
	Ignored []Ignored
}

// series is a time series that is set up, or looked at.
type series struct {
	TimeSeries
	settings Settings
	options  timeseries.Options
	ports    Ports
	// segments means that the definition says that it has segments. shown means that its view shows what is to be shown of them. blind
	// means that its view knows nothing of them. filling means that new ones are written.
	segments, shown, blind, filling bool
	// view is the kind of the view that was arranged. Empty means that none was.
	view ViewKind
	// textOrder is Ready.SetsInTextOrder.
	textOrder bool
	// ignored is Ready.Ignored.
	ignored []Ignored
	// rollupOf is the time series of which this one is to hold totals. Empty means that it is to hold measurements.
	rollupOf string
}

func (t TimeSeries) series() *series { return &series{TimeSeries: t, ports: t.Ports()} }

// driver is the database for what no port does.
func (t TimeSeries) driver() *mongo.Database { return t.db.Driver() }

func (s *series) namespace() string { return s.db.Name() + "." + s.name }

func (s *series) buckets() *mongo.Collection {
	return s.driver().Collection(s.name + timeseries.BucketsSuffix)
}
