package mongodbtest

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

	"waterwheel/internal/mongodb"
)

// Real is a test's own database on a real server. It is dropped after the test.
type Real struct {
	*mongodb.Database
	Raw  *mongo.Database // for access beside the product
	Said *strings.Builder
}

// databases counts the databases of this process.
var databases atomic.Int32

// URI returns the URI of the real server. Without one it skips the test.
func URI(t testing.TB) string {
	t.Helper()
	uri := os.Getenv("E2E_MONGODB_URI")
	if uri == "" {
		t.Skip("E2E_MONGODB_URI is not set: no MongoDB to test with")
	}
	return uri
}

// Connect opens a database on the real server.
func Connect(t testing.TB) *Real {
	t.Helper()
	uri := URI(t)
	var log strings.Builder
	o := mongodb.Options{
		URI: uri, Database: fmt.Sprintf("test_%d_%d", time.Now().UnixNano()%1e9, databases.Add(1)), WriteTimeout: 5 * time.Second,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	d, err := mongodb.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	// What the product reads may lack a write that no majority has confirmed.
	majority := &writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: new(true)}
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetWriteConcern(majority))
	if err != nil {
		t.Fatal(err)
	}
	r := &Real{Database: d, Raw: client.Database(o.Database), Said: &log}
	t.Cleanup(func() {
		ctx := context.Background()
		if err := r.Raw.Drop(ctx); err != nil {
			t.Errorf("dropping the test's database: %v", err)
		}
		if err := client.Disconnect(ctx); err != nil {
			t.Error(err)
		}
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}
