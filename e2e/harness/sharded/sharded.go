// Package sharded disturbs a sharded cluster of MongoDB as an operator or the balancer does. It splits and moves chunks, and
// makes primaries step down.
package sharded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/internal/timeseries"
)

// Cluster is a sharded cluster, reached through a router.
type Cluster struct {
	client *mongo.Client
	// Shards are the names of the shards. Sets holds the addresses of the members of each replica set, including "config".
	Shards []string
	Sets   map[string][]string
}

// ErrNoRouter means that a server is no router of a sharded cluster.
var ErrNoRouter = errors.New("the server is no router (mongos) of a sharded cluster")

// Of asks a router about its cluster. The client still belongs to the caller, who closes it.
func Of(ctx context.Context, client *mongo.Client) (*Cluster, error) {
	c := &Cluster{client: client, Sets: map[string][]string{}}
	var hello struct {
		Message string `bson:"msg"`
	}
	err := c.admin(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
	unknown := mongo.CommandError{}
	switch {
	case err != nil && !errors.As(err, &unknown): // servers that do not know the command are no routers either
		return nil, fmt.Errorf("asking whether the server is a router: %w", err)
	case hello.Message != "isdbgrid":
		return nil, ErrNoRouter
	}
	var sets struct {
		Map map[string]string `bson:"map"`
	}
	if err := c.admin(ctx, bson.D{{Key: "getShardMap", Value: 1}}).Decode(&sets); err != nil {
		return nil, fmt.Errorf("asking for the servers of the cluster: %w", err)
	}
	for name, members := range sets.Map {
		_, hosts, ok := strings.Cut(members, "/")
		if !ok {
			return nil, fmt.Errorf("the shard %s is no replica set: %s", name, members)
		}
		c.Sets[name] = strings.Split(hosts, ",")
		if name != "config" {
			c.Shards = append(c.Shards, name)
		}
	}
	slices.Sort(c.Shards)
	return c, nil
}

func (c *Cluster) admin(ctx context.Context, command bson.D) *mongo.SingleResult {
	return c.client.Database("admin").RunCommand(ctx, command)
}

// StepDown makes the primary of a replica set step down. The member is not elected again for the time away.
func (c *Cluster) StepDown(ctx context.Context, set string, away time.Duration) error {
	var errs []error
	for _, member := range c.Sets[set] {
		err := stepDown(ctx, member, away)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("no primary of %s stepped down: %w", set, errors.Join(errs...))
}

func stepDown(ctx context.Context, member string, away time.Duration) error {
	client, err := mongo.Connect(options.Client().SetHosts([]string{member}).SetDirect(true))
	if err != nil {
		return err
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	command := bson.D{{Key: "replSetStepDown", Value: int64(away.Seconds()) + 1}, {Key: "secondaryCatchUpPeriodSecs", Value: 0}, {Key: "force", Value: true}}
	return client.Database("admin").RunCommand(ctx, command).Err()
}

// Chunks is the chunks of a sharded collection of buckets.
type Chunks struct {
	cluster *Cluster
	buckets *mongo.Collection
	time    string
}

// Chunks returns the chunks of the buckets of a time series. timeField is the name of its time field.
func (c *Cluster) Chunks(database, series, timeField string) *Chunks {
	return &Chunks{cluster: c, buckets: c.client.Database(database).Collection(series + timeseries.BucketsSuffix), time: timeField}
}

func (c *Chunks) namespace() string { return c.buckets.Database().Name() + "." + c.buckets.Name() }

// Split splits a chunk at the key of a random document. The cluster refuses a split at a key where a chunk already begins.
func (c *Chunks) Split(ctx context.Context) error {
	cursor, err := c.buckets.Aggregate(ctx, bson.A{bson.D{{Key: "$sample", Value: bson.D{{Key: "size", Value: 1}}}}})
	if err != nil {
		return fmt.Errorf("looking for a document to split at: %w", err)
	}
	var sample []bson.Raw
	if err := cursor.All(ctx, &sample); err != nil || len(sample) == 0 {
		return err
	}
	key := bson.D{{Key: timeseries.FieldMeta, Value: nil}}
	if meta := sample[0].Lookup(timeseries.FieldMeta); meta.Type != 0 {
		key[0].Value = meta
	}
	least := sample[0].Lookup(timeseries.FieldControl, timeseries.FieldMin)
	key = append(key, bson.E{Key: timeseries.MinPath(c.time), Value: least.Document().Lookup(c.time)})
	err = c.cluster.admin(ctx, bson.D{{Key: "split", Value: c.namespace()}, {Key: "find", Value: key}}).Err()
	if err != nil {
		return fmt.Errorf("splitting a chunk: %w", err)
	}
	return nil
}

// chunk is a part of a sharded collection.
type chunk struct {
	Min   bson.Raw `bson:"min"`
	Max   bson.Raw `bson:"max"`
	Shard string   `bson:"shard"`
}

func (c *Chunks) all(ctx context.Context) (all []chunk, err error) {
	config := c.cluster.client.Database("config")
	entry, err := config.Collection("collections").FindOne(ctx, bson.D{{Key: "_id", Value: c.namespace()}}).Raw()
	if err != nil {
		return nil, fmt.Errorf("looking for the sharded collection: %w", err)
	}
	of := bson.A{bson.D{{Key: "ns", Value: c.namespace()}}}
	if id := entry.Lookup("uuid"); id.Type != 0 { // since MongoDB 5.0 chunks name the collection by its uuid
		of = append(of, bson.D{{Key: "uuid", Value: id}})
	}
	cursor, err := config.Collection("chunks").Find(ctx, bson.D{{Key: "$or", Value: of}})
	if err == nil {
		err = cursor.All(ctx, &all)
	}
	if err == nil && len(all) == 0 {
		err = errors.New("the collection has no chunks")
	}
	return all, err
}

// longestMove is how long Move waits for the cluster, which may go on moving the chunk afterwards.
const longestMove = 20 * time.Second

// Move moves a random chunk to another shard. The cluster may refuse it, for example while another chunk is moved. A shard takes
// a chunk back only after it has deleted the old copy (orphanCleanupDelaySecs, 15 minutes by default).
func (c *Chunks) Move(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, longestMove)
	defer cancel()
	all, err := c.all(ctx)
	if err != nil {
		return err
	}
	one := all[rand.IntN(len(all))]
	others := slices.DeleteFunc(slices.Clone(c.cluster.Shards), func(shard string) bool { return shard == one.Shard })
	err = c.cluster.admin(ctx, bson.D{
		{Key: "moveChunk", Value: c.namespace()},
		{Key: "bounds", Value: bson.A{one.Min, one.Max}},
		{Key: "to", Value: others[rand.IntN(len(others))]},
	}).Err()
	if err != nil {
		return fmt.Errorf("moving a chunk: %w", err)
	}
	return nil
}

// Count counts the chunks.
func (c *Chunks) Count(ctx context.Context) (int, error) {
	all, err := c.all(ctx)
	return len(all), err
}

// Disturb splits and moves chunks, with a pause after each, until the context ends. It returns the number of moved chunks.
// refused counts the cluster's refusals by kind.
func (c *Chunks) Disturb(ctx context.Context, pause time.Duration) (moved int, refused map[string]int) {
	refused = map[string]int{}
	for n := 0; ctx.Err() == nil; n++ {
		var err error
		if n%4 == 0 {
			err = c.Split(ctx)
		}
		if err == nil {
			if err = c.Move(ctx); err == nil {
				moved++
			}
		}
		if err != nil && ctx.Err() == nil {
			refused[kind(err)]++
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return moved, refused
}

// kind returns the kind of an error instead of its message, which may name one chunk of thousands.
func kind(err error) string {
	if refused, ok := errors.AsType[mongo.CommandError](err); ok && refused.Name != "" {
		return refused.Name
	}
	if mongo.IsTimeout(err) {
		return "no answer in time"
	}
	if mongo.IsNetworkError(err) {
		return "connection lost"
	}
	return err.Error()
}
