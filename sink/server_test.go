package sink_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"waterwheel/internal/claim"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

var databases atomic.Int32

// env is a real server with a database of its own, which is dropped afterwards.
type env struct {
	*mongodb.Database
	raw *mongo.Database // beside the product
	log *strings.Builder
	as  sink.Settings
}

func serverURI(t testing.TB) string {
	t.Helper()
	uri := os.Getenv("E2E_MONGODB_URI")
	if uri == "" {
		t.Skip("E2E_MONGODB_URI is not set: no MongoDB to test with")
	}
	return uri
}

func connect(t testing.TB) *env {
	t.Helper()
	uri := serverURI(t)
	var log strings.Builder
	o := mongodb.Options{
		URI: uri, Database: fmt.Sprintf("sink_%d_%d", time.Now().UnixNano()%1e9, databases.Add(1)), WriteTimeout: 5 * time.Second,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	d, err := mongodb.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	// A write that no majority has confirmed need not be in what the product reads.
	majority := &writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: new(true)}
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetWriteConcern(majority))
	if err != nil {
		t.Fatal(err)
	}
	e := &env{Database: d, raw: client.Database(o.Database), log: &log}
	t.Cleanup(func() {
		ctx := context.Background()
		if err := e.raw.Drop(ctx); err != nil {
			t.Errorf("dropping the test's database: %v", err)
		}
		if err := client.Disconnect(ctx); err != nil {
			t.Error(err)
		}
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return e
}

var (
	definition = timeseries.Options{TimeField: "time", MetaField: "meta", Granularity: timeseries.Seconds}
	source     = timeseries.Source{Topic: "events", TopicID: [16]byte{7, 1, 2}, Partition: 3}
)

func (e *env) setup(t testing.TB) *sink.Store {
	t.Helper()
	ready, err := sink.Of(e.Database, "events").Setup(t.Context(), definition, e.as)
	if err != nil {
		t.Fatal(err)
	}
	return e.store(ready)
}

// store is a Store of a time series that is set up.
func (e *env) store(ready sink.Ready) *sink.Store {
	return sink.NewStore(ready, sink.StoreOptions{MaxCount: 1000, WriteTimeout: e.WriteTimeout(), Logger: e.Log()})
}

// claimed is a partition under a claim of ours.
func (e *env) claimed(t testing.TB, s *sink.Store) *sink.Partition {
	t.Helper()
	p := s.Partition(source, "cluster", "group", "host")
	claimWith(t, p)
	t.Cleanup(p.Close)
	return p
}

var tokens atomic.Int32

func token() [16]byte { n := tokens.Add(1); return [16]byte{0xcc, byte(n >> 8), byte(n)} }

func claimWith(t testing.TB, p *sink.Partition) [16]byte {
	t.Helper()
	seen, err := p.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := token()
	won, err := p.Claim(t.Context(), seen, claim.Claim{Token: id, Start: 0, Wait: 30 * time.Second})
	if err != nil || !won {
		t.Fatalf("claim: won %v, error %v", won, err)
	}
	return id
}
