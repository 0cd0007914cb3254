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

// appName names the connections in MongoDB's log, unless the URI sets a name.
const appName = "waterwheel"

// defaultSelection is how long to look for a server, unless the URI sets a time.
const defaultSelection = 10 * time.Second

// defaultConnect bounds opening a connection with its handshake, and the check of a server, unless the URI sets a time. A pool
// opens two connections at a time, so each answer lost in a handshake keeps one of them from waiting writes.
const defaultConnect = 10 * time.Second

// Options say where MongoDB is and how to write to it.
type Options struct {
	// URI is MONGODB_URI. Its write concern, read concern, read preference, retryWrites, timeoutMS and compressors are ignored.
	URI string
	// Database is the database's name.
	Database string
	// WriteTimeout bounds one write from its sending to its answer. Required.
	WriteTimeout time.Duration
	// AnswerTimeout bounds how long a read of a Collection waits for one answer at first. Each answer that does not come in time
	// doubles the bound, up to an hour. Zero means no bound.
	AnswerTimeout time.Duration
	// Lease reports whether bucket writes and claims may be sent now. It is called often and from many goroutines. Nil means
	// always, for programs that write no buckets.
	Lease func() bool
	// Logger takes the few lines about missing abilities of the server. Nil means slog.Default().
	Logger *slog.Logger
	// Stopped is called for each command that the connection stopped because the lease had expired. Nil means no call.
	Stopped func()
}

// Database is a connected MongoDB database. It is safe for concurrent use.
type Database struct {
	o       Options
	hosts   string // as the URI names them
	client  *mongo.Client
	dialer  *dialer
	db      *mongo.Database
	server  Server
	log     *slog.Logger
	silence silence
	// splits means that a server takes less in one command than our calls have, so the driver may split them.
	splits atomic.Bool
	// moves counts the writes that change shard keys.
	moves atomic.Int64
	// snapshotRefused is when a router last refused a query with Query.AtOnce, in Unix seconds. Zero means never.
	snapshotRefused atomic.Int64
}

// closeTimeout bounds closing the connections when the server did not answer as expected.
const closeTimeout = time.Second

// Open connects and finds out the kind of server. Its errors say what to do about an address without an answer, a wrong password,
// TLS on only one side, a member of a shard, or an invalid URI or database name. An *OutageError may pass by itself, because no
// server answers, none is the primary, or DNS does not know the name.
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

// clientOptions returns the URI's options with those that the protocol needs. A write is sent once and acknowledged by a
// majority. A read sees what a majority has.
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
	co.ReadConcern = nil // Database.greet chooses it
	co.Timeout = nil     // every write has its own deadline, and long reads may take their time
	co.Compressors = nil // the guard reads the messages
	return co, nil
}

// newDialer takes TLS out of the driver's options, because the dialer does it.
func newDialer(co *options.ClientOptions, o Options) *dialer {
	d := &dialer{
		tls:         co.TLSConfig,
		sendTimeout: o.WriteTimeout,
		guard:       guard{lease: o.Lease, stopped: o.Stopped},
		failed:      make(map[string]*dialError),
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

// greet learns about the server and chooses a read concern that it understands.
func (d *Database) greet(ctx context.Context) error {
	server, err := d.probe(ctx)
	if cleared := driver.RetryablePoolError(nil); errors.As(err, &cleared) {
		// The driver's own first connection failed meanwhile. A second attempt says more about the cause.
		server, err = d.probe(ctx)
	}
	if err != nil {
		return d.explain(err)
	}
	if server.Shard != "" {
		return fmt.Errorf("%s is a member of the shard %q. A write that bypasses mongos can be lost when a chunk moves: "+
			"name the routers (mongos) of the cluster in MONGODB_URI", d.hosts, server.Shard)
	}
	d.server = server
	concern := readconcern.Majority()
	if !server.Sessions {
		concern = nil
		d.log.Info("this MongoDB has no sessions (it is not a replica set) and does not order reads after writes: "+
			"waterwheel sends another write to confirm what it has read", "version", server.Version)
	}
	d.db = d.client.Database(d.o.Database, options.Database().SetReadConcern(concern))
	return nil
}

// Server returns what was found out about the server.
func (d *Database) Server() Server { return d.server }

// Name is the database's name.
func (d *Database) Name() string { return d.o.Database }

// WriteTimeout is Options.WriteTimeout.
func (d *Database) WriteTimeout() time.Duration { return d.o.WriteTimeout }

// Log returns the logger for lines about missing abilities of the server.
func (d *Database) Log() *slog.Logger { return d.log }

// Driver returns the database for readers, and for commands that no Collection has. Documents read there are known to a majority,
// if the server supports that. Pass its errors to Translate or Explain.
func (d *Database) Driver() *mongo.Database { return d.db }

// Explain adds the address and the cause to a reader's error when no server could be asked. It also names a missing right.
func (d *Database) Explain(err error) error {
	if answer := d.Translate(err); LacksRight(answer) {
		return Failure("reading measurements", answer)
	}
	return d.reached(err)
}

// Ping asks the primary for an answer.
func (d *Database) Ping(ctx context.Context) error {
	if err := d.client.Ping(ctx, readpref.Primary()); err != nil {
		return &OutageError{Operation: "pinging MongoDB", Err: d.reached(err)}
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

// Server is a server's description of itself.
type Server struct {
	// Version is for people only. Whether the server can do something is found out by trying.
	Version string
	// Sessions means that reads can be ordered after writes (a replica set or a sharded cluster, with sessions).
	Sessions bool
	// Sharded means that the server is a mongos.
	Sharded bool
	// Shard is the name of the shard that the server is a member of. It is empty if the server is none, or does not say so.
	Shard string
}

// greeting is a server's answer to hello.
type greeting struct {
	SetName        string    `bson:"setName"`
	Message        string    `bson:"msg"`
	SessionMinutes *int32    `bson:"logicalSessionTimeoutMinutes"`
	LocalTime      time.Time `bson:"localTime"`
}

func (d *Database) hello(ctx context.Context) (g greeting, err error) {
	err = d.ask(ctx, "hello", &g)
	if c, ok := errors.AsType[mongo.CommandError](err); ok && c.Code != 0 { // the older name
		err = d.ask(ctx, "isMaster", &g)
	}
	return g, err
}

// ask sends a command about the server and decodes the answer.
func (d *Database) ask(ctx context.Context, command string, answer any) error {
	return d.client.Database("admin").RunCommand(ctx, bson.D{{Key: command, Value: 1}}).Decode(answer)
}

// Clock returns the server's time at some moment between the call and its return.
func (d *Database) Clock(ctx context.Context) (time.Time, error) {
	g, err := d.hello(ctx)
	if err == nil && g.LocalTime.IsZero() {
		err = errors.New("the answer contains no time")
	}
	return g.LocalTime, Failure("reading the time of MongoDB", d.Translate(err))
}

// probe greets the server and asks for its version.
func (d *Database) probe(ctx context.Context) (Server, error) {
	g, err := d.hello(ctx)
	if err != nil {
		return Server{}, err
	}
	// Some servers have no buildInfo, or restrict it. The version is not important.
	var build struct {
		Version string `bson:"version"`
	}
	if err := d.ask(ctx, "buildInfo", &build); err != nil {
		build.Version = "unknown"
	}
	sharded := g.Message == "isdbgrid"
	shard, err := d.shard(ctx, g)
	if err != nil {
		return Server{}, err
	}
	return Server{
		Version:  build.Version,
		Sessions: g.SessionMinutes != nil && (g.SetName != "" || sharded),
		Sharded:  sharded,
		Shard:    shard,
	}, nil
}

// shard returns the name of the shard that the server is a member of. It is empty for other servers, and if the user may not ask.
func (d *Database) shard(ctx context.Context, g greeting) (string, error) {
	if g.SetName == "" {
		return "", nil
	}
	var state struct {
		Enabled bool   `bson:"enabled"`
		Shard   string `bson:"shardName"`
	}
	err := d.ask(ctx, "shardingState", &state)
	switch c, ok := errors.AsType[mongo.CommandError](err); {
	case ok && c.Code != 0: // the server does not know the command, or the user lacks the right
		return "", nil
	case err != nil || !state.Enabled:
		return "", err
	}
	return state.Shard, nil
}
