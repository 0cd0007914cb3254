package sink_test

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/sink"
)

// closedPort is an address that nobody listens at.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestOpenSaysWhatToDo(t *testing.T) {
	plain := newFake(t, nil)
	login := newFake(t, bson.D{{Key: "saslSupportedMechs", Value: bson.A{"SCRAM-SHA-256"}}})
	login.answer("saslStart", failing(18, "Authentication failed."))
	required := newFake(t, nil)
	required.answer("hello", failing(13, "command hello requires authentication"))
	const quick = "serverSelectionTimeoutMS=300&connectTimeoutMS=300"
	for name, c := range map[string]struct {
		uri, database string
		want          []string
	}{
		"nobody there":      {"mongodb://" + closedPort(t) + "/db?" + quick, "", []string{"not reachable", "connection refused", "MONGODB_URI"}},
		"unknown host":      {"mongodb://no-such-host.invalid/db?" + quick, "", []string{"not reachable", "no-such-host.invalid"}},
		"wrong password":    {"mongodb://user:s3cret@" + login.Addr().String() + "/db?directConnection=true&" + quick, "", []string{"password", "authSource"}},
		"no TLS there":      {"mongodb://" + plain.Addr().String() + "/db?tls=true&directConnection=true&" + quick, "", []string{"TLS", "tls=true"}},
		"no scheme":         {"localhost:27017", "", []string{"MONGODB_URI", "mongodb://"}},
		"a bad option":      {"mongodb://user:s3cret@h/db?maxPoolSize=x", "", []string{"MONGODB_URI", "maxPoolSize"}},
		"no database":       {"mongodb://" + plain.Addr().String(), "", []string{"MONGODB_DATABASE"}},
		"a bad database":    {"mongodb://" + plain.Addr().String(), "a.b", []string{"MONGODB_DATABASE", "a.b"}},
		"not a replica set": {"mongodb://" + plain.Addr().String() + "/db?replicaSet=rs&" + quick, "", []string{"not as a primary", "replicaSet"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := sink.Open(t.Context(), sink.Options{URI: c.uri, Database: c.database, WriteTimeout: time.Second})
			if err == nil {
				d.Close(t.Context())
				t.Fatal("it opened")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the password is in: %v", err)
			}
		})
	}
}

func TestOpenWithoutTLSWhereItIsNeeded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = tls.Server(conn, &tls.Config{}).Handshake() // it cannot succeed
			conn.Close()
		}
	}()
	defer func() { listener.Close(); <-served }()
	uri := "mongodb://" + listener.Addr().String() + "/db?directConnection=true&serverSelectionTimeoutMS=300"
	if _, err := sink.Open(t.Context(), sink.Options{URI: uri, WriteTimeout: time.Second}); err == nil || !strings.Contains(err.Error(), "tls=true") {
		t.Errorf("%v", err)
	}
}

func TestServerIsProbed(t *testing.T) {
	for name, c := range map[string]struct {
		hello bson.D
		want  sink.Server
	}{
		"replica set": {replicaSet, sink.Server{Version: "7.0.5", Sessions: true}},
		"one node":    {bson.D{{Key: "logicalSessionTimeoutMinutes", Value: int32(30)}}, sink.Server{Version: "7.0.5"}},
		"no sessions": {bson.D{{Key: "setName", Value: "rs"}}, sink.Server{Version: "7.0.5"}},
		"mongos": {
			bson.D{{Key: "msg", Value: "isdbgrid"}, {Key: "logicalSessionTimeoutMinutes", Value: int32(30)}},
			sink.Server{Version: "7.0.5", Sessions: true, Sharded: true},
		},
	} {
		f := newFake(t, c.hello)
		f.answer("buildInfo", func(bson.Raw) bson.D { return bson.D{{Key: "version", Value: "7.0.5"}} })
		d := openFake(t, f)
		if got := d.Server(); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
		if d.Name() != "db" {
			t.Errorf("database %q", d.Name())
		}
	}
}

func TestPing(t *testing.T) {
	f := newFake(t, nil)
	f.answer("ping", func(bson.Raw) bson.D { return bson.D{} })
	d := openFake(t, f)
	if err := d.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	f.answer("ping", func(bson.Raw) bson.D { return nil })
	if err := d.Ping(t.Context()); err == nil {
		t.Error("a server that hangs up answers")
	}
}
