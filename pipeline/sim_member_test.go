package pipeline_test

import (
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/pipeline"
)

// live runs the membership until the process is asked to stop.
func (p *process) live(t *task) {
	id, ids := p.name+"/0", 0
	for !p.term {
		e := p.enter(t, id, nil)
		switch e.code {
		case codeNone:
			e.code = p.inGroup(t, &e)
		case codeNoAnswer:
			t.sleep(time.Second)
		}
		if e.code == codeFenced {
			break
		}
		if e.code == codeUnknown {
			ids++
			id = fmt.Sprintf("%s/%d", p.name, ids)
		}
	}
	if !p.static {
		t.ask(3*time.Second, func() any { return p.group.leave(id) })
	}
	p.w.at(p.w.now, p.crash)
}

// codeNoAnswer means that the coordinator has not answered and may be asked again.
const codeNoAnswer = -1

// entered is the result of joining, which is a generation or the coordinator's refusal.
type entered struct {
	code int
	*generation
	owned []int32
}

// enter goes once through JoinGroup and SyncGroup, from outside the group or from a generation.
func (p *process) enter(t *task, id string, from *generation) entered {
	answer, ok := t.askLater(p.R+5*time.Second, func(reply func(any)) { p.group.join(id, p, reply) })
	if !ok {
		return entered{code: codeNoAnswer}
	}
	join := answer.(joined)
	if join.code != codeNone {
		return entered{code: join.code}
	}
	g := &generation{id: join.generation, member: id, length: p.L, renewed: -p.L, taken: -p.L, believed: p.w.now, p: p}
	for {
		code, owned := p.sync(t, g)
		switch {
		case code == codeNone:
			g.succeed(from)
			return entered{codeNone, g, owned}
		case code != codeNoAnswer:
			return entered{code: min(code, codeNoAnswer)} // in another generation
		case p.term && p.announced == 0:
			return entered{code: codeNoAnswer}
		}
		t.sleep(500 * time.Millisecond)
	}
}

// succeed makes g the successor of another generation. The rest of that generation's lease stays valid if no other member can
// have been assigned a partition in between.
func (g *generation) succeed(from *generation) {
	if from == nil {
		from = g.p.last
	}
	if from == nil || from.member != g.member {
		return
	}
	if g.follows = g.id == from.id || g.id == from.id+1; !g.follows {
		g.p.w.note("(met) a generation skipped")
	}
	if g.follows && !from.over {
		g.renewed, g.taken, g.believed = from.renewed, from.taken, from.believed
	}
}

// sync asks for the assignment.
func (p *process) sync(t *task, g *generation) (int, []int32) {
	type assignment struct {
		code  int
		owned []int32
	}
	answer, ok := t.ask(3*time.Second, func() any {
		code, owned := p.group.owned(g.member, g.id)
		return assignment{code, owned}
	})
	if !ok {
		return codeNoAnswer, nil
	}
	return answer.(assignment).code, answer.(assignment).owned
}

// inGroup lives through one generation after the other. It ends when the membership ends, or when the process must give up its
// partitions to join again. It returns the answer that ended it.
func (p *process) inGroup(t *task, first *entered) int {
	p.present = first.generation
	p.w.at(p.w.now, func() {
		p.run(func() {
			if p.present == first.generation {
				p.assigned(first.generation, first.owned)
			}
		})
	})
	committing := p.spawn(func(t *task) { p.committing(t) }, nil)
	defer p.endGeneration(committing)
	answered, limit := p.w.now, time.Duration(-1)
	revoke := func(end time.Duration, shutdown bool) {
		if limit < 0 {
			limit = end
			p.revoke(shutdown)
		}
	}
	for {
		g := p.present
		switch {
		case p.term && p.worksOn(g, t):
		case p.term:
			revoke(p.w.now+p.W+2*time.Second, true)
		case p.rejoin:
			p.rejoin = false
			p.joinAgain(g, t, func() { revoke(answered+p.R/2, false) })
		}
		if g.over || limit >= 0 && (p.w.now >= limit || p.handedOver()) {
			return codeIllegal
		}
		t.sleep(p.beatInterval(limit >= 0))
		if e := p.next; e != nil {
			p.next = nil
			switch e.code {
			case codeNone:
				answered = p.w.now
				p.run(func() { p.assigned(e.generation, e.owned) })
			case codeUnknown, codeFenced:
				g.over = true
				return e.code
			default:
				g.joining, p.rejoin = false, true
			}
			continue
		}
		if g.joining && limit < 0 {
			continue
		}
		sent := p.w.now
		answer, ok := p.beat(t, g)
		if !ok {
			continue
		}
		switch code := answer.(int); code {
		case codeNone:
			answered, g.believed = sent, sent
		case codeRebalancing:
			p.rejoin = p.rejoin || limit < 0
		default:
			g.over = true
			return code
		}
	}
}

// joinAgain joins the next generation while work continues under the present one. An eager member gives up its partitions first.
func (p *process) joinAgain(g *generation, member *task, letGo func()) {
	if p.eager {
		p.w.note("(met) member that lets go before it joins")
		letGo()
		return
	}
	if g.joining {
		return
	}
	g.joining = true
	p.joins = p.spawn(func(t *task) {
		e := p.enter(t, g.member, g)
		p.w.at(p.w.now, func() {
			p.run(func() {
				if p.present == g && !g.over {
					p.next = &e
					member.wakeSleeper()
				}
			})
		})
	}, nil)
}

// worksOn makes a member that stops join once more as a leaving member, and reports whether it continues to work. It works until the
// next generation gives its partitions to others, or until the remaining time only suffices to hand them over.
func (p *process) worksOn(g *generation, member *task) bool {
	switch {
	case !p.w.announced || p.static || p.eager:
		return false
	case p.announced == 0:
		p.announced = p.w.now + p.w.between(1, 2*p.S.Seconds())
		if p.group.waitsForDead() {
			p.w.note("(met) member that leaves while the group waits for a dead one")
		}
		p.joinAgain(g, member, nil)
	case g.joining && p.w.now >= p.announced:
		p.w.note("(met) member that leaves before the next generation")
		g.joining = false
		p.stopJoining()
	case !g.joining:
		p.w.note("(met) member that leaves in the next generation")
	}
	return g.joining
}

func (p *process) beatInterval(ending bool) time.Duration {
	if ending {
		return 500 * time.Millisecond
	}
	return time.Second
}

// beat is a heartbeat. A coordinator that is cut off from its cluster may still answer it.
func (p *process) beat(t *task, g *generation) (any, bool) {
	if p.zombie > p.w.now {
		p.w.note("(met) heartbeat answered by a coordinator cut off")
		return codeNone, true
	}
	return t.ask(3*time.Second, func() any { return p.group.check(g.member, g.id, codeRebalancing) })
}

// working returns the runners with a term.
func (p *process) working() []*runner {
	var all []*runner
	for _, partition := range sortedKeys(p.runners) {
		if r := p.runners[partition]; r.gen != nil && !r.ended {
			all = append(all, r)
		}
	}
	return all
}

// handedOver reports whether all partitions are handed over.
func (p *process) handedOver() bool { return len(p.working()) == 0 }

// assigned begins a generation, as pipeline.Consumer does. Partitions that stay continue, others are handed over or begin.
func (p *process) assigned(g *generation, owned []int32) {
	if former := p.present; former == nil || former.over {
		return
	}
	p.present = g
	begins := !g.assigned
	g.assigned = true
	assignments := make([]pipeline.Assignment, len(owned))
	for i, partition := range owned {
		assignments[i] = pipeline.Assignment{Partition: partitionOf(partition), Assigned: pipeline.Assigned{TopicID: p.w.topicSeen()}}
	}
	stay := p.assignment.Follow(assignments, g.follows || p.w.broken == generationSkipped)
	for _, r := range p.working() {
		r.next = nil
		switch {
		case stay[partitionOf(r.partition)] && !r.leaving:
			p.w.note("(met) term that goes on in the next generation")
			r.gen = g
		case !r.leaving:
			p.w.note("(met) partition handed over in the next generation")
			r.letGo(false)
			switch p.w.broken {
			case leaseOfOthers:
				r.gen = g
			case releasedFirst:
				r.releaseNow()
			}
		case p.w.broken == leaseOfOthers:
			r.gen = g
		}
	}
	for _, a := range assignments {
		switch r := p.runner(a.Number); {
		case r.gen == nil || r.ended:
			r.begin(g, a.Assigned)
		case r.leaving:
			r.next = &a.Assigned
		}
	}
	for _, partition := range sortedKeys(p.runners) {
		if r := p.runners[partition]; (r.gen == nil || r.ended) && !slices.Contains(owned, partition) {
			r.drop()
		}
	}
	p.last = g
	if begins {
		p.ticking(g)
	}
}

// begin starts a term.
func (r *runner) begin(g *generation, a pipeline.Assigned) {
	a.Consecutive = a.Consecutive && !r.leaving // the partition belonged to another process in the meantime
	r.gen, r.leaving, r.next, r.ended, r.phase = g, false, nil, false, "idle"
	r.turn++
	r.applyCollection()
	r.handle(a)
}

// letGo hands the partition over.
func (r *runner) letGo(shutdown bool) {
	r.leaving = !shutdown
	r.handle(pipeline.Revoked{Shutdown: shutdown})
	r.stopFetching()
}

// releaseNow marks the claim as released, even if writes are outstanding.
func (r *runner) releaseNow() {
	w := r.p.w
	before := w.mongo.parts.now(documentID(r.partition))
	if before != nil && uuidAt(before, "claim") == r.won {
		w.mongo.put(w.mongo.parts, documentID(r.partition), updated(before, encoded(bson.D{{Key: "$set", Value: bson.D{{Key: "released", Value: true}}}})), nil)
	}
}

func uuidAt(d bson.Raw, path string) (token [16]byte) {
	if _, data, ok := valueAt(d, path).BinaryOK(); ok {
		copy(token[:], data)
	}
	return token
}

// handedOverTo ends a term, and begins the next one.
func (r *runner) handedOverTo() {
	if a := r.next; a != nil && r.p.present != nil {
		r.begin(r.p.present, *a)
	}
}

// ticking lets the workers check the clock. It abandons a hand-over whose lease has ended, because nothing renews that lease.
func (p *process) ticking(g *generation) {
	p.w.at(p.w.now+300*time.Millisecond, func() {
		p.run(func() {
			if p.present != g {
				return
			}
			for _, r := range p.working() {
				if r.leaving && !p.holds(r.gen) {
					p.w.note("(met) hand-over that the lease is too short for")
					r.abandon()
					r.handedOverTo()
					continue
				}
				r.applyCollection()
				r.handle(pipeline.Ticked{})
			}
			p.ticking(g)
		})
	})
}

// revoke asks the workers to hand over their partitions.
func (p *process) revoke(shutdown bool) {
	p.w.logf("%s: revoked (shutdown %v)", p.name, shutdown)
	p.stopJoining()
	for _, r := range p.working() {
		if r.next = nil; !r.leaving {
			r.handle(pipeline.Revoked{Shutdown: shutdown})
			r.stopFetching()
		}
	}
}

// stopJoining discards the result of joining, and stops a join in progress.
func (p *process) stopJoining() {
	if p.joins != nil {
		p.joins.kill()
	}
	p.next, p.joins = nil, nil
}

// endGeneration ends the rest of a generation. Nothing is sent under it any more.
func (p *process) endGeneration(committing *task) {
	committing.kill()
	p.stopJoining()
	for _, r := range p.working() {
		r.next = nil
		r.abandon()
	}
	p.present = nil
}

// applyCollection tells the worker if the options of the collection have changed.
func (r *runner) applyCollection() {
	if o := r.p.followed(); o != r.applied && !r.ended {
		r.applied = o
		r.handle(pipeline.CollectionChanged{Options: o})
	}
}
