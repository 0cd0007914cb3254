package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"waterwheel/sink"
	"waterwheel/timeseries"
)

// A raised granularity is noticed by a consumer that runs, and by one that is started with its old settings; what the
// settings say otherwise is still refused.
func TestRaisedGranularityIsNoticed(t *testing.T) {
	uri := os.Getenv("E2E_MONGODB_URI")
	if uri == "" {
		t.Skip("E2E_MONGODB_URI is not set: no MongoDB to test with")
	}
	ctx, name := t.Context(), fmt.Sprintf("granularity_%d", time.Now().UnixNano())
	raw, err := mongo.Connect(options.Client().ApplyURI(uri).SetWriteConcern(writeconcern.Majority()))
	if err != nil {
		t.Fatal(err)
	}
	database, err := sink.Open(ctx, sink.Options{
		URI: uri, Database: name, WriteTimeout: 5 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		_ = database.Close(ctx)
		_ = raw.Database(name).Drop(ctx)
		_ = raw.Disconnect(ctx)
	})
	settings := timeseries.Options{TimeField: "time", MetaField: "meta", Granularity: timeseries.Seconds}
	store, err := database.Setup(ctx, "events", settings, 1000)
	if err != nil {
		t.Fatal(err)
	}

	changes := make(chan timeseries.Options)
	watching, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watchCollection(watching, time.Millisecond, store, func(o timeseries.Options) { changes <- o }, slog.New(slog.DiscardHandler))
	}()
	if _, _, err := database.SetGranularity(ctx, "events", timeseries.Minutes); err != nil {
		t.Fatal(err)
	}
	if o := <-changes; o.Granularity != timeseries.Minutes || o.Span() != 24*time.Hour.Milliseconds() {
		t.Errorf("the workers were told %+v", o)
	}
	stop()
	<-ended

	again, err := database.Setup(ctx, "events", settings, 1000)
	if err != nil {
		t.Fatalf("starting again with the old settings: %v", err)
	}
	if again.Collection.Granularity != timeseries.Minutes {
		t.Errorf("started again with %+v", again.Collection)
	}
	settings.Granularity = timeseries.Hours
	if _, err := database.Setup(ctx, "events", settings, 1000); err == nil {
		t.Error("settings above the collection's were taken: nobody raised its granularity")
	}
}
