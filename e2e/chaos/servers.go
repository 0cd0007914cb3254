package chaos

import (
	"context"
	"fmt"
	"net"
	"net/url"
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
	r.database.kill(process)
	sleep(ctx, away)
	return true, r.database.start(ctx, process)
}

// database holds the processes of a database that the run itself starts. A sharded cluster has several. Without commands the
// database is foreign and has no processes.
type database struct {
	commands  [][]string
	host      string
	processes []*harness.Consumer
}

// startDatabase starts the processes of the database and waits until it accepts connections. It starts nothing if the options
// have no commands.
func startDatabase(ctx context.Context, o Options) (*database, error) {
	uri, err := url.Parse(o.MongoURI)
	if err != nil {
		return nil, fmt.Errorf("reading the database's URI: %w", err)
	}
	d := &database{commands: o.DatabaseCommands, host: uri.Host, processes: make([]*harness.Consumer, len(o.DatabaseCommands))}
	for i := range d.commands {
		if err := d.launch(i); err != nil {
			return d, err
		}
	}
	if len(d.commands) == 0 {
		return d, nil
	}
	return d, d.await(ctx)
}

func (d *database) launch(process int) (err error) {
	command := d.commands[process]
	d.processes[process], err = harness.Start(command[0], harness.Settings{}, command[1:]...)
	return err
}

// start restarts a killed process on the data it had, and waits until the database accepts connections.
func (d *database) start(ctx context.Context, process int) error {
	if err := d.launch(process); err != nil {
		return err
	}
	return d.await(ctx)
}

// restart kills each process, and starts it again. On MongoDB 5.0 a primary that has stepped down during the move of a chunk may
// hang, and only an operator can end that.
func (d *database) restart(ctx context.Context) error {
	for process := range d.processes {
		d.kill(process)
		if err := d.start(ctx, process); err != nil {
			return err
		}
	}
	return nil
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
			select {
			case <-process.Ended():
				return fmt.Errorf("process %d of the database ended by itself:\n%s", i, process.Log())
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the database: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (d *database) kill(process int) { d.processes[process].Kill() }

func (d *database) close() {
	for _, process := range d.processes {
		if process != nil {
			process.Kill()
		}
	}
}

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
