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

// settings are a process's, which may differ from another's.
type settings struct {
	W, G, L, S, R    time.Duration // write timeout, grace, lease, session timeout, rebalance timeout
	static           bool
	eager            bool // it lets go of all partitions before it joins again
	commitInterval   time.Duration
	flushInterval    time.Duration
	flushCount       int
	send             int64 // what the first SendWrites may carry, at most
	callWrites       int   // of one bulk call
	flushWrites      int   // of one flush. Zero means the usual number.
	portion          int   // a small one takes a record or two at a time
	letterBuffer     int64 // a small one is full with one letter
	warm, reopen     bool
	deltaMax         int32
	maxCount         int32
	maxBytes         int32
	window           int64 // of D, offsets
	storedBytes      int64 // of D
	denseFrom        int32 // measurements of a series that go into no segment
	compactInterval  time.Duration
	compactDelay     time.Duration
	segmentRetention time.Duration
	compactBytes     int64
	stopOnBad        bool // DLQ_TOPIC is empty
	outOfRange       claim.OutOfRange
}

// process is one consumer: its membership of the group, and its runners.
type process struct {
	w     *world
	slot  int
	name  string
	began time.Duration
	again bool // it has asked to be run again, of a repair
	settings
	group *coordinator
	zero  time.Duration // what its clock showed when the world began

	dead                bool
	term, rejoin        bool            // asked to stop; a new subscription makes it join again
	announced           time.Duration   // until when a stop waits for the next generation. Zero means that it was not announced.
	paused, cut, zombie time.Duration   // until then: stopped; no Kafka; heartbeats alone are answered
	only                bool            // the coordinator is cut off, the other brokers are not
	deposed             bool            // a coordinator cut off answers what is pending when it learns that it is none any more
	deaf                time.Duration   // until then no commit is answered
	crashIn             int             // dies in this call from now on. Zero means that it does not.
	evictIn             pipeline.Action // loses its membership while its next claim, or release, is on its way. Nil means that it does not.
	tasks               map[*task]bool
	store               *sink.Store
	options             timeseries.Options // of the collection, as it follows them
	runners             map[int32]*runner
	present             *generation // the newest. Nil means that it is not in the group.
	last                *generation // that was assigned
	next                *entered    // what came of joining while the work goes on. Nil means nothing yet.
	joins, commits      *task
	assignment          pipeline.AssignmentSet
	budget              *pipeline.Budget // of memory
	others              *pipeline.Worker // takes what a runner may not have
}

// generation is what a process knows of a generation.
type generation struct {
	p      *process
	id     int32
	member string
	length time.Duration // of the lease
	// taken is the send time of the last commit answered 0, renewed that of the one before, which it proves; believed differs from
	// renewed in mutations only.
	taken, renewed, believed time.Duration
	follows                  bool // nobody can have been assigned anything since the generation that this process was in before
	joining                  bool // the next one was asked for
	over                     bool // the coordinator said so
	assigned                 bool
}

func (g *generation) held(now time.Duration) bool { return !g.over && now < g.renewed+g.length }

func (p *process) slotName() string { return fmt.Sprintf("i%d", p.slot) }

// start begins a process in a slot.
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

// clock is the process's own: it means nothing to another.
func (p *process) clock() pipeline.Instant { return p.zero + p.w.now }

// run does something as the process: not when it is dead, later when it is stopped.
func (p *process) run(do func()) {
	switch {
	case p.dead:
	case p.paused > p.w.now:
		p.w.at(p.paused, func() { p.run(do) })
	default:
		do()
	}
}

// crash ends the process without a word.
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

// held reports whether anything may be written, as pipeline.Consumer does.
func (p *process) held() bool {
	working := p.working()
	return p.present != nil && (len(working) > 0 || p.holds(p.present)) &&
		!slices.ContainsFunc(working, func(r *runner) bool { return !p.holds(r.gen) })
}

// holds is a lease as the process believes it.
func (p *process) holds(g *generation) bool {
	switch p.w.broken {
	case noLease:
		return true
	case leaseByHeartbeats:
		return !g.over && p.w.now < g.believed+g.length
	}
	return g.held(p.w.now)
}

// topicSeen is the topic's id in the eyes of a group.
func (w *world) topicSeen() [16]byte {
	if w.broken == noTopicID {
		return [16]byte{1}
	}
	return w.kafka.topic
}

// collection is how the time series of the simulation is defined.
var simCollection = func() timeseries.Options {
	o, err := timeseries.Options{TimeField: "time", MetaField: "meta", Granularity: timeseries.Seconds}.Normalize()
	if err != nil {
		panic(err)
	}
	return o
}()

// What all stores and workers count and write, nobody reads.
var (
	sinkMetrics   = sink.NewMetrics(nil)
	unreadMetrics = pipeline.NewMetrics(prometheus.NewRegistry())
	unreadOutages = pipeline.NewOutages(slog.New(slog.DiscardHandler), func() pipeline.Instant { return 0 })
)
