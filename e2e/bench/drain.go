package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/e2e/harness"
)

// Bench holds what is needed to measure peers.
type Bench struct {
	Servers *harness.Servers
	// Consumer is the path of the built program. Self is the command of a program that calls Child.
	Consumer string
	Self     []string
	// Settings are further settings of the consumer.
	Settings harness.Settings
	// Profiles is a folder for processor profiles of the consumer, <peer>-<round>.pprof. Empty means that none are taken.
	Profiles string
	// Log gets a line for each step.
	Log io.Writer
}

// Drain is one peer's turn.
type Drain struct {
	Peer  Peer
	Round int
	// Buckets is the database whose buckets Ceiling inserts again. Waterwheel has stored them in this round.
	Buckets string
}

// Database returns the name of the database in which a peer stores in a round.
func (d Drain) Database(t Topic) string { return fmt.Sprintf("%s-%d-%s", t.Name, d.Round, d.Peer) }

// Drain has a peer store a topic, from its beginning to its end, in a database of its own. The database stays until Remove drops
// it. An error means that the measurement failed. Missing measurements are no error but counted in the result.
func (b *Bench) Drain(ctx context.Context, t Topic, d Drain) (Result, error) {
	r := Result{Peer: d.Peer, Round: d.Round, Measurements: int64(t.Load.Records)}
	client, err := connect(b.Servers.MongoURI)
	if err != nil {
		return r, err
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	database := client.Database(d.Database(t))
	measure := map[Peer]func(context.Context, Topic, Drain, *mongo.Database, *Result) error{
		Waterwheel: b.drainWaterwheel, Discard: b.drainDiscard, Naive: b.drainNaive, Ceiling: b.drainCeiling,
	}[d.Peer]
	if measure == nil {
		return r, fmt.Errorf("no peer is named %q", d.Peer)
	}
	if err := measure(ctx, t, d, database, &r); err != nil {
		return r, fmt.Errorf("measuring %s: %w", d.Peer, err)
	}
	return r, nil
}

// drainNaive measures the naive consumer.
func (b *Bench) drainNaive(ctx context.Context, t Topic, d Drain, database *mongo.Database, r *Result) error {
	var err error
	if r.Note, err = createNaive(ctx, database, t.Name); err != nil {
		return err
	}
	work := b.task(ctx, t, d)
	work.Collection = t.Name
	if err := b.measureChild(ctx, work, r); err != nil {
		return err
	}
	collection := database.Collection(t.Name)
	r.Size = SizeOf(ctx, collection)
	return countDocuments(ctx, collection, r)
}

// drainCeiling measures the bare loop. The program itself makes the collections, so that their storage and their indexes are the
// same.
func (b *Bench) drainCeiling(ctx context.Context, t Topic, d Drain, database *mongo.Database, r *Result) error {
	if d.Buckets == "" {
		return errors.New("it inserts what waterwheel has stored: let that come before it")
	}
	made, err := harness.Start(b.Consumer, b.settings(t, d), "init")
	if err != nil {
		return err
	}
	if code, err := made.Wait(ctx); err != nil || code != 0 {
		return errors.Join(fmt.Errorf("waterwheel init ended with code %d:\n%s", code, made.Log()), err)
	}
	work := b.task(ctx, t, d)
	work.Collection, work.From, work.Parallel = bucketsOf(t.Name), d.Buckets, callsAtOnce*t.Load.Partitions
	if err := b.measureChild(ctx, work, r); err != nil {
		return err
	}
	r.MaxResident = 0 // it holds all buckets before it begins, so the figure means nothing
	buckets := database.Collection(bucketsOf(t.Name))
	r.Size = SizeOf(ctx, buckets)
	return countBuckets(ctx, buckets, t.Ends, r)
}

// task returns the fields of a task that all peers have.
func (b *Bench) task(ctx context.Context, t Topic, d Drain) task {
	return task{
		Peer: d.Peer, Brokers: b.Servers.Brokers, MongoURI: b.Servers.MongoURI, Database: d.Database(t), Group: d.Database(t),
		Ends: t.Ends, Server: b.ServerPID(ctx), Kafka: b.kafkaPID(ctx),
	}
}

func (b *Bench) measureChild(ctx context.Context, t task, r *Result) error {
	o, err := b.child(ctx, t)
	r.Wall, r.CPU, r.ServerCPU, r.KafkaCPU, r.MaxResident = o.Wall, o.CPU, o.ServerCPU, o.KafkaCPU, o.MaxResident
	return err
}

// ServerPID returns the id of MongoDB's process, or 0 if it is unknown.
func (b *Bench) ServerPID(ctx context.Context) int32 {
	uri, err := url.Parse(b.Servers.MongoURI)
	if err != nil || uri.Port() == "" {
		return 0 // several servers, or a DNS name for several
	}
	return PIDOf(ctx, uri.Host)
}

// kafkaPID returns the id of Kafka's process, or 0 if it is unknown or there are several.
func (b *Bench) kafkaPID(ctx context.Context) int32 {
	if strings.Contains(b.Servers.Brokers, ",") {
		return 0
	}
	return PIDOf(ctx, b.Servers.Brokers)
}

// note prints a line.
func (b *Bench) note(format string, args ...any) {
	fmt.Fprintf(b.Log, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
