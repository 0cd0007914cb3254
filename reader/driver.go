package reader

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// server implements port with a real server.
type server struct {
	buckets    *mongo.Collection
	partitions *mongo.Collection
	options    *mongo.Collection
	// majority means that reads have read concern majority.
	majority bool
	// sharded reports that the server is a router of a sharded cluster.
	sharded bool
	// noHint means that the server refused the hint once and answered without it.
	noHint atomic.Bool
}

// newServer uses read concern majority if the server supports it (a replica set or a sharded cluster). The read preference is the
// client's.
func newServer(ctx context.Context, db *mongo.Database, name string) *server {
	g, err := greet(ctx, db)
	return serverOf(db, name, err != nil || g.hasMajority(), g.Message == isRouter)
}

func serverOf(db *mongo.Database, name string, majority, sharded bool) *server {
	o := options.Collection()
	if majority {
		o.SetReadConcern(readconcern.Majority())
	}
	return &server{
		buckets:    db.Collection(name+timeseries.BucketsSuffix, o),
		partitions: db.Collection(name+timeseries.PartitionsSuffix, o),
		options:    db.Collection(name+timeseries.OptionsSuffix, o),
		majority:   majority,
		sharded:    sharded,
	}
}

// sibling returns the same server for another time series of the database.
func (s *server) sibling(name string) *server {
	return serverOf(s.buckets.Database(), name, s.majority, s.sharded)
}

func (s *server) definition(ctx context.Context) (bson.Raw, error) {
	return s.option(ctx, timeseries.DefinitionID)
}

func (s *server) rollups(ctx context.Context) (bson.Raw, error) {
	return s.option(ctx, rollup.DefinitionID)
}

// option returns one document of the options collection. It is nil if there is none.
func (s *server) option(ctx context.Context, id string) (bson.Raw, error) {
	raw, err := s.options.FindOne(ctx, bson.D{{Key: timeseries.FieldID, Value: id}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	return raw, err
}

// greeting is the server's answer to hello.
type greeting struct {
	SetName        string    `bson:"setName"`
	Message        string    `bson:"msg"`
	SessionMinutes *int32    `bson:"logicalSessionTimeoutMinutes"`
	LocalTime      time.Time `bson:"localTime"`
}

// isRouter is the message of a router of a sharded cluster.
const isRouter = "isdbgrid"

// hasMajority reports whether the server supports read concern majority. If the server does not answer hello, newServer uses
// majority too, and the first read then reports the error.
func (g greeting) hasMajority() bool {
	return g.SessionMinutes != nil && (g.SetName != "" || g.Message == isRouter)
}

// greet asks the primary, or a secondary where there is none.
func greet(ctx context.Context, db *mongo.Database) (g greeting, err error) {
	admin, anyone := db.Client().Database("admin"), options.RunCmd().SetReadPreference(readpref.PrimaryPreferred())
	err = admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}, anyone).Decode(&g)
	if _, ok := errors.AsType[mongo.CommandError](err); ok { // the older name
		err = admin.RunCommand(ctx, bson.D{{Key: "isMaster", Value: 1}}, anyone).Decode(&g)
	}
	return g, err
}

func (s *server) skips() bool { return !s.sharded }

func (s *server) now(ctx context.Context) (time.Time, error) {
	g, err := greet(ctx, s.buckets.Database())
	if err == nil && g.LocalTime.IsZero() {
		return time.Now(), nil // the server does not report its time
	}
	return g.LocalTime, err
}

func (s *server) find(ctx context.Context, r request) (documents, error) {
	hinted := r.hint != nil && !s.noHint.Load()
	answer, err := s.query(ctx, r, hinted)
	if _, ok := errors.AsType[mongo.CommandError](err); hinted && ok && !transient(err) { // the index may not be there
		if answer, again := s.query(ctx, r, false); again == nil {
			s.noHint.Store(true)
			return answer, nil
		}
	}
	return answer, err
}

func (s *server) query(ctx context.Context, r request, hinted bool) (documents, error) {
	o := options.Find().SetLimit(r.limit)
	if r.batch > 0 {
		o.SetBatchSize(r.batch)
	}
	if r.projection != nil {
		o.SetProjection(r.projection)
	}
	if r.sort != nil {
		o.SetSort(r.sort)
	}
	if hinted {
		o.SetHint(r.hint)
	}
	c, err := s.buckets.Find(ctx, r.filter, o)
	return answerOf(c, err)
}

func (s *server) aggregate(ctx context.Context, pipeline bson.A) (documents, error) {
	c, err := s.buckets.Aggregate(ctx, pipeline, options.Aggregate().SetAllowDiskUse(true))
	return answerOf(c, err)
}

// These codes mean that the server has no explain command, or cannot explain such a command.
const (
	codeCommandNotFound     = 59
	codeCommandNotSupported = 115
	codeNotImplemented      = 238
)

func (s *server) explainFind(ctx context.Context, r request) (bson.Raw, error) {
	command := bson.D{{Key: "find", Value: s.buckets.Name()}, {Key: "filter", Value: r.filter}}
	for _, o := range []struct {
		name  string
		value bson.D
	}{{"projection", r.projection}, {"sort", r.sort}, {"hint", r.hint}} {
		if o.value != nil && (o.name != "hint" || !s.noHint.Load()) {
			command = append(command, bson.E{Key: o.name, Value: o.value})
		}
	}
	return s.explain(ctx, command)
}

func (s *server) explainAggregate(ctx context.Context, pipeline bson.A) (bson.Raw, error) {
	return s.explain(ctx, bson.D{
		{Key: "aggregate", Value: s.buckets.Name()},
		{Key: "pipeline", Value: pipeline},
		{Key: "cursor", Value: bson.D{}},
		{Key: "allowDiskUse", Value: true},
	})
}

func (s *server) explain(ctx context.Context, command bson.D) (bson.Raw, error) {
	answer, err := s.buckets.Database().RunCommand(ctx, bson.D{{Key: "explain", Value: command}, {Key: "verbosity", Value: "executionStats"}}).Raw()
	refused := mongo.CommandError{}
	if errors.As(err, &refused) && (refused.Code == codeCommandNotFound || refused.Code == codeCommandNotSupported || refused.Code == codeNotImplemented) {
		return nil, fmt.Errorf("%w: %w", ErrNoExplain, err)
	}
	return answer, err
}

func (s *server) sources(ctx context.Context) (documents, error) {
	c, err := s.partitions.Find(ctx, bson.D{})
	return answerOf(c, err)
}

// answerOf returns a nil interface for a nil cursor.
func answerOf(c *mongo.Cursor, err error) (documents, error) {
	if err != nil {
		return nil, err
	}
	return answer{c}, nil
}

// answer implements documents with a cursor of the driver.
type answer struct{ *mongo.Cursor }

// Document is the cursor's current document.
func (a answer) Document() bson.Raw { return a.Current }
