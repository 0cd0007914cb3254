package pipeline

import (
	"time"

	"waterwheel/internal/record"
)

// commitPlan decides which offsets are to be committed now, and what the answers mean. A changed offset is due, and a commit
// that a worker waits for is due at once. Without changes, every offset is due again each fifth of the lease, because only
// answered commits renew the lease. An answered commit renews it from the send time of the commit before. A commitPlan
// has no clock and no I/O of its own.
type commitPlan struct {
	renewal time.Duration
	renewed Instant                            // send time of the newest commit that was answered
	done    map[record.Partition]record.Commit // the answered commits
	urgent  map[record.Partition]bool          // to be sent even if it was answered before
}

func newCommitPlan(lease time.Duration, now Instant) *commitPlan {
	return &commitPlan{
		renewal: lease / 5, renewed: now, done: map[record.Partition]record.Commit{}, urgent: map[record.Partition]bool{},
	}
}

// begin makes every offset due. A new generation has begun, with only the rest of the last generation's lease.
func (p *commitPlan) begin(now Instant) { p.renewed = now - p.renewal }

// candidate is a worker whose partition may be committed.
type candidate struct {
	*executor
	// theirs means that the partition is being handed over. It may already have another owner if its release was executed but not
	// answered. An answered commit is not sent again, because it would set that owner's commit back, and it renews nothing.
	theirs bool
}

// commit sends the due commits of the workers, and tells each worker, by its index, the answer.
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

// due returns the wanted commits that must be sent now, one per partition.
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

// answered takes the answers to the commits that were sent together at sentAt. The list errs has one error per commit. If err
// is not nil, the outcome of every commit is unknown. It returns the event for each worker. A failed commit becomes urgent,
// because its worker may wait for it.
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
