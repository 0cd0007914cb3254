package pipeline

import (
	"time"

	"waterwheel/internal/record"
)

// commitPlan decides which offsets are to be committed now, and what the answers mean: what has changed is due, at once what
// a worker waits for, and when nothing changes everything again every fifth of the lease, because only answered commits
// renew it, each the time of the one before. It has no clock and no I/O of its own.
type commitPlan struct {
	renewal time.Duration
	renewed Instant                            // when the last commit was sent that was answered
	done    map[record.Partition]record.Commit // the answered commits
	urgent  map[record.Partition]bool          // to be sent even if it was answered before
}

func newCommitPlan(lease time.Duration, now Instant) *commitPlan {
	return &commitPlan{
		renewal: lease / 5, renewed: now, done: map[record.Partition]record.Commit{}, urgent: map[record.Partition]bool{},
	}
}

// begin makes everything due: a generation has begun, and its lease is what was left of the last one's.
func (p *commitPlan) begin(now Instant) { p.renewed = now - p.renewal }

// candidate is a worker whose partition may be committed.
type candidate struct {
	*executor
	// theirs means that it is being handed over, and may have another owner already when its release was executed and not answered. What
	// was answered is not sent again: it would set that owner's commit back, and renews nothing.
	theirs bool
}

// commit sends what is due of what the workers want, and tells each, by its index, the answer.
func (p *commitPlan) commit(now Instant, workers []candidate, send func([]record.Commit) ([]error, error), tell func(worker int, answer Committed)) {
	var wanted []record.Commit
	index := map[record.Partition]int{}
	for i, c := range workers {
		want := c.want.Load()
		if want == nil {
			continue
		}
		if c.urgent.Swap(false) {
			p.hurry(want.Partition)
		}
		if c.theirs && p.done[want.Partition] == *want && !p.urgent[want.Partition] {
			continue
		}
		wanted, index[want.Partition] = append(wanted, *want), i
	}
	due := p.due(now, wanted)
	if len(due) == 0 {
		return
	}
	errs, err := send(due)
	for i, heard := range p.answered(now, due, errs, err) {
		tell(index[due[i].Partition], heard)
	}
}

// hurry makes a partition's next commit due, whatever was committed before.
func (p *commitPlan) hurry(partition record.Partition) { p.urgent[partition] = true }

// due returns the wanted commits that are to be sent now, one per partition.
func (p *commitPlan) due(now Instant, wanted []record.Commit) []record.Commit {
	renew := now-p.renewed >= p.renewal
	var due []record.Commit
	for _, c := range wanted {
		if renew || p.urgent[c.Partition] || p.done[c.Partition] != c {
			delete(p.urgent, c.Partition)
			due = append(due, c)
		}
	}
	return due
}

// answered takes the answers to the commits sent together at sentAt: errs are by commit, unless err says that nothing is known
// of any. It returns what each worker is to hear. A commit that failed is urgent: its worker may wait for it.
func (p *commitPlan) answered(sentAt Instant, sent []record.Commit, errs []error, err error) []Committed {
	heard := make([]Committed, len(sent))
	for i, c := range sent {
		heard[i] = Committed{Offset: c.Offset, SentAt: sentAt, Err: err}
		if err == nil {
			heard[i].Err = errs[i]
		}
		if heard[i].Err != nil {
			p.hurry(c.Partition)
			continue
		}
		p.done[c.Partition], p.renewed = c, sentAt
	}
	return heard
}
