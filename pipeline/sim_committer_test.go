package pipeline_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"waterwheel/internal/record"
	"waterwheel/pipeline"
)

// committing commits the offsets of a process in its newest generation, when the product's commit plan says so.
func (p *process) committing(t *task) {
	p.commits = t
	plan, last := pipeline.NewCommitPlan(p.L, p.clock()), (*generation)(nil)
	for {
		t.sleep(min(p.commitInterval, p.L/5))
		g := p.present
		if g == nil || g.over {
			continue
		}
		if g != last {
			plan.Begin(p.clock())
			last = g
		}
		var runners []*runner
		var workers []*pipeline.Executor
		var theirs []bool
		for _, r := range p.working() {
			if !r.leaving || p.holds(r.gen) {
				runners, workers, theirs = append(runners, r), append(workers, r.executor), append(theirs, r.leaving)
			}
		}
		turns := make([]int, len(runners))
		for i, r := range runners {
			turns[i] = r.turn
		}
		plan.Commit(p.clock(), workers, theirs, func(due []record.Commit) ([]error, error) {
			if !p.commit(t, g, due) {
				return nil, errKafka
			}
			return make([]error, len(due)), nil
		}, func(worker int, answer pipeline.Committed) {
			p.w.at(p.w.now, func() { p.run(func() { runners[worker].deliver(turns[worker], answer) }) })
		})
	}
}

// commit sends commits and reports whether they were answered. It sends them twice if the first answer does not renew the lease.
func (p *process) commit(t *task, g *generation, due []record.Commit) bool {
	ok := p.commitOnce(t, g, due)
	if ok && !g.held(p.w.now) && !g.over {
		return p.commitOnce(t, g, due)
	}
	return ok
}

func (p *process) commitOnce(t *task, g *generation, due []record.Commit) bool {
	sent, timeout, lapsed := p.w.now, min(5*time.Second, p.L/2), g.renewed >= 0 && !g.held(p.w.now)
	answer, ok := any(codeNone), false
	if p.deposed && p.zombie > sent && p.w.chaos {
		ok = p.pend(t, timeout)
	} else {
		answer, ok = t.ask(timeout, func() any { return p.group.commit(g.member, g.id, sent, due) })
	}
	if !ok || p.deaf > sent && p.w.chaos {
		return false
	}
	code := answer.(int)
	g.learn(code, sent)
	if code == codeNone && lapsed && g.held(p.w.now) {
		p.w.note("(met) a lapsed lease resumed")
	}
	if code == codeNone && g.joining {
		p.w.note("(met) commit taken while the group joins")
	}
	return code == codeNone
}

// pend delays a commit that a partitioned coordinator holds. The coordinator loses it when it learns that it is deposed, and
// answers all the same.
func (p *process) pend(t *task, timeout time.Duration) bool {
	for end := p.w.now + timeout; p.zombie > p.w.now; {
		if t.sleep(min(p.zombie, end) - p.w.now); p.w.now >= end {
			return false
		}
	}
	p.w.note("(met) lost commit answered by a deposed coordinator")
	return true
}

// learn updates the lease from a commit's answer. A member that has asked for the next generation ignores that the present one is
// over.
func (g *generation) learn(code int, sent time.Duration) {
	switch code {
	case codeNone:
		proven := g.taken
		if g.p.w.broken == answersTrusted {
			proven = sent
		}
		g.renewed, g.taken = max(g.renewed, proven), sent
		g.believed = max(g.believed, g.renewed)
	case codeIllegal:
		if g.joining {
			g.p.w.note("(met) commit refused while the group joins")
			return
		}
		g.over = true
	case codeUnknown, codeFenced:
		g.over = true
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
