package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/kafka"
	"waterwheel/internal/measurement"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
	"waterwheel/sink"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// counts is the number of commands sent to MongoDB, by "collection command".
type counts struct {
	mu   sync.Mutex
	made map[string]int
}

func (c *counts) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[what]++
}

// since returns the commands since an earlier state.
func (c *counts) since(before map[string]int) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	added := map[string]int{}
	for what, n := range c.made {
		if n > before[what] {
			added[what] = n - before[what]
		}
	}
	return added
}

// counted is a collection that nobody else uses, so conditions of updates are always met. It keeps the document that was inserted
// last.
type counted struct {
	*counts
	name string
	mu   *sync.Mutex
	last *bson.Raw
}

func (c counted) Insert(_ context.Context, documents []bson.Raw) (mongodb.Reply, error) {
	c.add(c.name + " insert")
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.last = slices.Clone(documents[len(documents)-1])
	return mongodb.Reply{N: len(documents)}, nil
}

func (c counted) Update(_ context.Context, updates []mongodb.Update) (mongodb.Reply, error) {
	c.add(c.name + " update")
	return mongodb.Reply{N: len(updates)}, nil
}

func (c counted) Delete(context.Context, []bson.Raw) (mongodb.Reply, error) {
	return mongodb.Reply{}, nil
}

func (c counted) Find(_ context.Context, q mongodb.Query, each func(bson.Raw) error) error {
	c.add(c.name + " find")
	c.mu.Lock()
	defer c.mu.Unlock()
	_, byRange := q.Filter.Lookup("_id").DocumentOK()     // a query of notes
	if *c.last == nil || c.name == "buckets" || byRange { // there are no stored positions, and nothing is reopened
		return nil
	}
	return each(*c.last)
}

// steadyLog has ten records per second, of ten series at first and of a hundred series from the second minute on.
type steadyLog struct{ begin time.Time }

func (l steadyLog) end() int64 { return int64(time.Since(l.begin).Seconds() * 10) }

func (l steadyLog) Await(ctx context.Context, _, _ int64) (int64, error) {
	select {
	case <-time.After(500 * time.Millisecond):
		return 0, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (l steadyLog) Take(offset int64, _ int) (record.Batch, error) {
	b := record.Batch{Next: l.end(), End: l.end()}
	for ; offset < b.Next; offset++ {
		at := l.begin.Add(time.Duration(offset) * 100 * time.Millisecond)
		series := offset % 10
		if offset > 1200 {
			series = offset % 100
		}
		b.Records = append(b.Records, record.Record{
			Offset: offset, Timestamp: at.UnixMilli(),
			Value: fmt.Appendf(nil, `{"time":%d,"meta":"s%d","celsius":%d}`, at.UnixMilli(), series, offset%40),
		})
	}
	return b, nil
}

func (l steadyLog) Bounds(context.Context) (record.Bounds, error) {
	return record.Bounds{End: l.end()}, nil
}

func (l steadyLog) Partitions(context.Context) (int32, error) { return 1, nil }

// steadyPorts opens the log and the store. The topic never changes.
type steadyPorts struct {
	log   steadyLog
	store *sink.Store
}

func (p steadyPorts) Open(src timeseries.Source) (pipeline.Log, pipeline.Store) {
	return p.log, p.store.Partition(src, "cluster", "g", "host")
}

func (p steadyPorts) Schemas() pipeline.Schemas                                { return nil }
func (p steadyPorts) DeadLetters(string) pipeline.DeadLetters                  { return nil }
func (p steadyPorts) TopicID(context.Context, string) (id [16]byte, err error) { return id, nil }

// steadyGeneration never ends.
type steadyGeneration struct{}

func (steadyGeneration) Held() bool { return true }

func (steadyGeneration) Renewed() time.Duration { return 0 }

func (steadyPorts) Committed(context.Context, record.Partition) (claim.Committed, error) {
	return claim.Committed{}, nil
}

func (steadyGeneration) Commit(_ context.Context, commits []record.Commit) ([]error, error) {
	return make([]error, len(commits)), nil
}

// TestSteadyStateCostsNoReads checks that after the claim, which reads and writes the partition document once, MongoDB is only
// written to. New series are not looked up even with BUCKET_REOPEN, because all buckets of the partition are in memory.
func TestSteadyStateCostsNoReads(t *testing.T) {
	for _, reopen := range []bool{false, true} {
		t.Run(fmt.Sprintf("reopen %v", reopen), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { steadyState(t, reopen) })
		})
	}
}

func steadyState(t *testing.T, reopen bool) {
	made := &counts{made: map[string]int{}}
	of := func(name string) counted { return counted{made, name, &sync.Mutex{}, new(bson.Raw)} }
	options, err := timeseries.Options{TimeField: "time", MetaField: "meta"}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	ports := collection.Ports{Buckets: of("buckets"), Partitions: of("partitions"), Options: of("options")}
	store := sink.NewStore(collection.Ready{Ports: ports, Namespace: "db.events.buckets", Options: options}, sink.StoreOptions{MaxCount: 1000, WriteTimeout: 10 * time.Second})
	consumer := steadyConsumer(t, store, options, reopen)

	assignment := []pipeline.Assignment{{Partition: record.Partition{Topic: "events"}, Assigned: pipeline.Assigned{TopicID: [16]byte{1}}}}
	consumer.Assigned(steadyGeneration{}, assignment, false)
	time.Sleep(30 * time.Second)
	// Without a document, the consumer also checks whether there are buckets, and the topic is noted. Then it reads the stored
	// positions with a query of buckets and one of notes, and finds the newest bucket.
	finds := 2
	if reopen {
		finds = 3
	}
	wantMade(t, "the first claim", made.since(nil), map[string]int{
		"partitions find": 1, "buckets find": finds, "options find": 2, "options insert": 1, "partitions insert": 1,
	})
	before := made.since(nil)
	time.Sleep(time.Minute)
	wantMade(t, "a steady minute", made.since(before), map[string]int{})
	before = made.since(nil)
	time.Sleep(2 * time.Minute)
	wantMade(t, "ninety new series", made.since(before), map[string]int{})
	before = made.since(nil)
	consumer.Revoke(context.Background(), false)
	wantMade(t, "the hand-over", made.since(before), map[string]int{"partitions update": 1})
}

// wantMade compares the commands except writes of buckets. There must be some of those.
func wantMade(t *testing.T, when string, made, want map[string]int) {
	t.Helper()
	if made["buckets insert"]+made["buckets update"] == 0 {
		t.Errorf("%s: nothing was written", when)
	}
	delete(made, "buckets insert")
	delete(made, "buckets update")
	maps.DeleteFunc(made, func(_ string, n int) bool { return n == 0 })
	if !maps.Equal(made, want) {
		t.Errorf("%s: beside writes of buckets %v, want %v", when, made, want)
	}
}

func steadyConsumer(t *testing.T, store *sink.Store, options timeseries.Options, reopen bool) *pipeline.Consumer {
	t.Helper()
	decoder, err := measurement.New(measurement.Options{TimeField: "time", MetaField: "meta"})
	if err != nil {
		t.Fatal(err)
	}
	begin, metrics := time.Now(), pipeline.NewMetrics(prometheus.NewRegistry())
	outages := pipeline.NewOutages(slog.New(slog.DiscardHandler), func() pipeline.Instant { return 0 })
	return pipeline.NewConsumer(pipeline.ConsumerOptions{
		NewWorker: func(p record.Partition) *pipeline.Worker {
			return pipeline.NewWorker(pipeline.Options{
				Partition: p, Group: "g", ClusterID: "cluster", Namespace: "db.events", Decoder: decoder,
				Bucketing: bucketer.Options{
					Collection: options, Limits: timeseries.Limits{MaxCount: 1000, MaxBytes: 125 << 10, MinCount: 10}, DeltaMax: 16, Reopen: reopen,
				},
				FlushInterval: 5 * time.Second, FlushBytes: 64 << 20, FlushCount: 500_000, Wait: 30 * time.Second, WriteGrace: 20 * time.Second,
				Warm: true, NewToken: newToken, Random: rand.New(rand.NewPCG(1, 2)), Log: slog.New(slog.DiscardHandler),
				Metrics: metrics, Outages: outages,
			})
		},
		Ports:  steadyPorts{steadyLog{begin}, store},
		Budget: pipeline.NewBudget(1 << 30), Clock: func() pipeline.Instant { return time.Hour + time.Since(begin) },
		CommitInterval: time.Second, Lease: 10 * time.Second, Metrics: metrics,
	})
}

// TestErrorsOfCommits checks which errors of a commit are an outage of Kafka.
func TestErrorsOfCommits(t *testing.T) {
	for _, c := range []struct {
		err    error
		outage bool
	}{
		{nil, false},
		{kafka.ErrGenerationOver, false},
		{kafkago.RebalanceInProgress, false},
		{kafkago.IllegalGeneration, false},
		{kafkago.UnknownMemberId, false},
		{kafkago.UnknownTopicOrPartition, false},
		{fmt.Errorf("committing: %w", context.Canceled), false},
		{kafkago.OffsetMetadataTooLarge, true},
		{kafkago.GroupAuthorizationFailed, true},
		{kafkago.GroupCoordinatorNotAvailable, true},
		{kafkago.NotCoordinatorForGroup, true},
		{context.DeadlineExceeded, true},
		{io.ErrUnexpectedEOF, true},
	} {
		got := ofCommit(c.err)
		if (got == nil) != (c.err == nil) || c.err != nil && (errors.Is(got, claim.ErrLapsed) == c.outage || !errors.Is(got, c.err)) {
			t.Errorf("%v becomes %v", c.err, got)
		}
	}
}
