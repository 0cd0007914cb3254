package chaos

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/sharded"
)

// shards is the sharded cluster of a run, whose chunks move. moved and refused may be read once ended is closed.
type shards struct {
	client  *mongo.Client
	cluster *sharded.Cluster
	cancel  context.CancelFunc
	ended   chan struct{}
	moved   int
	refused map[string]int
}

// shard shards the run's empty collection, and begins to move its chunks.
func (r *run) shard(ctx context.Context) error {
	if r.options.ShardKey == "" {
		return nil
	}
	client, err := mongo.Connect(options.Client().ApplyURI(r.options.MongoURI))
	if err != nil {
		return fmt.Errorf("connecting to the router: %w", err)
	}
	cluster, err := sharded.Of(ctx, client)
	if err == nil {
		err = r.init(ctx)
	}
	if err != nil {
		_ = client.Disconnect(context.WithoutCancel(ctx))
		return err
	}
	s := &shards{client: client, cluster: cluster, ended: make(chan struct{})}
	ctx, s.cancel = context.WithCancel(ctx)
	r.shards = s
	chunks := s.cluster.Chunks(r.databaseName(), r.topic, "time")
	go func() {
		defer close(s.ended)
		s.moved, s.refused = chunks.Disturb(ctx, r.options.ChunkPause)
	}()
	return nil
}

// init creates the sharded collections. A cluster that has just started may refuse to shard them for a while.
func (r *run) init(ctx context.Context) (err error) {
	for range 3 {
		if err = r.initOnce(ctx); err == nil || ctx.Err() != nil {
			return err
		}
		r.note("%v", err)
	}
	return err
}

func (r *run) initOnce(ctx context.Context) error {
	c, err := harness.Start(r.options.Binary, r.settings.With("MONGODB_URI", r.options.MongoURI), "init", "--shard", r.options.ShardKey)
	if err != nil {
		return err
	}
	defer c.Kill()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	code, err := c.Wait(ctx)
	if err == nil && code != 0 {
		err = fmt.Errorf("init ended with code %d:\n%s", code, c.Log())
	}
	return err
}

// stepDown makes the primary of a shard or of the config servers step down.
func (r *run) stepDown(ctx context.Context) (bool, error) {
	sets := r.shards.cluster.Sets()
	set, away := sets[r.random.IntN(len(sets))], between(r.random, time.Second, 6*time.Second)
	r.working.Go(func() {
		r.note("the primary of %s steps down for %.1fs", set, away.Seconds())
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if err := r.shards.cluster.StepDown(ctx, set, away); err != nil {
			r.note("%v", err) // the process may have been killed meanwhile, for example
		}
	})
	return true, nil
}

// stopMoving stops the moves of chunks, if there are any, and records their number.
func (r *run) stopMoving() {
	s := r.shards
	if s == nil {
		return
	}
	r.shards = nil
	s.cancel()
	<-s.ended
	r.result.ChunksMoved = s.moved
	for why, n := range s.refused {
		r.note("refused %d times: %s", n, why)
	}
	_ = s.client.Disconnect(context.Background())
}
