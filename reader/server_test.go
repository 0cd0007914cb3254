package reader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"waterwheel/sink"
	"waterwheel/timeseries"
)

// connected is a database of its own on the server at E2E_MONGODB_URI.
func connected(t *testing.T) *mongo.Database {
	t.Helper()
	uri := os.Getenv("E2E_MONGODB_URI")
	if uri == "" {
		t.Skip("E2E_MONGODB_URI is not set: no MongoDB to test with")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetWriteConcern(&writeconcern.WriteConcern{W: writeconcern.WCMajority}))
	if err != nil {
		t.Fatal(err)
	}
	db := client.Database(fmt.Sprintf("reader_%d", time.Now().UnixNano()%1e12))
	t.Cleanup(func() {
		ctx := context.Background()
		if err := db.Drop(ctx); err != nil {
			t.Errorf("dropping the test's database: %v", err)
		}
		if err := client.Disconnect(ctx); err != nil {
			t.Error(err)
		}
	})
	return db
}

// setUp makes a time series as the consumer does, and puts buckets into it.
func setUp(t *testing.T, db *mongo.Database, name string, o timeseries.Options, buckets []bson.Raw) *Series {
	t.Helper()
	d, err := sink.Open(t.Context(), sink.Options{URI: os.Getenv("E2E_MONGODB_URI"), Database: db.Name(), WriteTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close(t.Context())
	if _, err := d.Setup(t.Context(), name, o, 1000); err != nil {
		t.Fatal(err)
	}
	if len(buckets) > 0 {
		if _, err := db.Collection(name+timeseries.BucketsSuffix).InsertMany(t.Context(), buckets); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), db, name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOpenReadsTheDefinition(t *testing.T) {
	db := connected(t)
	if _, err := Open(t.Context(), db, "events"); !errors.Is(err, ErrNotSetUp) {
		t.Errorf("opening nothing gave %v, want ErrNotSetUp", err)
	}
	s := setUp(t, db, "events", testOptions, nil)
	if s.Name() != "events" || s.Options() != testOptions {
		t.Errorf("opened %q with %+v, want %+v", s.Name(), s.Options(), testOptions)
	}
	if got, err := facts(s.Find(t.Context(), Query{})); err != nil || got != nil {
		t.Errorf("an empty series has %q, %v", got, err)
	}
}

// TestReadsAsTheModelOnAServer: the queries mean on a server what they mean on the fake.
func TestReadsAsTheModelOnAServer(t *testing.T) {
	db := connected(t)
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 3))
		metas := append(stringMetas(3), valueOf("plain"), valueOf(int32(1)), valueOf(1.0), bson.RawValue{Type: bson.TypeNull}, bson.RawValue{},
			valueOf(bson.D{{Key: "n", Value: int32(5)}}), valueOf(bson.D{{Key: "n", Value: 5.0}}))
		stored, buckets := randomFacts(random, testOptions, metas, -1e9, 400)
		s := setUp(t, db, fmt.Sprintf("events%d", seed), testOptions, buckets)
		got, err := facts(s.Find(t.Context(), Query{}))
		want := texts(stored, math.MinInt64, math.MaxInt64, false)
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("seed %d: %v\n%s", seed, err, diff)
		}
	}
}
