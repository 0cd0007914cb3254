package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/sharded"
)

func (r *run) killBroker(ctx context.Context) (bool, error) {
	return r.disturbBroker(ctx, "kill", func(b *harness.Broker) error {
		b.Kill()
		return nil
	})
}

func (r *run) restartBroker(ctx context.Context) (bool, error) {
	return r.disturbBroker(ctx, "restart", func(b *harness.Broker) error { return b.Stop(ctx) })
}

// disturbBroker ends one broker and starts it again. Only one broker is down at a time. The next disturbance waits until all
// replicas are in sync, because the cluster itself must not lose an acknowledged record.
func (r *run) disturbBroker(ctx context.Context, how string, end func(*harness.Broker) error) (bool, error) {
	brokers := r.cluster.Brokers()
	b := brokers[r.random.IntN(len(brokers))]
	away := between(r.random, 0, 6*time.Second)
	if !r.broker.TryLock() {
		return false, nil
	}
	r.working.Go(func() {
		defer r.broker.Unlock()
		r.note("%s broker %d, back after %.1fs", how, b.ID(), away.Seconds())
		if err := end(b); err != nil {
			r.note("%v", err)
		}
		sleep(ctx, away)
		if err := b.Start(); err != nil {
			r.fault("%v", err)
			return
		}
		ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		if err := r.cluster.AwaitBrokers(ctx); err != nil {
			r.fault("%v", err)
		}
	})
	return true, nil
}

func (r *run) killDatabase(ctx context.Context) (bool, error) {
	away := between(r.random, 0, 5*time.Second)
	process := r.random.IntN(len(r.database.processes))
	r.note("kill process %d of the database, back after %.1fs", process, away.Seconds())
	return true, r.database.restart(ctx, process, away)
}

// database holds the processes of a database that the run itself starts. A sharded cluster has several. Without commands the
// database is foreign and has no processes.
type database struct {
	commands  [][]string
	host      string
	processes []*harness.Consumer
}

// startDatabase starts the processes of the database, if the options have commands, and waits until it accepts connections.
func startDatabase(ctx context.Context, o Options) (*database, error) {
	uri, err := url.Parse(o.MongoURI)
	if err != nil {
		return nil, fmt.Errorf("reading the database's URI: %w", err)
	}
	d := &database{commands: o.DatabaseCommands, host: uri.Host}
	for _, command := range d.commands {
		process, err := harness.Start(command[0], harness.Settings{}, command[1:]...)
		if err != nil {
			return d, err
		}
		d.processes = append(d.processes, process)
	}
	return d, d.await(ctx)
}

// restart kills a process, starts it again after some time on the data it had, and waits until the database accepts connections.
func (d *database) restart(ctx context.Context, process int, away time.Duration) (err error) {
	d.processes[process].Kill()
	sleep(ctx, away)
	command := d.commands[process]
	if d.processes[process], err = harness.Start(command[0], harness.Settings{}, command[1:]...); err != nil {
		return err
	}
	return d.await(ctx)
}

func (d *database) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		connection, err := net.DialTimeout("tcp", d.host, time.Second)
		if err == nil {
			return connection.Close()
		}
		for i, process := range d.processes {
			if !process.Running() {
				return fmt.Errorf("process %d of the database ended by itself:\n%s", i, process.Log())
			}
		}
		if sleep(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("waiting for the database: %w", errors.Join(err, ctx.Err()))
		}
	}
}

func (d *database) close() {
	for _, process := range d.processes {
		if process != nil {
			process.Kill()
		}
	}
}

// chunkPause is the pause between two moves of chunks.
const chunkPause = 3 * time.Second

// shard shards the run's empty collection. A cluster that has just started may refuse that for a while.
func (r *run) shard(ctx context.Context) (err error) {
	if r.options.ShardKey == "" {
		return nil
	}
	if r.router, err = mongo.Connect(options.Client().ApplyURI(r.options.MongoURI)); err != nil {
		return fmt.Errorf("connecting to the router: %w", err)
	}
	if r.shards, err = sharded.Of(ctx, r.router); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	code, output, err := r.command(ctx, "init", "--shard", r.options.ShardKey)
	if err == nil && code != 0 {
		err = fmt.Errorf("init ended with code %d:\n%s", code, output)
	}
	return err
}

// moveChunks moves chunks of the sharded collection until the context ends.
func (r *run) moveChunks(ctx context.Context) {
	moved, refused := r.shards.Chunks(r.databaseName(), r.topic, "time").Disturb(ctx, chunkPause)
	r.result.ChunksMoved = moved
	for why, n := range refused {
		r.note("refused %d times: %s", n, why)
	}
}

// stepDown makes the primary of a shard or of the config servers step down.
func (r *run) stepDown(ctx context.Context) (bool, error) {
	sets := slices.Sorted(maps.Keys(r.shards.Sets))
	set, away := sets[r.random.IntN(len(sets))], between(r.random, time.Second, 6*time.Second)
	r.working.Go(func() {
		r.note("the primary of %s steps down for %.1fs", set, away.Seconds())
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if err := r.shards.StepDown(ctx, set, away); err != nil {
			r.note("%v", err) // the process may have been killed meanwhile, for example
		}
	})
	return true, nil
}
