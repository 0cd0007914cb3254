package mongodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/ocsp"

	"waterwheel/internal/timeseries"
)

// appName is how connections are named in MongoDB's log, unless the URI says otherwise.
const appName = "waterwheel"

// defaultSelection is how long to look for a server, unless the URI says otherwise.
const defaultSelection = 10 * time.Second

// defaultConnect is how long a connection may take to come about, with its handshake, and the check of a server, unless the URI says
// otherwise. A pool makes two connections at a time: each answer lost in a handshake keeps one of them from the writes that wait.
const defaultConnect = 10 * time.Second

// Options say where MongoDB is and how to write to it.
type Options struct {
	// URI is MONGODB_URI. Its write concern, read concern, read preference, retryWrites, timeoutMS and
	// compressors are not used.
	URI string
	// Database is the database's name. Empty means the URI's.
	Database string
	// WriteTimeout bounds one write from its sending to its answer. Required.
	WriteTimeout time.Duration
	// AnswerTimeout bounds how long a read of a Collection waits for one answer at first. Each answer that does not come in time doubles
	// it, to an hour at most. Zero means that a read takes as long as it takes.
	AnswerTimeout time.Duration
	// Lease reports whether bucket writes and claims may be sent now; it is asked often and from many goroutines. Nil
	// means always, for programs that write no buckets.
	Lease func() bool
	// Logger takes the few lines about what the server cannot do. Nil means slog.Default().
	Logger *slog.Logger
	// Stopped is called for a command that was stopped inside the connection because the lease had lapsed. Nil means that nobody counts.
	Stopped func()
}

// Database is a MongoDB database, connected to. It is safe for concurrent use.
type Database struct {
	o       Options
	hosts   string // as the URI names them
	client  *mongo.Client
	dialer  *dialer
	db      *mongo.Database
	server  Server
	log     *slog.Logger
	silence silence
	// splits means that a server takes less in one command than our calls have, so that the driver may split them.
	splits atomic.Bool
	// moves counts the writes that change shard keys.
	moves atomic.Int64
}

// closeTimeout bounds closing the connections to a server that did not answer as it should.
const closeTimeout = time.Second

// Open connects, and finds out what kind of server answers. The errors say what to do about an address nobody answers at,
// a wrong password, TLS on one side only, a URI or a database name that cannot be. An *OutageError may pass by itself: nobody
// answers, no server is the primary, or its name is not known.
func Open(ctx context.Context, o Options) (*Database, error) {
	co, err := clientOptions(o.URI)
	if err != nil {
		return nil, err
	}
	if err := timeseries.CheckDatabaseName(o.Database); err != nil {
		return nil, fmt.Errorf("the database name %q %w; choose another MONGODB_DATABASE", o.Database, err)
	}
	d := &Database{o: o, hosts: strings.Join(co.Hosts, ","), log: cmp.Or(o.Logger, slog.Default())}
	d.silence.first = o.AnswerTimeout
	d.dialer = newDialer(co, o)
	co.SetServerMonitor(d.limitsMonitor())
	if d.client, err = mongo.Connect(co); err != nil {
		return nil, unreadableURI(err, o.URI)
	}
	if err := d.greet(ctx); err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = d.Close(closing) // nothing was sent that matters
		return nil, err
	}
	return d, nil
}

// clientOptions are the URI's, except for what the protocol needs: a write is sent once and acknowledged by a majority, and a read
// sees what a majority has.
func clientOptions(uri string) (*options.ClientOptions, error) {
	co := options.Client().ApplyURI(uri)
	if err := co.Validate(); err != nil {
		return nil, unreadableURI(err, uri)
	}
	if co.AppName == nil {
		co.SetAppName(appName)
	}
	if co.ServerSelectionTimeout == nil {
		co.SetServerSelectionTimeout(defaultSelection)
	}
	if co.ConnectTimeout == nil {
		co.SetConnectTimeout(defaultConnect)
	}
	co.SetReadPreference(readpref.Primary())
	co.SetWriteConcern(&writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: new(true)})
	co.SetRetryWrites(false)
	co.SetMaxAdaptiveRetries(0)
	co.ReadConcern = nil // chosen by what the server can do
	co.Timeout = nil     // every write has its own deadline, and long reads may take their time
	co.Compressors = nil // the guard reads the messages
	return co, nil
}

// newDialer takes TLS out of the driver's options: the dialer does it.
func newDialer(co *options.ClientOptions, o Options) *dialer {
	d := &dialer{
		tls:         co.TLSConfig,
		sendTimeout: o.WriteTimeout,
		guard:       guard{lease: o.Lease, stopped: o.Stopped},
		failed:      make(map[string]error),
	}
	if co.DisableCertificateRevocationCheck == nil || !*co.DisableCertificateRevocationCheck {
		d.revocation = &ocsp.VerifyOptions{
			Cache:                   ocsp.NewCache(),
			DisableEndpointChecking: co.DisableOCSPEndpointCheck != nil && *co.DisableOCSPEndpointCheck,
			HTTPClient:              co.HTTPClient,
		}
	}
	co.TLSConfig = nil
	co.SetDialer(d)
	return d
}

// greet learns about the server and chooses the read concern it understands.
func (d *Database) greet(ctx context.Context) error {
	server, err := d.probe(ctx)
	if cleared := driver.RetryablePoolError(nil); errors.As(err, &cleared) {
		// The driver's own first connection failed meanwhile, which says less about why than one that is asked for.
		server, err = d.probe(ctx)
	}
	if err != nil {
		return d.explain(err)
	}
	d.server = server
	concern := readconcern.Majority()
	if !server.Sessions {
		concern = nil
		d.log.Info("this MongoDB has no sessions (it is not a replica set): it does not order reads after writes, "+
			"so a read-back counts only once another write is acknowledged", "version", server.Version)
	}
	d.db = d.client.Database(d.o.Database, options.Database().SetReadConcern(concern))
	return nil
}

// Server is what was found out about the server.
func (d *Database) Server() Server { return d.server }

// Name is the database's name.
func (d *Database) Name() string { return d.o.Database }

// WriteTimeout is that of the Options.
func (d *Database) WriteTimeout() time.Duration { return d.o.WriteTimeout }

// Log takes the few lines about what the server cannot do.
func (d *Database) Log() *slog.Logger { return d.log }

// Driver is the database for readers, and for commands that no Collection has. A majority has seen the documents read there, where the
// server can tell. Its errors go through Translate or Explain.
func (d *Database) Driver() *mongo.Database { return d.db }

// Explain gives an error of a reader the address and the cause, where there was nobody to ask, and names a missing right.
func (d *Database) Explain(err error) error {
	if answer := d.Translate(err); LacksRight(answer) {
		return Failure("reading measurements", answer)
	}
	return d.reached(err)
}

// Ping asks the primary for a sign of life.
func (d *Database) Ping(ctx context.Context) error {
	if err := d.client.Ping(ctx, readpref.Primary()); err != nil {
		return &OutageError{Doing: "asking MongoDB for a sign of life", Err: d.reached(err)}
	}
	return nil
}

// Close closes all connections.
func (d *Database) Close(ctx context.Context) error {
	if err := d.client.Disconnect(ctx); err != nil {
		return fmt.Errorf("closing the connections to MongoDB: %w", err)
	}
	return nil
}

// Server is what a server says of itself.
type Server struct {
	// Version is for people: whether it can do something is found out by trying.
	Version string
	// Sessions means that reads can be ordered after writes (a replica set or a sharded cluster, with sessions).
	Sessions bool
	// Sharded means that it is a mongos.
	Sharded bool
}

// greeting is what a server answers to hello.
type greeting struct {
	SetName        string    `bson:"setName"`
	Message        string    `bson:"msg"`
	SessionMinutes *int32    `bson:"logicalSessionTimeoutMinutes"`
	LocalTime      time.Time `bson:"localTime"`
}

func (d *Database) hello(ctx context.Context) (g greeting, err error) {
	admin := d.client.Database("admin")
	err = admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&g)
	if c, ok := errors.AsType[mongo.CommandError](err); ok && c.Code != 0 { // the older name
		err = admin.RunCommand(ctx, bson.D{{Key: "isMaster", Value: 1}}).Decode(&g)
	}
	return g, err
}

// Clock is the server's time at some moment between the call and its return.
func (d *Database) Clock(ctx context.Context) (time.Time, error) {
	g, err := d.hello(ctx)
	if err == nil && g.LocalTime.IsZero() {
		err = errors.New("the answer has none")
	}
	return g.LocalTime, Failure("asking MongoDB for its time", d.Translate(err))
}

// probe greets the server and asks for its version.
func (d *Database) probe(ctx context.Context) (Server, error) {
	g, err := d.hello(ctx)
	if err != nil {
		return Server{}, err
	}
	// Some servers have no buildInfo, or guard it: the version is of no importance.
	var build struct {
		Version string `bson:"version"`
	}
	if err := d.client.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		build.Version = "unknown"
	}
	sharded := g.Message == "isdbgrid"
	return Server{
		Version:  build.Version,
		Sessions: g.SessionMinutes != nil && (g.SetName != "" || sharded),
		Sharded:  sharded,
	}, nil
}
