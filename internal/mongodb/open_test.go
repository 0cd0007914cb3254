package mongodb_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
)

// closedPort returns an address at which no server listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// TestOpenQuotesNothingOfAURI covers URIs that cannot be read. Any part of such a URI may belong to the password.
func TestOpenQuotesNothingOfAURI(t *testing.T) {
	for _, uri := range []string{
		"mongodb://user:hIdDeN/hIdDeN@host/db", "mongodb://user:hIdDeN", "mongodb://user:hIdDeNhost:27017/db", "mongodb://user:hId?DeN=hIdDeN@host/db",
		"mongodb://user:hIdDeN@hIdDeN@host/db", "mongodb://user:hIdDeN:x@host/db", "mongodb://user:hIdDeN%zz@host/db", "mongodb://user:hIdDeN@/db",
		"mongodb://user:pa@host/?hIdDeN", "mongodb://user:pa@host/?w=hIdDeN&tls=hIdDeN", "hIdDeN",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		d, err := mongodb.Open(ctx, mongodb.Options{URI: uri, Database: "db", WriteTimeout: time.Second})
		cancel()
		if err == nil {
			_ = d.Close(t.Context())
			t.Errorf("%s was opened", uri)
		} else if strings.Contains(err.Error(), "hIdDeN") || !strings.Contains(err.Error(), "MONGODB_URI") {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

func TestOpenSaysWhatToDo(t *testing.T) {
	plain := mongodbtest.NewFake(t, nil)
	login := mongodbtest.NewFake(t, bson.D{{Key: "saslSupportedMechs", Value: bson.A{"SCRAM-SHA-256"}}})
	login.Answer("saslStart", mongodbtest.Failing(18, "Authentication failed."))
	ending := mongodbtest.NewFake(t, bson.D{{Key: "saslSupportedMechs", Value: bson.A{"SCRAM-SHA-256"}}})
	ending.Answer("saslStart", mongodbtest.Failing(91, "The server is in quiesce mode and will shut down"))
	cut := mongodbtest.NewFake(t, bson.D{{Key: "saslSupportedMechs", Value: bson.A{"SCRAM-SHA-256"}}})
	cut.Answer("saslStart", func(bson.Raw) bson.D { return nil })
	required := mongodbtest.NewFake(t, nil)
	required.Answer("hello", mongodbtest.Failing(13, "command hello requires authentication"))
	const quick = "serverSelectionTimeoutMS=300&connectTimeoutMS=300"
	for name, c := range map[string]struct {
		uri, database string
		want          []string
		passes        bool // it may work later without any change by an operator
	}{
		"nobody there":      {"mongodb://" + closedPort(t) + "/db?" + quick, "db", []string{"not reachable", "connection refused", "MONGODB_URI"}, true},
		"unknown host":      {"mongodb://no-such-host.invalid/db?" + quick, "db", []string{"not reachable", "no-such-host.invalid"}, true},
		"wrong password":    {"mongodb://user:s3cret@" + login.Addr().String() + "/db?directConnection=true&" + quick, "db", []string{"password", "authSource"}, false},
		"login not now":     {"mongodb://user:s3cret@" + ending.Addr().String() + "/db?directConnection=true&" + quick, "db", []string{"login"}, true},
		"login cut":         {"mongodb://user:s3cret@" + cut.Addr().String() + "/db?directConnection=true&" + quick, "db", []string{"login"}, true},
		"no such service":   {"mongodb+srv://no-such-host.invalid/db", "db", []string{"DNS does not know", "no-such-host.invalid", "MONGODB_URI"}, true},
		"no TLS there":      {"mongodb://" + plain.Addr().String() + "/db?tls=true&directConnection=true&" + quick, "db", []string{"TLS", "tls=true"}, true},
		"no scheme":         {"localhost:27017", "db", []string{"MONGODB_URI", "mongodb://"}, false},
		"a bad option":      {"mongodb://user:s3cret@h/db?maxPoolSize=x", "db", []string{"MONGODB_URI", "invalid value"}, false},
		"no database":       {"mongodb://" + plain.Addr().String(), "", []string{"MONGODB_DATABASE"}, false},
		"a bad database":    {"mongodb://" + plain.Addr().String(), "a:b", []string{"MONGODB_DATABASE", `"a:b" contains ":"`}, false},
		"not a replica set": {"mongodb://" + plain.Addr().String() + "/db?replicaSet=rs&" + quick, "db", []string{"not as a primary", "replicaSet"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := mongodb.Open(t.Context(), mongodb.Options{URI: c.uri, Database: c.database, WriteTimeout: time.Second})
			if err == nil {
				d.Close(t.Context())
				t.Fatal("it opened")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			if _, ok := errors.AsType[*mongodb.OutageError](err); ok != c.passes {
				t.Errorf("it is said to pass by itself: %v, want %v: %v", !c.passes, c.passes, err)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the password is in: %v", err)
			}
		})
	}
}

// TestOpenTellsSilenceFromARefusal checks that a silent server is not reported as a server that is no primary. A server that
// hangs up at once may be a balancer in front of a server that is down. This is an outage, and the error hints that the server
// may require TLS.
func TestOpenTellsSilenceFromARefusal(t *testing.T) {
	hangUp := func(c net.Conn) { c.Close() }
	for name, c := range map[string]struct {
		with func(net.Conn)
		tls  string
		want []string
	}{
		"silent":               {func(net.Conn) {}, "", []string{"does not answer", "nothing comes back"}},
		"hanging up":           {hangUp, "", []string{"closes the connection immediately", "a proxy in front of a server that is down", "tls=true"}},
		"hanging up, with TLS": {hangUp, "tls=true&", []string{"closes the connection in the TLS handshake", "a proxy in front of a server that is down", "remove tls=true"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := acceptor(t, c.with)
			for _, quick := range []string{"serverSelectionTimeoutMS=300", "serverSelectionTimeoutMS=600&connectTimeoutMS=200"} {
				_, err := mongodb.Open(t.Context(), mongodb.Options{
					URI: "mongodb://user:s3cret@" + address + "/db?" + c.tls + quick, Database: "db", WriteTimeout: time.Second,
				})
				if err == nil {
					t.Fatal("it opened")
				}
				for _, want := range append(c.want, address) {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q is not in: %v", want, err)
					}
				}
				if _, ok := errors.AsType[*mongodb.OutageError](err); !ok {
					t.Errorf("it is said not to pass by itself: %v", err)
				}
				if strings.Contains(err.Error(), "not as a primary") || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("misleading: %v", err)
				}
			}
		})
	}
}

// acceptor returns the address of a server that calls a function with each connection, and never answers.
func acceptor(t *testing.T, with func(net.Conn)) string {
	t.Helper()
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
			defer conn.Close()
			with(conn)
		}
	}()
	t.Cleanup(func() { listener.Close(); <-served })
	return listener.Addr().String()
}

// TestUnreachedServerIsNamed checks that the error of a command without a server or connection leaves out the driver's details,
// such as its waiting times.
func TestUnreachedServerIsNamed(t *testing.T) {
	f := mongodbtest.NewFake(t, nil)
	f.Answer("ping", func(bson.Raw) bson.D { return bson.D{} })
	d := mongodbtest.Open(t, f)
	f.Answer("ping", func(bson.Raw) bson.D { time.Sleep(2 * time.Second); return bson.D{} })
	f.Close() // no new connections
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := d.Ping(ctx)
		cancel()
		if err == nil {
			t.Fatal("it answers")
		}
		t.Log(err)
		for _, noise := range []string{"maxPoolSize", "wait duration", "current topology", "deadline", "i/o timeout", "message header"} {
			if strings.Contains(err.Error(), noise) {
				t.Errorf("%q is in: %v", noise, err)
			}
		}
	}
}

// TestOpenDuringAnElection checks that a member of a replica set without a primary is an outage, because there may be a primary
// later. This also holds for a member that is not initiated.
func TestOpenDuringAnElection(t *testing.T) {
	for name, says := range map[string]bson.D{
		"a secondary":    {{Key: "setName", Value: "rs"}, {Key: "secondary", Value: true}},
		"not initiated":  {{Key: "isreplicaset", Value: true}},
		"being restored": {{Key: "setName", Value: "rs"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := mongodbtest.NewFake(t, append(bson.D{{Key: "isWritablePrimary", Value: false}, {Key: "ismaster", Value: false}}, says...))
			at := f.Addr().String()
			_, err := mongodb.Open(t.Context(), mongodb.Options{
				URI: "mongodb://" + at + "/db?replicaSet=rs&serverSelectionTimeoutMS=300", Database: "db", WriteTimeout: time.Second,
			})
			if _, ok := errors.AsType[*mongodb.OutageError](err); !ok || !strings.Contains(err.Error(), "not as a primary") {
				t.Errorf("%v, want an outage for want of a primary", err)
			}
		})
	}
}

// TestOpenIsSilentInTLS checks that silence during the TLS handshake is an outage, because it does not show whether the settings
// are wrong.
func TestOpenIsSilentInTLS(t *testing.T) {
	uri := "mongodb://" + acceptor(t, func(net.Conn) {}) + "/db?tls=true&directConnection=true&serverSelectionTimeoutMS=600&connectTimeoutMS=200"
	_, err := mongodb.Open(t.Context(), mongodb.Options{URI: uri, Database: "db", WriteTimeout: time.Second})
	if _, ok := errors.AsType[*mongodb.OutageError](err); !ok || !strings.Contains(err.Error(), "tls=true") {
		t.Errorf("%v, want an outage that speaks of TLS", err)
	}
}

func TestOpenWithoutTLSWhereItIsNeeded(t *testing.T) {
	address := acceptor(t, func(conn net.Conn) {
		_ = tls.Server(conn, &tls.Config{}).Handshake() // it must fail
		conn.Close()
	})
	uri := "mongodb://" + address + "/db?directConnection=true&serverSelectionTimeoutMS=300"
	if _, err := mongodb.Open(t.Context(), mongodb.Options{URI: uri, Database: "db", WriteTimeout: time.Second}); err == nil || !strings.Contains(err.Error(), "tls=true") {
		t.Errorf("%v", err)
	}
}

func TestServerIsProbed(t *testing.T) {
	for name, c := range map[string]struct {
		hello bson.D
		want  mongodb.Server
	}{
		"replica set": {mongodbtest.ReplicaSet, mongodb.Server{Version: "7.0.5", Sessions: true}},
		"one node":    {bson.D{{Key: "logicalSessionTimeoutMinutes", Value: int32(30)}}, mongodb.Server{Version: "7.0.5"}},
		"no sessions": {bson.D{{Key: "setName", Value: "rs"}}, mongodb.Server{Version: "7.0.5"}},
		"mongos": {
			bson.D{{Key: "msg", Value: "isdbgrid"}, {Key: "logicalSessionTimeoutMinutes", Value: int32(30)}},
			mongodb.Server{Version: "7.0.5", Sessions: true, Sharded: true},
		},
	} {
		f := mongodbtest.NewFake(t, c.hello)
		f.Answer("buildInfo", func(bson.Raw) bson.D { return bson.D{{Key: "version", Value: "7.0.5"}} })
		d := mongodbtest.Open(t, f)
		if got := d.Server(); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
		if d.Name() != "db" {
			t.Errorf("database %q", d.Name())
		}
	}
}

// TestOpenRefusesAShard checks that a member of a shard is refused if it says so. Without an answer it counts as a replica set.
func TestOpenRefusesAShard(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer bson.D
		want   string
	}{
		{"shard", bson.D{{Key: "enabled", Value: true}, {Key: "shardName", Value: "eu-1"}}, `member of the shard "eu-1"`},
		{"replica set", bson.D{{Key: "enabled", Value: false}}, ""},
		{"no right", bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 13}, {Key: "errmsg", Value: "not authorized"}}, ""},
		{"no such command", bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 59}, {Key: "errmsg", Value: "no such command"}}, ""},
	} {
		f := mongodbtest.NewFake(t, mongodbtest.ReplicaSet)
		f.Answer("shardingState", func(bson.Raw) bson.D { return c.answer })
		uri := "mongodb://" + f.Addr().String() + "/?directConnection=true"
		d, err := mongodb.Open(t.Context(), mongodb.Options{URI: uri, Database: "db", WriteTimeout: time.Second})
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			} else if err := d.Close(t.Context()); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), f.Addr().String()) {
			t.Errorf("%s: %v, want %s with the address", c.name, err, c.want)
		}
	}
}

func TestPing(t *testing.T) {
	f := mongodbtest.NewFake(t, nil)
	f.Answer("ping", func(bson.Raw) bson.D { return bson.D{} })
	d := mongodbtest.Open(t, f)
	if err := d.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	f.Answer("ping", func(bson.Raw) bson.D { return nil })
	if err := d.Ping(t.Context()); err == nil {
		t.Error("a server that hangs up answers")
	}
}
