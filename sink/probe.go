package sink

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
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
	return g.LocalTime, failure("asking MongoDB for its time", d.Translate(err))
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
