package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
	"waterwheel/reader"
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

// indexes reports which indexes META_INDEXES asks for or no longer asks for, and which index serves the filter.
func (l *look) indexes(ctx context.Context, subject string, topic Topic) {
	if len(l.Settings.MetaPaths) == 0 && l.Filter == nil {
		return
	}
	list, err := collection.Of(l.Database, topic.Series).Indexes(ctx)
	if err != nil {
		l.Failed(subject, err)
		return
	}
	l.metaIndexes(subject, list)
	if l.Filter == nil {
		return
	}
	view, err := collection.Of(l.Database, topic.Series).View(ctx, l.Settings.View)
	if err != nil {
		l.Failed(subject, err)
		return
	}
	advice, err := list.Options.Advise(l.Filter, list.Definitions(view.Kind == collection.ViewInternal))
	if err != nil {
		l.Wrong(subject, "correct --filter", "%v", err)
		return
	}
	if !l.mistaken(ctx, subject, topic, list.Options, advice) {
		l.advise(subject, topic, advice, l.cost(ctx, subject, topic.Series, list.Options))
	}
}

// mistaken reports whether the filter is on a part of the meta that no measurement of a sample has. It adds a warning, because an
// index on it would find nothing either.
func (l *look) mistaken(ctx context.Context, subject string, topic Topic, o timeseries.Options, a timeseries.Advice) bool {
	paths := slices.DeleteFunc(slices.Clone(a.Misses), func(path string) bool { return path == o.TimeField })
	if len(paths) == 0 {
		return false
	}
	sample, err := collection.Of(l.Database, topic.Series).SampleFields(ctx, o, paths...)
	if err != nil || sample.Documents == 0 {
		return false // other checks report what is wrong
	}
	paths = slices.DeleteFunc(paths, sample.Has)
	if len(paths) == 0 {
		return false
	}
	l.Warn(subject, "correct --filter", "no measurement in the newest %d buckets and segments has %s: the filter finds nothing there, and no index can help",
		sample.Documents, strings.Join(paths, " or "))
	return true
}

func (l *look) metaIndexes(subject string, list collection.IndexList) {
	missing, unasked := list.CompareMetaIndexes(l.Settings.MetaPaths)
	for _, path := range missing {
		l.Warn(subject, "run `waterwheel init` or `waterwheel run` to create the index", "META_INDEXES asks for %s, but no index supports queries on it", path)
	}
	for _, name := range unasked {
		l.Note(subject, "META_INDEXES no longer asks for the index %s: `waterwheel collection drop-index %[1]s` drops it", name)
	}
	if n := len(l.Settings.MetaPaths) - len(missing); n > 0 {
		l.OK(subject, "%d of %s of META_INDEXES %s", n, words.Count(len(l.Settings.MetaPaths), "index"), words.Form(n, "exists", "exist"))
	}
}

// cost asks MongoDB what the filter costs. Nil means that it is unknown.
func (l *look) cost(ctx context.Context, subject, name string, o timeseries.Options) *reader.Cost {
	filter, err := o.BucketFilter(l.Filter)
	if err != nil { // Advise reports the same error
		return nil
	}
	series, err := reader.Open(ctx, l.Database.Driver(), name)
	var c reader.Cost
	if err == nil {
		c, err = series.ExplainFilter(ctx, filter)
	}
	switch {
	case errors.Is(err, reader.ErrNoExplain):
		return nil
	case err != nil:
		l.Note(subject, "the cost of the filter is not known: %v", l.Database.Explain(err))
		return nil
	}
	return &c
}

// muchMore is how many times more buckets than it finds a filter may examine before an index is worthwhile.
const muchMore = 10

// advise reports which index serves the filter, and which index would serve it better.
func (l *look) advise(subject string, topic Topic, a timeseries.Advice, c *reader.Cost) {
	measured := ""
	if c != nil && a.Index != timeseries.IDIndexName { // The filter that was tried does not bound the _id.
		measured = fmt.Sprintf("; in a test MongoDB examined %s, of which %d can match", words.Count(c.DocumentsExamined, "bucket"), c.Buckets)
	}
	wide := ""
	if len(a.Wide) > 0 {
		wide = fmt.Sprintf("; no index supports %s", strings.Join(a.Wide, ", "))
	}
	if len(a.Fields) > 0 {
		wide += fmt.Sprintf("; %s is checked in each bucket that the rest of the filter finds", strings.Join(a.Fields, ", "))
	}
	cheap := measured != "" && c.DocumentsExamined <= muchMore*max(c.Buckets, 1)
	switch {
	case a.Index == "" && a.Keys == nil:
		l.Warn(subject, "filter by a part of the meta or by a time", "the filter reads every bucket%s%s", wide, measured)
	case a.Keys == nil:
		l.OK(subject, "the index %s supports the filter on %s%s%s", a.Index, strings.Join(a.Narrows, ", "), wide, measured)
	case cheap:
		l.OK(subject, "no index supports the filter on %s, but at present the filter reads few buckets%s%s", strings.Join(a.Misses, ", "), wide, measured)
	case a.Index == "":
		l.Warn(subject, l.wayOut(topic, a), "no index supports the filter: the filter reads every bucket%s%s", wide, measured)
	default:
		l.Warn(subject, l.wayOut(topic, a), "the index %s supports the filter on %s, but not on %s: the filter reads more buckets than it needs%s%s",
			a.Index, strings.Join(a.Narrows, ", "), strings.Join(a.Misses, ", "), wide, measured)
	}
}

func (l *look) wayOut(topic Topic, a timeseries.Advice) string {
	only := ""
	if len(l.Topics) > 1 {
		only = topic.Name
	}
	return "create the index: " + IndexCommand(a.Keys, only)
}

// IndexCommand returns the command that creates an index of these keys, for one topic, or for all if topic is empty. It adds the
// setting that would also do, if there is one.
func IndexCommand(keys bson.Raw, topic string) string {
	written, err := bson.MarshalExtJSON(keys, false, false)
	if err != nil {
		written = []byte(keys.String())
	}
	text := fmt.Sprintf("waterwheel collection create-index '%s'", written)
	if topic != "" {
		text += " --topic " + topic
	}
	if names, err := keys.Elements(); err == nil && len(names) == 2 {
		text += fmt.Sprintf(", or META_INDEXES=%s", names[0].Key())
	}
	return text
}
