package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/auth"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/description"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

// Server is what a server says of itself.
type Server struct {
	// Version is for people: whether it can do something is found out by trying.
	Version string
	// Sessions: reads can be ordered after writes (a replica set or a sharded cluster, with sessions).
	Sessions bool
	// Sharded: it is a mongos.
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
	if c := (mongo.CommandError{}); errors.As(err, &c) && c.Code != 0 { // the older name
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
	return g.LocalTime, failure("asking MongoDB for its time", d.portError(err))
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

// explain says what to do about a server that could not be greeted.
func (d *Database) explain(err error) error {
	hosts, tlsFailed := d.dialer.failures()
	var (
		refused   *auth.Error
		selection topology.ServerSelectionError
		command   mongo.CommandError
	)
	all := err
	if errors.As(err, &selection) { // why each server could not be chosen
		for _, server := range selection.Desc.Servers {
			all = errors.Join(all, server.LastError)
		}
	}
	switch {
	case errors.As(all, &refused):
		return fmt.Errorf("MongoDB refuses the user name or password of MONGODB_URI (is authSource the database in which the user was created?): %s",
			redact(refused.Error(), d.o.URI))
	case tlsFailed:
		return fmt.Errorf("TLS with MongoDB fails: %s: does the server speak TLS (if not, remove tls=true from MONGODB_URI), is its "+
			"certificate issued for this host name, does tlsCAFile name its CA?", hosts)
	case hosts != "":
		return fmt.Errorf("MongoDB is not reachable: %s: is it running, is the address in MONGODB_URI right, does a firewall block it?",
			hosts)
	case errors.As(err, &selection):
		return d.unchosen(selection.Desc)
	case errors.As(err, &command) && command.Code == codeUnauthorized:
		return fmt.Errorf("MongoDB requires a login: add user:password@ to MONGODB_URI: %s", command.Message)
	}
	return fmt.Errorf("greeting MongoDB: %s", redact(err.Error(), d.o.URI))
}

// unchosen says what to do where servers can be connected to and none was chosen.
func (d *Database) unchosen(t description.Topology) error {
	states := serverStates(t)
	switch heard := heardFrom(t); {
	case heard == heardNothing && d.dialer.tls != nil:
		return fmt.Errorf("MongoDB does not answer: %s: a connection opens, but nothing comes back: does the server speak TLS (if not, "+
			"remove tls=true from MONGODB_URI), is this MongoDB's port, does the server hang?", states)
	case heard == heardNothing:
		return fmt.Errorf("MongoDB does not answer: %s: a connection opens, but nothing comes back: is this MongoDB's port, does the server "+
			"hang, does something in between block it?", states)
	case heard == heardEnd:
		return fmt.Errorf("the server hangs up at once: %s: does it require TLS (then add tls=true to MONGODB_URI), is this MongoDB's port?", states)
	case heard == heardEither:
		return fmt.Errorf("MongoDB does not answer: %s: a connection opens, but nothing comes back, or the server hangs up at once: does it "+
			"require TLS (then add tls=true to MONGODB_URI), is this MongoDB's port, does the server hang?", states)
	}
	return fmt.Errorf("MongoDB answers, but not as a primary: %s: is an election going on, is the replica set initiated, and its "+
		"replicaSet name in MONGODB_URI right; or does the server require TLS (tls=true)?", states)
}
