package pipeline_test

import (
	"fmt"
	"slices"
	"time"

	"waterwheel/pipeline"
)

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
	p.present = g
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
	if p.present != g || g.over {
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
		r.begin()
		g.runners = append(g.runners, r)
	}
	for i, r := range g.runners {
		at := read[owned[i]]
		r.applyCollection()
		r.handle(pipeline.Assigned{
			TopicID: p.w.topicSeen(), Committed: at.offset, Metadata: at.metadata,
			Consumed:    at.consumed,
			Consecutive: consecutive && slices.Contains(p.lastOwned, owned[i]),
		})
	}
	g.commits = p.spawn(func(t *task) { p.committing(t, g) }, nil)
	p.ticking(g)
	p.lastGeneration, p.lastOwned = g.id, owned
}

// ticking lets the workers look at the clock.
func (p *process) ticking(g *generation) {
	p.w.at(p.w.now+300*time.Millisecond, func() {
		p.run(func() {
			if p.present != g {
				return
			}
			for _, r := range g.runners {
				r.applyCollection()
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
	p.present = nil
}

// applyCollection tells the worker when the options of the collection have changed.
func (r *runner) applyCollection() {
	if o := r.p.followed(); o != r.applied && !r.ended {
		r.applied = o
		r.handle(pipeline.CollectionChanged{Options: o})
	}
}
