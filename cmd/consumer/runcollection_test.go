package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

func TestMendedViewsAreTold(t *testing.T) {
	for _, c := range []struct {
		mended bool
		err    error
		says   string
	}{
		{false, nil, ""},
		{true, nil, "showed measurements twice"},
		{false, errors.New("no answer"), "level=DEBUG"},
		{false, &mongodb.RefusedError{Operation: "changing the view", Code: 13}, "level=WARN"},
	} {
		var log strings.Builder
		watch := collectionWatch{
			store: &sink.Store{}, mend: func(context.Context) (bool, error) { return c.mended, c.err },
			log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		}
		watch.mendView(t.Context())
		if said := log.String(); !strings.Contains(said, c.says) || (said == "") != (c.says == "") {
			t.Errorf("mended %v, %v: said %q, want %q", c.mended, c.err, said, c.says)
		}
	}
}

// scratch returns a database of this test on the real server, as the consumer sees it and as others see it.
func scratch(t *testing.T) (*mongodb.Database, *mongo.Database) {
	t.Helper()
	uri := os.Getenv("E2E_MONGODB_URI")
	if uri == "" {
		t.Skip("E2E_MONGODB_URI is not set: no MongoDB to test with")
	}
	name := fmt.Sprintf("collection_%d", time.Now().UnixNano())
	raw, err := mongo.Connect(options.Client().ApplyURI(uri).SetWriteConcern(writeconcern.Majority()))
	if err != nil {
		t.Fatal(err)
	}
	database, err := mongodb.Open(t.Context(), mongodb.Options{URI: uri, Database: name, WriteTimeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		_ = database.Close(ctx)
		_ = raw.Database(name).Drop(ctx)
		_ = raw.Disconnect(ctx)
	})
	return database, raw.Database(name)
}

// TestRaisedGranularityIsNoticed checks that a raised granularity is noticed by a running consumer, and by one that starts with
// the old settings. Other differences from the settings are still refused.
func TestRaisedGranularityIsNoticed(t *testing.T) {
	ctx := t.Context()
	database, _ := scratch(t)
	settings := timeseries.Options{TimeField: "time", MetaField: "meta", Granularity: timeseries.Seconds}
	series := collection.Of(database, "events")
	ready, err := series.Setup(ctx, settings, collection.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	store := sink.NewStore(ready, sink.StoreOptions{MaxCount: 1000, WriteTimeout: database.WriteTimeout()})

	changes := make(chan timeseries.Options)
	watching, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	var covered atomic.Bool
	watch := collectionWatch{
		store: store, apply: func(o timeseries.Options) { changes <- o }, log: slog.New(slog.DiscardHandler),
		mend: series.MendView,
		covers: func(ctx context.Context, o timeseries.Options) (bool, error) {
			if covers, err := series.Covers(ctx, o); err != nil || !covers {
				return false, err
			}
			return covered.Swap(true), nil // as if the first look was too early
		},
	}
	go func() {
		defer close(ended)
		watch.run(watching, time.Millisecond)
	}()
	if _, _, err := series.SetBucketing(ctx, timeseries.Options{Granularity: timeseries.Minutes}); err != nil {
		t.Fatal(err)
	}
	if o := <-changes; o.Granularity != timeseries.Minutes || o.Span() != 24*time.Hour.Milliseconds() {
		t.Errorf("the workers were told %+v", o)
	}
	stop()
	<-ended
	if !covered.Load() {
		t.Error("the options were followed without a look at expiry and view")
	}

	again, err := series.Setup(ctx, settings, collection.Settings{})
	if err != nil {
		t.Fatalf("starting again with the old settings: %v", err)
	}
	if again.Options.Granularity != timeseries.Minutes {
		t.Errorf("started again with %+v", again.Options)
	}
	settings.Granularity = timeseries.Hours
	if _, err := series.Setup(ctx, settings, collection.Settings{}); err == nil {
		t.Error("settings above the collection's were taken: nobody raised its granularity")
	}
}

// TestWishesForACompactionAreFollowed checks that each request is followed once, by the clock of MongoDB, whatever the clock of
// the consumer shows. Requests from before the start were followed by other consumers.
func TestWishesForACompactionAreFollowed(t *testing.T) {
	ctx := t.Context()
	database, raw := scratch(t)
	ready, err := collection.Of(database, "events").Setup(ctx, timeseries.Options{TimeField: "time", MetaField: "meta"}, collection.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	store := sink.NewStore(ready, sink.StoreOptions{MaxCount: 1000, WriteTimeout: database.WriteTimeout()})
	ask := func(at time.Time) {
		t.Helper()
		update := bson.D{{Key: "$set", Value: bson.D{{Key: "compact", Value: bson.NewDateTimeFromTime(at)}}}}
		if _, err := raw.Collection("events.options").UpdateOne(ctx, bson.D{{Key: "_id", Value: "options"}}, update); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-time.Hour) // the clock of MongoDB may be far behind
	ask(past)
	looked, wishes := make(chan struct{}), make(chan struct{}, 10)
	watch := collectionWatch{
		store: store, apply: func(timeseries.Options) {}, compact: func() { wishes <- struct{}{} }, log: slog.New(slog.DiscardHandler),
		mend:   func(context.Context) (bool, error) { looked <- struct{}{}; return false, nil },
		covers: func(context.Context, timeseries.Options) (bool, error) { return true, nil },
	}
	watching, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watch.run(watching, time.Millisecond)
	}()
	asks := map[int]time.Time{2: past.Add(time.Minute), 5: past.Add(-time.Minute)} // the clock of a new primary may be behind
	for i := range 9 {                                                             // each look except the last has ended when the next begins
		<-looked
		if want := (i - 1) / 3; i != 3 && i != 6 && len(wishes) != want {
			t.Errorf("at look %d: %d wishes were followed", i, len(wishes))
		}
		if at, ok := asks[i]; ok {
			ask(at)
		}
	}
	stop()
	go func() {
		for range looked {
		}
	}()
	<-ended
	close(looked)
}
