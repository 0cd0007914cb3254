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
	plan := pipeline.NewCommitPlan(p.L, p.clock())
	for {
		t.sleep(min(p.commitInterval, p.L/3))
		sent := p.w.now
		commits := plan.Due(p.clock(), g.wanted(plan))
		if len(commits) == 0 || g.over {
			continue
		}
		answer, ok := t.ask(min(5*time.Second, p.L/2), func() any { return p.group.commit(g.member, g.id, commits) })
		if p.deaf > sent && p.w.chaos {
			ok = false
		}
		var err error
		if ok {
			code := answer.(int)
			if code == codeNone && !g.held(p.w.now) {
				p.w.note("(met) a lapsed lease resumed")
			}
			g.learn(code, sent)
			ok = code == codeNone
		}
		if !ok {
			err = errKafka
		}
		for i, heard := range plan.Answered(p.zero+sent, commits, make([]error, len(commits)), err) {
			at := slices.IndexFunc(g.runners, func(r *runner) bool { return r.partition == commits[i].Number })
			if r := g.runners[at]; !r.ended {
				p.w.at(p.w.now, func() { p.run(func() { r.deliver(g, heard) }) })
			}
		}
	}
}

// wanted are the commits that the workers want.
func (g *generation) wanted(plan *pipeline.CommitPlan) (wanted []record.Commit) {
	for _, r := range g.runners {
		if !r.wants {
			continue
		}
		if r.urgent {
			r.urgent = false
			plan.Hurry(r.want.Partition)
		}
		wanted = append(wanted, r.want)
	}
	return wanted
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
