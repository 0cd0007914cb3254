package reader

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// port are the operations that reading needs from a server. Its errors are the driver's. It is safe for concurrent use.
type port interface {
	// definition returns the document that defines the time series. It is nil if there is none.
	definition(ctx context.Context) (bson.Raw, error)
	// rollups returns the document that lists the rollups of the time series. It is nil if there are none.
	rollups(ctx context.Context) (bson.Raw, error)
	// now returns the server's time.
	now(ctx context.Context) (time.Time, error)
	// find queries the collection of buckets.
	find(ctx context.Context, r request) (documents, error)
	// aggregate runs a pipeline on the buckets.
	aggregate(ctx context.Context, pipeline bson.A) (documents, error)
	// explainFind and explainAggregate return the answers of explain, with executionStats, for the same commands. The error is
	// ErrNoExplain if the server has no such command.
	explainFind(ctx context.Context, r request) (bson.Raw, error)
	explainAggregate(ctx context.Context, pipeline bson.A) (bson.Raw, error)
	// skips reports whether $sort and $group with $first take only one key of each series from an index. On a sharded cluster
	// they do not: the router groups, and its shards send it every key.
	skips() bool
	// sources returns the partition documents of the time series.
	sources(ctx context.Context) (documents, error)
}

// documents is a cursor over the answers to a query.
type documents interface {
	// Next fetches a document. False means that there are no more, or that Err is set.
	Next(ctx context.Context) bool
	// Document returns the current document. It is valid until Next.
	Document() bson.Raw
	Err() error
	Close(ctx context.Context) error
}

// request is a query on buckets. A nil field is left out.
type request struct {
	filter     bson.D
	projection bson.D
	sort       bson.D
	hint       bson.D // keys of the index to use, if it exists
	limit      int64  // Zero means all.
	batch      int32  // most documents in an answer of the server. Zero means that the server decides.
}

// each calls use for every document of an answer, and closes the answer at the end.
func each(ctx context.Context, answer documents, err error, use func(bson.Raw) error) error {
	if err != nil {
		return err
	}
	defer answer.Close(context.WithoutCancel(ctx))
	for answer.Next(ctx) {
		if err := use(answer.Document()); err != nil {
			return err
		}
	}
	return answer.Err()
}

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

// ability is something that not every server does. The server is tried until its answer is known.
type ability struct{ answer atomic.Pointer[bool] }

// tried reports whether the server has the ability. try tries it on the server, and need not know the answer. Nobody waits for
// another's try.
func (a *ability) tried(try func() (has, known bool)) bool {
	if has := a.answer.Load(); has != nil {
		return *has
	}
	has, known := try()
	if known {
		a.answer.Store(&has)
	}
	return has && known
}

// ordersMetas reports whether the server orders values as groups are ordered. It has the server sort some values. That also
// reveals a collation of the collection.
func (s *Series) ordersMetas(ctx context.Context) bool {
	return s.orders.tried(func() (has, known bool) {
		var sorted []bson.RawValue
		known = s.probe(ctx, ordering(), func(d bson.Raw) { sorted = append(sorted, timeseries.Clone(metaOf(d))) })
		return len(sorted) == len(metasToOrder) && slices.IsSortedFunc(sorted, timeseries.Compare), known
	})
}

// comparesBits reports whether the server compares bits in the way that the conditions of a timeseries.Bloom need.
func (s *Series) comparesBits(ctx context.Context) bool {
	return s.bits.tried(func() (has, known bool) {
		var found []string
		known = s.probe(ctx, bitComparison(), func(d bson.Raw) {
			name, _ := d.Lookup(timeseries.FieldMeta, "name").StringValueOK()
			found = append(found, name)
		})
		return slices.Equal(found, []string{"set", "absent"}), known
	})
}

// probe runs a pipeline that has answers if there is a bucket. It reports whether these show what the server does. A refusal also
// shows it.
func (s *Series) probe(ctx context.Context, pipeline bson.A, use func(bson.Raw)) (known bool) {
	answers := 0
	answer, err := s.port.aggregate(ctx, pipeline)
	err = each(ctx, answer, err, func(d bson.Raw) error {
		answers++
		use(d)
		return nil
	})
	return err == nil && answers > 0 || refuses(err)
}

// metasToOrder are metas of several kinds, in no sorted order.
var metasToOrder = bson.A{
	bson.D{{Key: "a", Value: int32(10)}},
	bson.D{{Key: "a", Value: "b"}, {Key: "c", Value: int32(1)}},
	bson.D{{Key: "b", Value: int32(1)}},
	"b", "B", "a", "10", "9", int32(10), "\u00e9", "e\u0301",
	bson.D{{Key: "a", Value: 9.5}},
	int64(9), 9.5,
	bson.D{{Key: "a", Value: "b"}},
	bson.D{{Key: "a", Value: "B"}},
	true, false, bson.DateTime(1),
	bson.D{},
}

// ordering is the pipeline that sorts metasToOrder.
func ordering() bson.A {
	return append(unwinding(metasToOrder), bson.D{{Key: "$sort", Value: bson.D{{Key: timeseries.FieldMeta, Value: 1}}}})
}

// bitComparison is a pipeline with the condition of a timeseries.Bloom. It finds two of three values.
func bitComparison() bson.A {
	value := func(name string, bits ...byte) bson.D {
		return bson.D{{Key: "name", Value: name}, {Key: "bits", Value: bson.Binary{Data: bits}}}
	}
	path := timeseries.Path(timeseries.FieldMeta, "bits")
	return append(
		unwinding(bson.A{value("set", 0x81, 0x01), value("clear", 0x81, 0x02), bson.D{{Key: "name", Value: "absent"}}}),
		bson.D{{Key: "$match", Value: bson.D{{Key: path, Value: timeseries.HasBits([]int32{0, 7, 8})}}}},
	)
}

// unwinding is a pipeline with an answer for each value, as its meta, if there is a bucket.
func unwinding(values bson.A) bson.A {
	return bson.A{
		bson.D{{Key: "$limit", Value: 1}},
		bson.D{{Key: "$project", Value: bson.D{{Key: timeseries.FieldMeta, Value: bson.D{{Key: "$literal", Value: values}}}}}},
		bson.D{{Key: "$unwind", Value: "$" + timeseries.FieldMeta}},
	}
}
