package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"waterwheel/config"
	"waterwheel/sink"
)

const (
	// clockTolerated is how far the clocks may be apart.
	clockTolerated = 2 * time.Second
	// slowTrial is how long the seven commands of a trial take at most where nothing is amiss.
	slowTrial = 2 * time.Second
	// mongoTimeout bounds the questions about one time series.
	mongoTimeout = 30 * time.Second
)

// checkMongoDB looks at the server and the time series. clusterID is Kafka's, empty when it does not answer.
func checkMongoDB(ctx context.Context, c config.Config, log *slog.Logger, clusterID string, found *findings) {
	definition, err := collection(c).Normalize()
	if err != nil {
		found.failed("time series", err)
		return
	}
	database, err := sink.Open(ctx, sinkOptions(c, log))
	if err != nil {
		found.failed("MongoDB", err)
		return
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTimeout)
		defer cancel()
		_ = database.Close(closing) // nothing is on its way
	}()
	checkServer(ctx, database, found)
	for _, topic := range c.Kafka.Topics {
		name := c.MongoDB.SeriesFor(topic)
		subject := "time series " + name
		asking, cancel := context.WithTimeout(ctx, mongoTimeout)
		_, err := database.Check(asking, name, definition, c.Bucket.MaxCount)
		switch {
		case errors.Is(err, sink.ErrNotSetUp):
			found.note(subject, "%v", err)
		case err != nil:
			found.failed(subject, err)
		default:
			found.ok(subject, "collections, definition and indexes are there, in the database %s", database.Name())
			checkView(asking, database, name, found)
			checkClaims(asking, database, claimed{series: name, clusterID: clusterID, topic: topic, group: c.Kafka.GroupID}, found)
		}
		checkPrivileges(asking, database, name, found)
		cancel()
	}
}

func checkServer(ctx context.Context, database *sink.Database, found *findings) {
	server := database.Server()
	kind := "a replica set"
	switch {
	case server.Sharded:
		kind = "a sharded cluster"
	case !server.Sessions:
		kind = "a single server"
	}
	found.ok("MongoDB", "connected, version %s, %s", server.Version, kind)
	if !server.Sessions {
		found.warn("MongoDB", "use a replica set where measurements must not be lost", "no replica set: what it holds is lost with its disk")
	}
	asking, cancel := context.WithTimeout(ctx, mongoTimeout)
	defer cancel()
	before := time.Now()
	clock, err := database.Clock(asking)
	took := time.Since(before)
	if err != nil {
		found.note("MongoDB", "its clock is not known: %v", err)
		return
	}
	// The answer was made between the two moments.
	difference := clock.Sub(before.Add(took / 2))
	if difference.Abs() > clockTolerated+took/2 {
		found.warn("MongoDB", "let NTP set the clocks of both", "its clock is %v from the clock here: expiry goes by MongoDB's", difference.Round(time.Millisecond))
		return
	}
	found.ok("MongoDB", "its clock is %v from the clock here (± %v)", difference.Round(time.Millisecond), (took / 2).Round(100*time.Microsecond))
}

func checkView(ctx context.Context, database *sink.Database, name string, found *findings) {
	subject := "time series " + name
	has, err := database.HasView(ctx, name)
	switch {
	case err != nil:
		found.failed(subject, err)
	case has:
		found.ok(subject, "the view %s shows its measurements", name)
	default:
		found.note(subject, "has no view of its measurements: this MongoDB cannot unpack buckets in a view")
	}
}

func checkPrivileges(ctx context.Context, database *sink.Database, name string, found *findings) {
	subject := "time series " + name
	before := time.Now()
	err := database.Trial(ctx, name)
	took := time.Since(before).Round(time.Millisecond)
	switch refused := (*sink.RefusedError)(nil); {
	case errors.As(err, &refused) && refused.Code == 13:
		found.wrong(subject, "grant the user readWrite on the database "+database.Name(), "%v", err)
	case err != nil:
		found.failed(subject, err)
	case took > slowTrial:
		found.warn(subject, "look at the replication lag and the disks of the members", "a document was inserted, updated, read and deleted with majority and journal, and that took %v", took)
	default:
		found.ok(subject, "a document could be inserted, updated, read and deleted with majority and journal, in %v", took)
	}
}
