package pipeline_test

import (
	"fmt"
	"slices"
	"time"

	"waterwheel/pipeline"
	"waterwheel/sink"
	"waterwheel/timeseries"
)

// settings are a process's, which may differ from another's.
type settings struct {
	W, G, L, S, R  time.Duration // write timeout, grace, lease, session timeout, rebalance timeout
	static         bool
	commitInterval time.Duration
	flushInterval  time.Duration
	flushCount     int
	warm, reopen   bool
	deltaMax       int32
	maxCount       int32
	maxBytes       int32
}

// process is one consumer: its membership of the group, and its runners.
type process struct {
	w    *world
	slot int
	name string
	settings
	group *coordinator

	dead                bool
	term, rejoin        bool          // asked to stop; a new subscription makes it join again
	paused, cut, zombie time.Duration // until then: stopped; no Kafka; heartbeats alone are answered
	deaf                time.Duration // until then no commit is answered
	crashIn             int           // dies in this call from now on; 0: in none
	tasks               map[*task]bool
	store               *sink.Store
	runners             map[int32]*runner
	tenancy             *generation // nil: between generations
	lastGeneration      int32
	lastOwned           []int32
}

// generation is what a process knows of its present generation.
type generation struct {
	id     int32
	member string
	length time.Duration // of the lease
	// renewed is the send time of the last commit or sync answered 0; believed differs from it in mutations only.
	renewed, believed time.Duration
	over              bool // the coordinator said so
	assigned          bool
	runners           []*runner
	commits           *task
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
		tasks: map[*task]bool{}, runners: map[int32]*runner{},
	}
	ports := sink.Ports{Buckets: port{w, w.mongo.buckets}, Partitions: port{w, w.mongo.parts}, Options: port{w, w.mongo.options}}
	if w.traits.sessions {
		ports.Session = func() (sink.Session, error) { return &session{}, nil }
	}
	p.store = sink.NewStore(ports, sink.StoreOptions{
		Namespace: namespace, Collection: collection, MaxCount: p.maxCount, WriteTimeout: time.Minute, Parallel: 1,
		Lease: p.held, Metrics: sinkMetrics, Logger: w.log,
	})
	w.slots[slot] = p
	w.all = append(w.all, p)
	w.logf("%s starts: %+v", p.name, p.settings)
	p.spawn(p.live, nil)
}

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

// held is the lease as the process believes it.
func (p *process) held() bool {
	g := p.tenancy
	switch {
	case g == nil:
		return false
	case p.w.broken == noLease:
		return true
	case p.w.broken == leaseByHeartbeats:
		return !g.over && p.w.now < g.believed+g.length
	}
	return g.held(p.w.now)
}

// live is the membership, until the process is asked to stop.
func (p *process) live(t *task) {
	k, id, ids := p.group, p.name+"/0", 0
	for !p.term {
		answer, ok := t.askLater(p.R+5*time.Second, func(reply func(any)) { k.join(id, p, reply) })
		if !ok {
			t.sleep(time.Second)
			continue
		}
		join := answer.(joined)
		if join.code == codeFenced {
			break
		}
		g := &generation{id: join.generation, member: id, length: p.L, renewed: p.w.now, believed: p.w.now}
		owned, ok := p.sync(t, g)
		if !ok {
			t.sleep(time.Second)
			continue
		}
		code := p.inGeneration(t, g, owned)
		if code == codeFenced {
			break
		}
		if code == codeUnknown {
			ids++
			id = fmt.Sprintf("%s/%d", p.name, ids)
		}
	}
	if !p.static {
		t.ask(3*time.Second, func() any { return k.leave(id) })
	}
	p.w.at(p.w.now, p.crash)
}

// sync asks for the assignment. The lease counts from its sending.
func (p *process) sync(t *task, g *generation) ([]int32, bool) {
	type assignment struct {
		code  int
		owned []int32
	}
	answer, ok := t.ask(3*time.Second, func() any {
		code, owned := p.group.owned(g.member, g.id)
		return assignment{code, owned}
	})
	if !ok || answer.(assignment).code != codeNone {
		return nil, false
	}
	return answer.(assignment).owned, true
}

// inGeneration lives in a generation until it ends, and returns the answer that ended it.
func (p *process) inGeneration(t *task, g *generation, owned []int32) int {
	p.tenancy = g
	starting := p.spawn(func(t *task) { p.fetchCommitted(t, g, owned) }, nil)
	defer p.endGeneration(g, starting)
	answered, limit := g.renewed, time.Duration(-1)
	revoke := func(end time.Duration, shutdown bool) {
		if limit < 0 {
			limit = end
			p.revoke(g, shutdown)
		}
	}
	for {
		if p.term {
			revoke(p.w.now+p.W+2*time.Second, true)
		}
		if p.rejoin {
			p.rejoin = false
			revoke(answered+p.R/2, false)
		}
		if g.over || limit >= 0 && (p.w.now >= limit || g.handedOver()) {
			return codeIllegal
		}
		t.sleep(p.beatInterval(limit >= 0))
		sent := p.w.now
		answer, ok := p.beat(t, g)
		if !ok {
			continue
		}
		switch code := answer.(int); code {
		case codeNone:
			answered, g.believed = sent, sent
		case codeRebalancing:
			revoke(answered+p.R/2, false)
		default:
			g.over = true
			return code
		}
	}
}

func (p *process) beatInterval(ending bool) time.Duration {
	if ending {
		return 500 * time.Millisecond
	}
	return 2 * time.Second
}

// beat is a heartbeat. A coordinator that is cut off from its cluster may still answer it.
func (p *process) beat(t *task, g *generation) (any, bool) {
	if p.zombie > p.w.now {
		p.w.note("heartbeat answered by a coordinator cut off")
		return codeNone, true
	}
	return t.ask(3*time.Second, func() any { return p.group.check(g.member, g.id, codeRebalancing) })
}

// handedOver tells whether nothing is left to do in the generation.
func (g *generation) handedOver() bool {
	return !slices.ContainsFunc(g.runners, func(r *runner) bool { return !r.ended })
}

// fetchCommitted reads the committed offsets and begins the tenures.
func (p *process) fetchCommitted(t *task, g *generation, owned []int32) {
	var read map[int32]committed
	for read == nil {
		answer, ok := t.ask(3*time.Second, func() any {
			all := map[int32]committed{}
			for _, partition := range owned {
				all[partition] = p.group.read(partition)
			}
			return all
		})
		if ok {
			read = answer.(map[int32]committed)
		} else {
			t.sleep(500 * time.Millisecond)
		}
	}
	p.w.at(p.w.now, func() { p.run(func() { p.assigned(g, owned, read) }) })
}

// assigned begins the tenures of a generation, as pipeline.Consumer does.
func (p *process) assigned(g *generation, owned []int32, read map[int32]committed) {
	if p.tenancy != g || g.over {
		return
	}
	g.assigned = true
	for _, partition := range sortedKeys(p.runners) {
		if !slices.Contains(owned, partition) {
			p.runners[partition].drop()
		}
	}
	consecutive := g.id == p.lastGeneration+1
	for _, partition := range owned {
		r := p.runner(partition)
		r.begin(g)
		g.runners = append(g.runners, r)
	}
	for i, r := range g.runners {
		at := read[owned[i]]
		r.handle(pipeline.Assigned{
			TopicID: p.w.topicSeen(), Committed: at.offset, Metadata: at.metadata,
			Consecutive: consecutive && slices.Contains(p.lastOwned, owned[i]),
		})
	}
	g.commits = p.spawn(func(t *task) { p.committing(t, g) }, nil)
	p.ticking(g)
	p.lastGeneration, p.lastOwned = g.id, owned
}

// topicSeen is the topic's id in the eyes of a group.
func (w *world) topicSeen() [16]byte {
	if w.broken == noTopicID {
		return [16]byte{1}
	}
	return w.kafka.topic
}

// ticking lets the workers look at the clock.
func (p *process) ticking(g *generation) {
	p.w.at(p.w.now+300*time.Millisecond, func() {
		p.run(func() {
			if p.tenancy != g {
				return
			}
			for _, r := range g.runners {
				r.handle(pipeline.Ticked{})
			}
			p.ticking(g)
		})
	})
}

// revoke asks the workers to hand over.
func (p *process) revoke(g *generation, shutdown bool) {
	p.w.logf("%s: revoked (shutdown %v)", p.name, shutdown)
	for _, r := range g.runners {
		if !r.ended {
			r.handle(pipeline.Revoked{Shutdown: shutdown})
			r.stopFetching()
		}
	}
}

// endGeneration ends what is left. Nothing is sent under it any more.
func (p *process) endGeneration(g *generation, starting *task) {
	starting.kill()
	if g.commits != nil {
		g.commits.kill()
	}
	for _, r := range g.runners {
		if !r.ended {
			r.abandon()
		}
	}
	p.tenancy = nil
}

// collection is how the time series of the simulation is defined.
var collection = func() timeseries.Options {
	o, err := timeseries.Options{TimeField: "time", MetaField: "meta", Granularity: timeseries.Seconds}.Normalize()
	if err != nil {
		panic(err)
	}
	return o
}()

// sinkMetrics are shared by all stores: nobody reads them.
var sinkMetrics = sink.NewMetrics(nil)
