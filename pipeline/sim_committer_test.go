package pipeline_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"waterwheel/pipeline"
	"waterwheel/record"
)

// committing commits the offsets of a generation, as the product's plan says.
func (p *process) committing(t *task, g *generation) {
	var workers []*pipeline.Hands
	for _, r := range g.runners {
		workers = append(workers, r.hands)
	}
	plan := pipeline.NewCommitPlan(p.L, p.clock(), workers)
	for {
		t.sleep(min(p.commitInterval, p.L/3))
		if g.over {
			continue
		}
		plan.Commit(p.clock(), func(due []record.Commit) ([]error, error) {
			if !p.commit(t, g, due) {
				return nil, errKafka
			}
			return make([]error, len(due)), nil
		}, func(worker int, answer pipeline.Committed) {
			if r := g.runners[worker]; !r.ended {
				p.w.at(p.w.now, func() { p.run(func() { r.deliver(g, answer) }) })
			}
		})
	}
}

// commit sends commits and tells whether they were answered.
func (p *process) commit(t *task, g *generation, due []record.Commit) bool {
	sent := p.w.now
	answer, ok := t.ask(min(5*time.Second, p.L/2), func() any { return p.group.commit(g.member, g.id, due) })
	if !ok || p.deaf > sent && p.w.chaos {
		return false
	}
	code := answer.(int)
	if code == codeNone && !g.held(p.w.now) {
		p.w.note("(met) a lapsed lease resumed")
	}
	g.learn(code, sent)
	return code == codeNone
}

// learn draws the lease's consequences from a commit's answer.
func (g *generation) learn(code int, sent time.Duration) {
	switch code {
	case codeNone:
		g.renewed, g.believed = max(g.renewed, sent), max(g.believed, sent)
	case codeIllegal, codeUnknown, codeFenced:
		g.over = true
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
