package pipeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
	"waterwheel/sink"

	"github.com/prometheus/client_golang/prometheus"
)

// settings are the settings of a process. Processes may have different settings.
type settings struct {
	W, G, L, S, R    time.Duration // write timeout, grace, lease, session timeout, rebalance timeout
	static           bool
	eager            bool // the process gives up all partitions before it joins again
	commitInterval   time.Duration
	flushInterval    time.Duration
	flushCount       int
	send             int64 // maximum bytes of the first SendWrites
	callWrites       int   // maximum writes of one bulk call
	flushWrites      int   // maximum writes of one flush. Zero means the usual number.
	portion          int   // a small portion takes one or two records at a time
	deadLetterBuffer int64 // a small buffer is full with one letter
	warm, reopen     bool
	deltaMax         int32
	maxCount         int32
	maxBytes         int32
	window           int64 // size of the window of stored positions in offsets
	storedBytes      int64 // maximum bytes of the stored positions
	denseFrom        int32 // measurements from which on a series goes into buckets instead of segments
	compactInterval  time.Duration
	compactDelay     time.Duration
	segmentRetention time.Duration
	compactBytes     int64
	stopOnBad        bool // DLQ_TOPIC is empty
	outOfRange       claim.OutOfRange
}

// process is one consumer, with its membership of the group and its runners.
type process struct {
	w     *world
	slot  int
	name  string
	began time.Duration
	again bool // this repair has asked to be run again
	settings
	group *coordinator
	zero  time.Duration // reading of its clock when the world began

	dead                bool
	term, rejoin        bool            // asked to stop; a new subscription makes it join again
	announced           time.Duration   // until then a stop waits for the next generation. Zero means that it was not announced.
	paused, cut, zombie time.Duration   // ends of times in which the process is stopped, has no Kafka, or gets answers to heartbeats only
	only                bool            // only the coordinator is unreachable, the other brokers are not
	deposed             bool            // a partitioned coordinator answers pending requests when it learns that it is deposed
	deaf                time.Duration   // until then no commit is answered
	crashIn             int             // number of calls until the process dies. Zero means that it does not die.
	evictIn             pipeline.Action // loses its membership while its next claim or release is in flight. Nil means that it does not.
	tasks               map[*task]bool
	store               *sink.Store
	options             timeseries.Options // options of the collection, as the process follows them
	runners             map[int32]*runner
	present             *generation // the newest generation. Nil means that the process is not in the group.
	last                *generation // the last generation with an assignment
	next                *entered    // result of joining while work continues. Nil means none yet.
	joins, commits      *task
	assignment          pipeline.AssignmentSet
	budget              *pipeline.Budget // memory budget
	others              *pipeline.Worker // holds the memory that a runner may not have
}

// generation is a process's knowledge of a generation.
type generation struct {
	p      *process
	id     int32
	member string
	length time.Duration // of the lease
	// taken is the send time of the last commit answered with 0. renewed is the send time of the one before, which this commit
	// proves. believed differs from renewed only in mutations.
	taken, renewed, believed time.Duration
	follows                  bool // no other member can have been assigned a partition since the previous generation of this process
	joining                  bool // the process has asked for the next generation
	over                     bool // the coordinator has said that the generation is over
	assigned                 bool
}

func (g *generation) held(now time.Duration) bool { return !g.over && now < g.renewed+g.length }

func (p *process) slotName() string { return fmt.Sprintf("i%d", p.slot) }

// start starts a process in a slot.
func (w *world) start(slot int) {
	if old := w.slots[slot]; !w.chaos && old != nil && !old.dead {
		return
	}
	p := &process{
		w: w, slot: slot, name: fmt.Sprintf("P%d.%d", slot, len(w.all)), settings: w.settings(), group: w.group,
		zero: w.between(0, 1e6), tasks: map[*task]bool{}, runners: map[int32]*runner{},
		budget: pipeline.NewBudget(simBudget), others: &pipeline.Worker{},
	}
	ports := collection.Ports{Buckets: port{w: w, of: w.mongo.buckets}, Partitions: port{w: w, of: w.mongo.parts}, Options: port{w: w, of: w.mongo.options}}
	ports.Clock = func(ctx context.Context) (time.Time, error) {
		_, err := port{w: w, of: w.mongo.buckets}.moment(ctx)
		return w.mongo.clock(), err
	}
	if w.traits.sessions {
		ports.Session = func() (mongodb.Session, error) { return &session{}, nil }
	}
	if w.traits.sharded && w.broken != fenceOnOneShard {
		ports.FenceShards = port{w: w, of: w.mongo.buckets}.fence
	}
	p.store = sink.NewStore(collection.Ready{Ports: ports, Namespace: namespace, Options: simCollection}, sink.StoreOptions{
		MaxCount: p.maxCount, WriteTimeout: p.W, Parallel: 1, StoredBytes: p.storedBytes,
		CallWrites: p.callWrites, Clock: p.clock,
		Lease: p.held, Metrics: sinkMetrics, Logger: w.log,
	})
	w.slots[slot] = p
	w.all = append(w.all, p)
	w.logf("%s starts: %+v", p.name, p.settings)
	p.spawn(p.live, nil)
	p.followOptions()
}

// clock returns the time of the process's own clock, which other processes cannot compare with theirs.
func (p *process) clock() pipeline.Instant { return p.zero + p.w.now }

// run calls do for the process. It does nothing if the process is dead, and waits if it is stopped.
func (p *process) run(do func()) {
	switch {
	case p.dead:
	case p.paused > p.w.now:
		p.w.at(p.paused, func() { p.run(do) })
	default:
		do()
	}
}

// crash kills the process.
func (p *process) crash() {
	if p.dead {
		return
	}
	p.w.logf("%s is dead", p.name)
	p.dead = true
	for t := range p.tasks {
		t.kill()
	}
}

// held reports whether the process may write, as pipeline.Consumer does.
func (p *process) held() bool {
	working := p.working()
	return p.present != nil && (len(working) > 0 || p.holds(p.present)) &&
		!slices.ContainsFunc(working, func(r *runner) bool { return !p.holds(r.gen) })
}

// holds reports whether the process believes that it holds a lease.
func (p *process) holds(g *generation) bool {
	switch p.w.broken {
	case noLease:
		return true
	case leaseByHeartbeats:
		return !g.over && p.w.now < g.believed+g.length
	}
	return g.held(p.w.now)
}

// topicSeen returns the topic's id, as groups see it.
func (w *world) topicSeen() [16]byte {
	if w.broken == noTopicID {
		return [16]byte{1}
	}
	return w.kafka.topic
}

// simCollection is the definition of the simulation's time series.
var simCollection = func() timeseries.Options {
	o, err := timeseries.Options{TimeField: "time", MetaField: "meta", Granularity: timeseries.Seconds}.Normalize()
	if err != nil {
		panic(err)
	}
	return o
}()

// No test reads these metrics and logs of the stores and workers.
var (
	sinkMetrics   = sink.NewMetrics(nil)
	unreadMetrics = pipeline.NewMetrics(prometheus.NewRegistry())
	unreadOutages = pipeline.NewOutages(slog.New(slog.DiscardHandler), func() pipeline.Instant { return 0 })
)
