package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"waterwheel/internal/collection"
	"waterwheel/sink"
)

const (
	// clockTolerated is the tolerated difference of clocks.
	clockTolerated = 2 * time.Second
	// slowTrial is the normal maximum duration of an operation of a trial.
	slowTrial = time.Second
	// mongoTimeout bounds the requests about one time series.
	mongoTimeout = 30 * time.Second
)

// mongoDB checks the server and the time series, and records the partition documents.
func (l *look) mongoDB(ctx context.Context) {
	l.server(ctx)
	for _, topic := range l.Topics {
		asking, cancel := context.WithTimeout(ctx, mongoTimeout)
		l.series(asking, topic)
		cancel()
	}
}

func (l *look) series(ctx context.Context, topic Topic) {
	subject := "time series " + topic.Series
	ready, err := collection.Of(l.Database, topic.Series).Check(ctx, topic.Bucketing.Collection)
	switch {
	case errors.Is(err, collection.ErrNotSetUp):
		// An index may be all that is missing.
		_, undefined := collection.ReadDefinition(ctx, collection.Of(l.Database, topic.Series).Ports().Options)
		l.empty[topic.Name] = errors.Is(undefined, collection.ErrNotSetUp)
		l.Note(subject, "%v", err)
	case err != nil:
		l.Failed(subject, err)
	default:
		l.OK(subject, "collections, definition and indexes exist in the database %s", l.Database.Name())
		for _, i := range ready.Ignored {
			l.Warn(subject, i.Advice, "%s ignored: %s in the settings, but %s in the collection", i.Setting, i.Value, i.Holds)
		}
		l.storage(ctx, subject, topic.Series)
		l.sharding(ctx, subject, topic)
		l.view(ctx, subject, topic.Series)
		l.indexes(ctx, subject, topic)
		if documents, err := sink.ContentsOf(l.Database, topic.Series).Partitions(ctx); err != nil {
			l.Failed(subject, err)
		} else {
			l.claims(topic, documents)
		}
	}
	l.rights(ctx, subject, topic)
}

func (l *look) server(ctx context.Context) {
	server := l.Database.Server()
	kind := "a replica set"
	switch {
	case server.Sharded:
		kind = "a sharded cluster"
	case !server.Sessions:
		kind = "a single server"
	}
	l.OK("MongoDB", "connected, version %s, %s", server.Version, kind)
	if !server.Sessions {
		l.Warn("MongoDB", "use a replica set where measurements must not be lost", "not a replica set: if its disk is lost, all measurements are lost")
	}
	asking, cancel := context.WithTimeout(ctx, mongoTimeout)
	defer cancel()
	before := time.Now()
	clock, err := l.Database.Clock(asking)
	took := time.Since(before)
	if err != nil {
		l.Note("MongoDB", "its clock is not known: %v", err)
		return
	}
	// MongoDB made the answer at a moment in between.
	difference := clock.Sub(before.Add(took / 2))
	if difference.Abs() > clockTolerated+took/2 {
		l.Warn("MongoDB", "synchronize the clocks of both machines with NTP", "its clock differs by %v from the clock of this machine: expiry uses MongoDB's clock", difference.Round(time.Millisecond))
		return
	}
	l.OK("MongoDB", "its clock differs by %v from the clock of this machine (± %v)", difference.Round(time.Millisecond), (took / 2).Round(100*time.Microsecond))
}

// storage reports how MongoDB compresses the buckets, if it says so.
func (l *look) storage(ctx context.Context, subject, series string) {
	size, err := collection.Of(l.Database, series).Size(ctx)
	switch {
	case err != nil:
		l.Note(subject, "the compression of its buckets is not known: %v", err)
	case size.Compressor == collection.BlockCompressor:
		l.OK(subject, "its buckets are compressed by %s", size.Compressor)
	case size.Compressor != "":
		l.Note(subject, "its buckets are compressed by %s: %s, which new collections use, needs less disk space (docs/runbook.md says how to "+
			"change old collections)", size.Compressor, collection.BlockCompressor)
	}
}

// sharding reports how a cluster distributes the buckets, and the cost of a shard key that writes do not contain.
func (l *look) sharding(ctx context.Context, subject string, topic Topic) {
	sharding, err := collection.Of(l.Database, topic.Series).Sharding(ctx)
	switch unnamed := sharding.Unnamed(topic.Bucketing.Collection.TimeField); {
	case !sharding.Router:
	case err != nil:
		l.Note(subject, "its sharding is not known: %v", err)
	case sharding.Key == nil:
		l.Note(subject, "is not sharded: one shard of the cluster has all of it (docs/sharding.md)")
	case len(unnamed) > 0:
		l.Warn(subject, "shard the collection by meta and time (docs/sharding.md); until then do not move chunks (sh.disableBalancing)",
			"is sharded by %s, and writes of buckets do not contain the shard key field %s. So mongos sends these writes to all shards, "+
				"and measurements may be lost or stored twice while a chunk moves", collection.KeyText(sharding.Key), strings.Join(unnamed, ", "))
	case sharding.Uneven:
		l.Note(subject, "is sharded by %s, and not all shards get segments: `waterwheel collection shard` spreads them", collection.KeyText(sharding.Key))
	default:
		text := make([]string, len(sharding.Chunks))
		for i, c := range sharding.Chunks {
			text[i] = fmt.Sprintf("%s %d", c.Shard, c.Chunks)
		}
		l.OK(subject, "is sharded by %s, chunks: %s", collection.KeyText(sharding.Key), strings.Join(text, ", "))
	}
}

func (l *look) view(ctx context.Context, subject, series string) {
	view, err := collection.Of(l.Database, series).View(ctx, l.Settings.View)
	switch {
	case err != nil:
		l.Failed(subject, err)
	case view.Kind != collection.ViewNone:
		l.OK(subject, "the view %s shows its measurements (%s: %s)", series, view.Kind, view.Why)
	default:
		l.Note(subject, "has no view of its measurements: %s", view.Why)
	}
}

// rights tests the user's rights.
func (l *look) rights(ctx context.Context, subject string, topic Topic) {
	trial, err := collection.Of(l.Database, topic.Series).Trial(ctx, topic.Bucketing.Collection, l.Settings)
	for _, r := range trial.Missing {
		wayOut := fmt.Sprintf("grant the role %s on the database %s, or the right %s on %s alone", r.Role, l.Database.Name(), r.Action, r.Namespace)
		if r.Instead != "" {
			wayOut += "; " + r.Instead
		}
		if r.Due {
			l.Wrong(subject, wayOut, "the user lacks the right %s on %s, which `waterwheel run` needs for %s", r.Action, r.Namespace, r.For)
		} else {
			l.Warn(subject, wayOut, "the user lacks the right %s on %s, which `waterwheel run` does not need at present: the right is for %s", r.Action, r.Namespace, r.For)
		}
	}
	took := trial.Slowest.Round(time.Millisecond)
	switch {
	case err != nil:
		l.Failed(subject, err)
	case took > slowTrial:
		l.Warn(subject, "check the replication lag and the disks of the replica set's members",
			"one of %d trial operations, which change nothing, took %v with write concern majority and journal", trial.Tried, took)
	case len(trial.Missing) == 0:
		l.OK(subject, "the user has all rights that run needs: the slowest of %d trial operations, which change nothing, took %v", trial.Tried, took)
	}
}
