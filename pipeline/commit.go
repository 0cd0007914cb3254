package pipeline

import (
	"context"
	"slices"
	"sync"
	"time"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

// Want returns the offset that should be committed now, with its metadata. False means that nothing may be committed.
func (w *Worker) Want() (record.Commit, bool) {
	offset, metadata := int64(-1), w.provenance().String()
	switch {
	case w.phase == idle:
	// A term to begin anew commits no progress. But only an answered commit renews the lease, which the flush needs.
	case w.term.restart != nil:
		offset = w.committed
	case w.catalog != nil && w.term.claimed:
		offset = w.committable()
	case w.term.resolved && w.term.quiesced && w.halt == nil: // before the stored positions are read, only the start itself may be committed (E6)
		offset = w.term.start.Committed()
		if w.term.committed.Consumed && !w.term.claimed { // the document that decided the start may be an old one
			metadata = claim.ConsumedMetadata
		}
	}
	if offset < 0 {
		return record.Commit{}, false
	}
	return record.Commit{Place: w.place(offset), Metadata: metadata}, true
}

// provenance is the metadata of our commits.
func (w *Worker) provenance() claim.Provenance {
	return claim.Provenance{ClusterID: w.o.ClusterID, TopicID: w.source.TopicID, Namespace: w.o.Namespace}
}

// handle takes the answer to a commit. The answer proves the membership before the claim. In the stream it says up to
// which offset a later term may go on warm. At the end of the term it allows the release.
func (e Committed) handle(w *Worker, m Moment) {
	if e.Err != nil {
		if w.phase == proving || w.term.handing == committing {
			w.retry.claim.fail(m.Now, w.o.Random)
		}
		w.outage(m, Coordinator, committingOffsets, e.Err)
		return
	}
	w.answered(Coordinator)
	w.logStatus.committed = e.Offset
	w.past.observedClaim.prove(m.Renewed)
	switch w.phase {
	case proving:
		w.proved(e)
	case running:
		w.committed = e.Offset
		w.handOverCommitted(e)
	}
}

// committable is the offset up to which everything is durable or need not be stored (E6).
func (w *Worker) committable() int64 {
	oldest, pending := w.catalog.Oldest()
	offset := w.offsetTracker.committable(oldest, pending)
	for _, r := range w.rejected {
		offset = min(offset, r.Position.Offset)
	}
	if w.losing != nil {
		offset = min(offset, w.losing.From)
	}
	return offset
}

// offsetTracker knows which offset may be committed (E6). It is the smallest offset with a part that is neither stored, nor
// skipped as stored, nor acknowledged by the dead-letter topic. If there is none, it is the fetch position. The catalog counts
// measurements (Catalog.Oldest), and the tracker counts dead letters.
type offsetTracker struct {
	// next is the fetch position.
	next int64
	// deadLetters are the offsets of letters that are not acknowledged yet, in the order in which the letters were made. Letters of
	// records that are read again for a refused write are out of order, so committable searches for the smallest. There are few.
	deadLetters []int64
}

// open notes a letter that must be acknowledged.
func (l *offsetTracker) open(offset int64) { l.deadLetters = append(l.deadLetters, offset) }

// acknowledge closes the n oldest letters.
func (l *offsetTracker) acknowledge(n int) { l.deadLetters = slices.Delete(l.deadLetters, 0, n) }

// committable is the offset that may be committed, given the smallest offset that is pending elsewhere.
func (l *offsetTracker) committable(oldest int64, pending bool) int64 {
	offset := l.next
	if pending {
		offset = min(offset, oldest)
	}
	for _, letter := range l.deadLetters {
		offset = min(offset, letter)
	}
	return offset
}

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

// committer commits the offsets of this process, all partitions in one request. It does so every commit interval, and when a
// worker asks for it. The plan says which offsets. A committer outlives generations, because each request is made in the newest
// generation.
type committer struct {
	clock func() Instant
	tick  time.Duration
	wake  chan struct{}

	mu    sync.Mutex
	gen   Generation
	terms []*runningTerm
	began bool // the generation is new
	plan  *commitPlan
}

func newCommitter(o ConsumerOptions) *committer {
	plan := newCommitPlan(o.Lease, o.Clock())
	return &committer{clock: o.Clock, tick: min(o.CommitInterval, plan.renewal), wake: make(chan struct{}, 1), plan: plan}
}

// follow makes the committer commit in a generation, for these terms.
func (c *committer) follow(gen Generation, terms []*runningTerm) {
	c.mu.Lock()
	c.began = c.began || c.gen != gen
	c.gen, c.terms = gen, terms
	c.mu.Unlock()
	c.kick()
}

// kick asks for a commit soon. It never blocks.
func (c *committer) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *committer) run(ctx context.Context) {
	tick := time.NewTicker(c.tick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.wake:
		case <-ctx.Done():
			return
		}
		c.commit(ctx)
	}
}

// commit sends the due commits and tells each worker the answer. A partition that is being handed over is committed while its
// lease holds, because its next owner reads the committed offset only after that.
func (c *committer) commit(ctx context.Context) {
	c.mu.Lock()
	gen, began := c.gen, c.began
	c.began = false
	var terms []*runningTerm
	var workers []candidate
	for _, t := range c.terms {
		if theirs := t.leaving.Load(); !theirs || t.held() {
			terms, workers = append(terms, t), append(workers, candidate{&t.runner.executor, theirs})
		}
	}
	c.mu.Unlock()
	if began {
		c.plan.begin(c.clock())
	}
	c.plan.commit(c.clock(), workers,
		func(due []record.Commit) ([]error, error) { return gen.Commit(ctx, due) },
		func(worker int, answer Committed) { terms[worker].post(answer) })
}
