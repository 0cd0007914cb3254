package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
)

// runner feeds events to one worker. The product carries out the worker's actions, in tasks.
type runner struct {
	p         *process
	partition int32
	worker    *pipeline.Worker
	source    timeseries.Source
	executor  *pipeline.Executor
	applied   timeseries.Options // options of the collection
	tasks     map[*task]bool
	gen       *generation        // generation whose lease counts. Nil means that there was no term.
	leaving   bool               // the partition belongs to another process by now
	next      *pipeline.Assigned // assignment that begins when the term is handed over. Nil means none.
	turn      int                // number of terms so far
	read      claim.Committed    // result of the last read of the commit, in the term readIn
	readIn    int
	ended     bool // the term has ended
	halted    bool
	phase     string

	term      *term
	saw       claim.Document // the last read document
	sawAt     time.Duration  // when this version of it was first read
	readAt    int64          // state that the last read of the stored positions saw
	sentClaim claim.Token
	won       claim.Token // claim of the last term that reached the writing phase
	hidden    claim.Token // claim that a lying Read hid
	sent      sentWrites
	cutOff    bool // the last term was abandoned with unknown writes
}

// runner returns the runner of a partition. It outlives terms.
func (p *process) runner(partition int32) *runner {
	r, ok := p.runners[partition]
	if !ok {
		r = &runner{p: p, partition: partition, applied: simCollection, tasks: map[*task]bool{}}
		r.worker = r.newWorker()
		r.executor = pipeline.NewExecutor(r.worker, ports{r}, ports{r}, p.budget)
		p.runners[partition] = r
	}
	return r
}

func (r *runner) newWorker() *pipeline.Worker {
	p, w := r.p, r.p.w
	wait := p.L + p.G
	if w.broken == noWait {
		wait = 0
	}
	dense := p.denseFrom
	if !w.traits.segments {
		dense = 0
	}
	return pipeline.NewWorker(pipeline.Options{
		Segments: w.traits.segments, CompactInterval: p.compactInterval, CompactDelay: p.compactDelay, CompactMargin: time.Second, SegmentRetention: p.segmentRetention,
		CompactBytes: p.compactBytes,
		Partition:    partitionOf(r.partition), Group: p.group.name, ClusterID: clusterName, Namespace: namespace,
		Bucketing: bucketer.Options{
			Collection: simCollection, Limits: timeseries.Limits{MaxCount: p.maxCount, MaxBytes: p.maxBytes, MinCount: 1},
			DeltaMax: p.deltaMax, Reopen: p.reopen, FlushWrites: p.flushWrites, DenseFrom: dense,
		},
		Decoder: w.decoder(false), SchemaUnknownWait: schemaUnknownWait, OutOfRange: p.outOfRange, StopOnBad: p.stopOnBad, Window: p.window, Sharded: w.traits.sharded,
		FlushInterval: p.flushInterval, FlushBytes: 1 << 20, FlushCount: p.flushCount,
		Portion: p.portion, DeadLetterBuffer: p.deadLetterBuffer, Send: p.send,
		Wait: wait, WriteGrace: p.G, Warm: p.warm, NewToken: w.token,
		Random: rand.New(rand.NewPCG(w.rnd.Uint64(), 0)), Log: w.log.With("at", p.name),
		Metrics: unreadMetrics, Outages: unreadOutages,
	})
}

func partitionOf(number int32) record.Partition {
	return record.Partition{Topic: topicName, Number: number}
}

func (w *world) token() (token claim.Token) {
	w.n++
	copy(token[:], fmt.Sprintf("claim %d", w.n))
	return token
}

// deliver hands an event to the worker if the term is still the same.
func (r *runner) deliver(turn int, e pipeline.Event) {
	if !r.ended && r.turn == turn {
		r.handle(e)
	}
}

// handle gives the worker an event, and starts the actions that the worker wants.
func (r *runner) handle(e pipeline.Event) {
	p, w := r.p, r.p.w
	if r.ended || w.over {
		return
	}
	m := pipeline.Moment{Now: p.clock(), Held: p.holds(r.gen), Renewed: p.zero + r.gen.renewed}
	if w.mishap(w.traits.memory) { // other workers leave little memory
		p.budget.Fetched(p.others, simBudget-simBudget/16-r.worker.Bytes()/2-1)
		defer p.budget.Fetched(p.others, 0)
	}
	e = r.mutated(e)
	r.trace("<-", e)
	before := r.worker.Bytes()
	actions := r.executor.Give(m, e)
	w.answered(e, actions)
	r.sent.heard(w, e)
	w.heardCompaction(e)
	if e, ok := e.(pipeline.ClaimRead); ok {
		if e.Seen.Claim != r.saw.Claim || e.Seen.Released != r.saw.Released {
			r.sawAt = w.now
		}
		r.saw = e.Seen
		if l := w.kafka.find(r.source.TopicID, r.partition); l != nil && e.Err == nil && e.Committed.Offset < 0 && !e.Seen.Found && r.partition < e.FirstPartitions {
			l.excuse(w, l.first, e.Bounds.Start, "before the configured start") // KAFKA_START decides
		}
		if e.Seen.Waited > 0 {
			w.note("(met) a wait carried on by another member")
		}
		if w.broken == sightsUnproven && e.Err == nil {
			proven := m
			proven.Renewed = m.Now
			actions = append(actions, r.worker.Handle(proven, pipeline.Committed{Offset: -1, SentAt: m.Now})...)
		}
		if before > 0 && r.worker.Bytes() == 0 {
			w.note("(met) warm catalog dropped: another owner in between")
		}
	}
	r.follow(e)
	for _, a := range actions {
		r.trace("->", a)
		r.do(a)
	}
}

// do starts an action. Its event follows.
func (r *runner) do(action pipeline.Action) {
	p, w := r.p, r.p.w
	switch a := action.(type) {
	case pipeline.Open:
		r.executor.Open(a)
		return
	case pipeline.ReadClaim:
		if _, late := p.evictIn.(pipeline.ReadClaim); late && w.chaos {
			p.evictIn = nil
			w.readLate(p)
		}
	case pipeline.CommitNow:
		r.executor.Hurry()
		if p.commits != nil {
			p.commits.wakeSleeper()
		}
		return
	case pipeline.HandedOver:
		w.note("(met) clean hand-over")
		r.ended = true
		r.stopActing()
		r.executor.Leave()
		r.handedOverTo()
		return
	case pipeline.SendClaim:
		r.sentClaim = a.Claim.Token
		if w.broken == warmAnyway {
			a.Seen.Claim = r.hidden
			action = a
		}
	case pipeline.SendRelease:
		if r.term == nil {
			w.note("(met) claim released that nothing was written under")
		} else {
			r.term.released = true
		}
	case pipeline.SendWrites:
		r.sent.sending(w, a.Writes)
		if added := addedBy(a.Writes); added > 0 && added < r.worker.Status(p.clock()).Flushing {
			w.note("(met) a part of a flush sent")
		}
	case pipeline.InsertCompacted:
		w.checks.compacting(w, a.Writes)
	case pipeline.ResolveWrites:
		r.sent.acting = nil
		for _, x := range a.Writes {
			r.sent.acting = append(r.sent.acting, copyOf(x))
		}
	case pipeline.AskPositions:
		r.sent.acting = []*bucketer.Write{copyOf(a.Write)}
	case pipeline.LoadStoredPositions:
		if r.phase == "loading stored positions" {
			r.sent = sentWrites{}
		} else {
			w.note("(met) a further window of D")
		}
	case pipeline.ProduceDeadLetters:
		if p.stopOnBad {
			w.fail("letters", "%s writes letters without a dead-letter topic", p.name)
		}
	}
	if usesSession(action) && w.broken == "" {
		for t := range r.tasks {
			if usesSession(t.what) {
				w.fail("calls", "%T begins while %T is under way", action, t.what)
			}
		}
	}
	turn := r.turn
	var event pipeline.Event
	t := p.spawn(func(t *task) {
		switch action.(type) {
		case pipeline.SendWrites, pipeline.InsertCompacted:
			t.sendBy = w.now + p.W
		}
		event = r.executor.Perform(t.context(), action)
		if e, ok := event.(pipeline.StoredPositionsLoaded); ok && e.Stored != nil {
			if _, end := e.Stored.Window(); end < action.(pipeline.LoadStoredPositions).End {
				w.note("(met) a window of D ended early for its memory")
			}
		}
		if e, ok := event.(pipeline.WritesSent); ok {
			r.p.w.checks.toldUnsent(w, t, action.(pipeline.SendWrites).Writes, e.Sent)
		}
	}, nil)
	t.r, t.what = r, action
	r.tasks[t] = true
	t.then = func() {
		delete(r.tasks, t)
		r.deliver(turn, event)
	}
}

// stopFetching makes a fetch return at once.
func (r *runner) stopFetching() {
	for t := range r.tasks {
		if _, ok := t.what.(pipeline.Fetch); ok && t.wake != nil {
			t.wake(nil, false)
		}
	}
}

// abandon ends the term, and cuts off its running actions.
func (r *runner) abandon() {
	for t := range r.tasks {
		if x, ok := t.what.(pipeline.SendWrites); ok && r.p.w.broken == unknownForgotten {
			r.handle(pipeline.WritesSent{Sent: slices.Repeat([]bucketer.Sent{{Result: bucketer.NotExecuted, Err: errNoAnswer}}, len(x.Writes))})
		}
	}
	r.stopActing()
	r.handle(pipeline.Abandoned{})
	r.executor.Leave()
	if r.cutOff = len(r.sent.open) > 0; r.cutOff {
		r.p.w.note("(met) abandoned with unknown writes")
	}
	r.ended, r.term = true, nil
}

// stopActing cuts off the running actions.
func (r *runner) stopActing() {
	for t := range r.tasks {
		t.kill()
	}
	clear(r.tasks)
}

// drop forgets the state in memory, because the partition went to another process.
func (r *runner) drop() {
	r.executor.Forget(r.p.clock())
}

// follow records when a term reaches the writing phase.
func (r *runner) follow(e pipeline.Event) {
	w, was := r.p.w, r.phase
	status := r.worker.Status(r.p.clock())
	r.phase = status.Phase
	if stop := status.Stopped; stop != nil && stop.Reason == "collection_changed" && r.phase == "running" && !r.halted {
		w.note("(met) partition stopped for its collection's options")
	}
	r.halted = status.Stopped != nil
	if r.phase == was {
		return
	}
	r.trace("  ", r.phase)
	if _, ok := e.(pipeline.ClaimRead); ok && r.phase == "claiming" {
		w.note("(met) a claim whose answer was lost was executed")
	}
	if r.phase != "running" {
		if r.phase != "stopped" {
			r.term = nil
		}
		return
	}
	u := &term{log: logKey{r.source.TopicID, r.partition}, owner: r.p.name, claim: w.mongo.claims[r.sentClaim]}
	u.known = u.claim
	if was == "loading stored positions" {
		u.known = r.readAt
		w.note("(met) cold start")
	} else {
		w.note("(met) warm start")
		r.sent.warm(w)
	}
	r.term, r.won = u, r.sentClaim
	if r.cutOff {
		r.cutOff = false
		w.note("(met) own claim after an abandoned flush")
	}
	w.checks.terms = append(w.checks.terms, u)
}

// rivalWaits reports whether another owner waits because of this claim.
func (w *world) rivalWaits(claim [16]byte) bool {
	return slices.ContainsFunc(w.all, func(p *process) bool {
		return !p.dead && slices.ContainsFunc(p.working(), func(r *runner) bool {
			return r.phase == "waiting" && r.saw.Claim == claim
		})
	})
}

func (r *runner) trace(direction string, x any) {
	w := r.p.w
	if w.trace == nil {
		return
	}
	if _, ok := x.(pipeline.Ticked); ok {
		return
	}
	w.logf("%s/%d %s %s", r.p.name, r.partition, direction, described(x))
}
