package collection

import (
	"cmp"
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// TimeSeries is the handle of a time series in a database, by its name. Its collections need not exist.
type TimeSeries struct {
	db   *mongodb.Database
	name string
}

// Of returns the time series of a name.
func Of(db *mongodb.Database, name string) TimeSeries { return TimeSeries{db, name} }

// Names lists the time series that have been set up in a database, sorted.
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

// Settings say how to set up a time series, beside its options.
type Settings struct {
	// View is the wanted kind of view. Empty means ViewAuto.
	View ViewKind
	// Segments says whether to begin segments in the time series. Empty means SegmentsOff.
	Segments Segments
	// MetaPaths are the parts of the meta that queries filter by, such as meta.sensor. Their bounds in segments are indexed.
	MetaPaths []string
}

func (s Settings) withDefaults() Settings {
	s.View, s.Segments = cmp.Or(s.View, ViewAuto), cmp.Or(s.Segments, SegmentsOff)
	return s
}

// Ports are the collections of a time series, with what orders reads after writes.
type Ports struct {
	Buckets, Options mongodb.Editable
	Partitions       mongodb.Collection
	// Session begins a causally consistent session. Nil means that the server has none.
	Session func() (mongodb.Session, error)
	// FenceShards orders later reads after every earlier write of a bucket, on all shards. Nil means that a write of a partition
	// document does so.
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
	// Segments means that measurements of slow series are written into segments. HasSegments means that segments may exist. They
	// are compacted in any case.
	Segments, HasSegments bool
	// Rollups means that the time series has rollups, so a claim begins a watermark.
	Rollups bool
	// BSONSize means that a query can ask for a document's size.
	BSONSize bool
	// SetsInTextOrder means that the server makes new fields of one $set in the text order of their names, "10" before "9".
	// MongoDB orders numeric names by number since 5.0.
	SetsInTextOrder bool
	// Ignored are the settings without effect.
	Ignored []Ignored
}

// series is a time series during a set-up or an inspection.
type series struct {
	TimeSeries
	settings Settings
	options  timeseries.Options
	ports    Ports
	// segments means that the definition notes segments. shown means that the view shows segments. blind means that the view does
	// not know them, so it shows measurements twice. filling means that new segments are written.
	segments, shown, blind, filling bool
	// view is the kind of the arranged view. Empty means that none was arranged.
	view ViewKind
	// textOrder is Ready.SetsInTextOrder.
	textOrder bool
	// ignored is Ready.Ignored.
	ignored []Ignored
	// rollupOf is the time series whose totals this one should hold. Empty means that it should hold measurements.
	rollupOf string
}

func (t TimeSeries) series() *series { return &series{TimeSeries: t, ports: t.Ports()} }

// log returns the logger for lines about the time series.
func (t TimeSeries) log() *slog.Logger { return t.db.Log().With("collection", t.namespace()) }

// driver returns the database for commands that no port has.
func (t TimeSeries) driver() *mongo.Database { return t.db.Driver() }

// admin returns the database of commands about servers and clusters.
func (t TimeSeries) admin() *mongo.Database { return t.driver().Client().Database("admin") }

func (t TimeSeries) namespace() string { return t.db.Name() + "." + t.name }

func (t TimeSeries) bucketsNamespace() string { return t.namespace() + timeseries.BucketsSuffix }

func (s *series) buckets() *mongo.Collection {
	return s.driver().Collection(s.name + timeseries.BucketsSuffix)
}

// creation finds the compressor in WiredTiger's description of a table.
var creation = regexp.MustCompile(`(?:^|,)block_compressor=([a-z0-9]*)`)

// compressorOf returns WiredTiger's compressor from the statistics of a collection. On a sharded cluster it may return several.
// Empty means that the server does not tell.
func compressorOf(stats bson.Raw) string {
	var found []string
	add := func(stats bson.Raw) {
		words, _ := stats.Lookup("wiredTiger", "creationString").StringValueOK()
		if match := creation.FindStringSubmatch(words); match != nil {
			name := match[1]
			if name == "" {
				name = "none"
			}
			found = append(found, name)
		}
	}
	add(stats)
	if shards, ok := stats.Lookup("shards").DocumentOK(); ok {
		values, _ := shards.Values()
		for _, v := range values {
			if shard, ok := v.DocumentOK(); ok {
				add(shard)
			}
		}
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), ", ")
}

// Size is the server's statistics about the buckets and segments of a time series.
type Size struct {
	Documents    int64 `json:"documents"`    // buckets and segments
	Bytes        int64 `json:"bytes"`        // of all documents, uncompressed
	StorageBytes int64 `json:"storageBytes"` // on disk
	IndexBytes   int64 `json:"indexBytes"`
	// Compressor is WiredTiger's compressor of the buckets: "zstd", "snappy", "zlib", "none", or several on a sharded cluster.
	// Empty means that the server does not tell.
	Compressor string `json:"compressor,omitempty"`
}

// Size asks the server how large the buckets of the time series are. It reads no bucket.
func (t TimeSeries) Size(ctx context.Context) (Size, error) {
	raw, err := t.driver().RunCommand(ctx, bson.D{{Key: "collStats", Value: t.name + timeseries.BucketsSuffix}}).Raw()
	if err != nil {
		return Size{}, mongodb.Failure("reading the size of "+t.name, t.db.Translate(err))
	}
	number := func(key string) int64 {
		n, _ := raw.Lookup(key).AsInt64OK()
		return n
	}
	return Size{
		Documents: number("count"), Bytes: number("size"), StorageBytes: number("storageSize"), IndexBytes: number("totalIndexSize"),
		Compressor: compressorOf(raw),
	}, nil
}

// allOf returns a function that reads a cursor to its end.
func allOf[T any](ctx context.Context) func(*mongo.Cursor, error) ([]T, error) {
	return func(cursor *mongo.Cursor, err error) (all []T, _ error) {
		if err == nil {
			err = cursor.All(ctx, &all)
		}
		return all, err
	}
}
