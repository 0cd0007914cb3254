package pipeline_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"waterwheel/pipeline"
	"waterwheel/record"
)

// committing commits the offsets of a generation as the product's committer does: every interval what has changed, at
// once what a worker waits for, and all of them again every third of the lease.
func (p *process) committing(t *task, g *generation) {
	done, renewed := map[*runner]record.Commit{}, p.w.now
	for {
		t.sleep(min(p.commitInterval, p.L/3))
		sent := p.w.now
		due, commits := g.due(done, sent-renewed >= p.L/3)
		if len(due) == 0 || g.over {
			continue
		}
		answer, ok := t.ask(min(5*time.Second, p.L/2), func() any { return p.group.commit(g.member, g.id, commits) })
		if p.deaf > sent && p.w.chaos {
			ok = false
		}
		code := codeNone
		if ok {
			code = answer.(int)
			if code == codeNone && !g.held(p.w.now) {
				p.w.note("(met) a lapsed lease resumed")
			}
			g.learn(code, sent)
		}
		for i, r := range due {
			var err error
			if !ok || code != codeNone {
				err = errKafka
				r.urgent = true
			} else {
				done[r], renewed = commits[i], sent
			}
			if !r.ended {
				event := pipeline.Committed{Offset: commits[i].Offset, SentAt: p.zero + sent, Err: err}
				p.w.at(p.w.now, func() { p.run(func() { r.deliver(g, event) }) })
			}
		}
	}
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

// due lists what to commit now.
func (g *generation) due(done map[*runner]record.Commit, renew bool) ([]*runner, []record.Commit) {
	var due []*runner
	var commits []record.Commit
	for _, r := range g.runners {
		if !r.wants {
			continue
		}
		if urgent := r.urgent; urgent || renew || done[r] != r.want {
			r.urgent = false
			due, commits = append(due, r), append(commits, r.want)
		}
	}
	return due, commits
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
