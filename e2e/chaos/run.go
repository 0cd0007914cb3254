package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/sharded"
	"waterwheel/e2e/naive"
)

// setupTries is how often the set-up is tried. A set-up that fails because the machine is busy says nothing about consumers.
const setupTries = 3

// run is a run in progress.
type run struct {
	options  Options
	topic    string
	begin    time.Time
	random   *rand.Rand // only the loop uses it
	cluster  *harness.Cluster
	servers  *harness.Servers
	kafka    *check.Kafka
	database *database
	router   *mongo.Client    // of the sharded cluster. Nil means that the buckets are not sharded.
	shards   *sharded.Cluster // nil if router is
	load     *load
	members  []*member
	settings harness.Settings

	// standing is held for reading by a disturbance of one member, and for writing by a disturbance that needs all members.
	standing sync.RWMutex
	broker   sync.Mutex // held while a broker is disturbed
	operator sync.Mutex // held while a command of an operator runs
	working  sync.WaitGroup

	pulsing   sync.WaitGroup
	stopPulse context.CancelFunc // nil before the pulse starts

	mu     sync.Mutex
	result Result
}

// Run makes a run and returns its result. An error means that the run could not be completed. A set-up that fails is tried again.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		r := newRun(o, "readings")
		err := r.start(ctx)
		if err == nil {
			err = r.all(ctx)
			return &r.result, errors.Join(err, r.close())
		}
		err = errors.Join(err, r.close())
		if try == setupTries || ctx.Err() != nil {
			return nil, err
		}
		r.note("set-up, try %d of %d: %v", try, setupTries, err)
	}
}

func newRun(o Options, topic string) *run {
	return &run{
		options: o, topic: topic, begin: time.Now(), random: rand.New(rand.NewPCG(o.Seed, 2)),
		result: Result{Actions: map[string]int{}, WriteGrace: 2 * o.WriteTimeout, Report: &check.Report{}},
	}
}

// start starts the servers, the members and the load.
func (r *run) start(ctx context.Context) error {
	if err := os.MkdirAll(r.options.Dir, 0o750); err != nil {
		return fmt.Errorf("making the run's folder: %w", err)
	}
	var err error
	if r.database, err = startDatabase(ctx, r.options); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(r.options.Dir, "kafka-")
	if err != nil {
		return fmt.Errorf("making the brokers' folder: %w", err)
	}
	options := harness.ClusterOptions{Jars: r.options.Jars, Dir: dir, Brokers: 3, Links: mostMembers}
	if r.cluster, err = harness.StartCluster(ctx, options); err != nil {
		return err
	}
	return r.startMembers(ctx)
}

// startMembers creates the topic, and starts the members and the load.
func (r *run) startMembers(ctx context.Context) error {
	var err error
	if r.servers, err = harness.GivenServers(ctx, r.cluster.Address(), r.options.MongoURI); err != nil {
		return err
	}
	if r.kafka, err = check.DialKafka(r.cluster.Address()); err != nil {
		return err
	}
	if err := r.servers.CreateTopic(ctx, r.topic, r.options.Partitions); err != nil {
		return err
	}
	r.settings = r.servers.Short(r.topic, r.databaseName()).With(
		"EVENT_MAX_BYTES", fmt.Sprint(maxEventBytes),
		"MONGODB_WRITE_TIMEOUT", r.options.WriteTimeout.String(), "KAFKA_REBALANCE_TIMEOUT", (3 * r.options.WriteTimeout).String()).With(r.options.Settings...)
	if r.options.Naive {
		r.settings = r.settings.With(naive.Positions, "yes")
	}
	if err := r.shard(ctx); err != nil {
		return err
	}
	for slot := range mostMembers {
		m, err := r.newMember(slot)
		if err != nil {
			return err
		}
		r.members = append(r.members, m)
	}
	for _, m := range r.members[:r.options.Members] {
		if err := m.start(); err != nil {
			return err
		}
	}
	r.load = r.startLoad(ctx)
	ctx, r.stopPulse = context.WithCancel(ctx)
	r.pulsing.Go(func() { r.pulse(ctx) })
	return nil
}

// databaseName returns a database name that only this run uses.
func (r *run) databaseName() string { return fmt.Sprintf("chaos-%x", r.begin.UnixNano()) }

// all runs the disturbances, drains the topic and judges the result.
func (r *run) all(ctx context.Context) error {
	r.note("begin: seed %d, %d records/s over %d series, %s", r.options.Seed, r.options.Rate, r.options.Series, r.options.Duration)
	meanwhile, stop := context.WithCancel(ctx)
	if r.options.Look > 0 {
		r.working.Go(func() { r.look(meanwhile) })
	}
	if r.shards != nil {
		r.working.Go(func() { r.moveChunks(meanwhile) })
	}
	err := r.disturb(ctx)
	stop()
	r.working.Wait()
	r.watch()
	r.result.Seconds = time.Since(r.load.begin).Seconds()
	r.result.Produced = int(r.load.produced.Load())
	err = errors.Join(err, r.load.stop())
	if err != nil {
		return err
	}
	if err := r.drain(ctx); err != nil {
		return err
	}
	return r.judge(ctx)
}

// disturb starts disturbances until the run's duration is over.
func (r *run) disturb(ctx context.Context) error {
	end := time.NewTimer(r.options.Duration)
	defer end.Stop()
	for {
		wait := time.Duration((0.5 + r.random.Float64()) * float64(r.options.Every))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return nil
		case err := <-r.load.failed:
			return err
		case <-time.After(wait):
		}
		r.watch()
		if err := r.act(ctx); err != nil {
			return err
		}
	}
}

// patience is how long the consumers may take at the end to store the rest.
const patience = 5 * time.Minute

// drain waits until the group has stored the rest, and ends the members.
func (r *run) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begin := time.Now()
	if err := r.cluster.AwaitBrokers(ctx); err != nil {
		return err
	}
	// On MongoDB 5.0 a primary that has stepped down during the move of a chunk may hang, and only an operator can end that.
	for process := range r.database.processes {
		if err := r.database.restart(ctx, process, 0); err != nil {
			return err
		}
	}
	for _, m := range r.members[:leastMembers] {
		if err := m.start(); err != nil {
			return err
		}
	}
	r.note("no more disturbances; waiting for the rest to be stored")
	topic, _, err := r.kafka.Topic(ctx, r.topic)
	if err != nil {
		return err
	}
	err = r.kafka.AwaitCommitted(ctx, r.group(), topic)
	r.result.DrainSeconds = time.Since(begin).Seconds()
	r.watch()
	if err != nil {
		r.fault("%v", err)
	}
	if r.options.hasRollups() {
		r.awaitRollups(ctx)
	}
	r.stopAll(context.WithoutCancel(ctx))
	r.stopPulse()
	r.pulsing.Wait()
	return nil
}

func (r *run) group() string { return r.settings["KAFKA_GROUP_ID"] }

// watch notes members that ended by themselves, and starts them again.
func (r *run) watch() {
	for _, m := range r.members {
		if !m.busy.TryLock() {
			continue
		}
		m.watch()
		m.busy.Unlock()
	}
}

// note prints a line with the time since the start of the run.
func (r *run) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.options.Log, "%7.1fs  %s\n", time.Since(r.begin).Seconds(), fmt.Sprintf(format, args...))
}

// fault records an event that must not happen, no matter which measurements are stored.
func (r *run) fault(format string, args ...any) {
	r.note("FAULT: "+format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Faults = append(r.result.Faults, fmt.Sprintf(format, args...))
}

// close stops everything the run started. It drops the run's database unless the result has an error.
func (r *run) close() error {
	var errs []error
	for _, m := range r.members {
		m.close()
	}
	if r.load != nil {
		errs = append(errs, r.load.stop())
	}
	if r.stopPulse != nil {
		r.stopPulse()
		r.pulsing.Wait()
	}
	if r.router != nil {
		_ = r.router.Disconnect(context.Background())
	}
	if r.kafka != nil {
		r.kafka.Close()
	}
	if r.servers != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if r.result.Err() == nil {
			errs = append(errs, r.servers.DropDatabase(ctx, r.databaseName()))
		} else {
			r.note("the stored measurements stay in the database %s", r.databaseName())
		}
		errs = append(errs, r.servers.Close())
	}
	if r.cluster != nil {
		errs = append(errs, r.cluster.Close())
	}
	if r.database != nil {
		r.database.close()
	}
	return errors.Join(errs...)
}
