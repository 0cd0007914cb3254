package pipeline

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// ConsumerOptions set a Consumer up. All are required.
type ConsumerOptions struct {
	// NewWorker makes the worker of a partition when it is assigned for the first time.
	NewWorker func(record.Partition) *Worker
	Ports     Ports
	Budget    *Budget
	Clock     func() Instant
	// CommitInterval is the time between two commits. Lease is how long one commit entitles to write. Between is how long the
	// partitions are shown after a generation if the next one does not come.
	CommitInterval, Lease, Between time.Duration
	Metrics                        *Metrics
}

// Assignment is a partition that a generation brings.
type Assignment struct {
	record.Partition
	Assigned
}

// Consumer runs the workers of the partitions that the group assigns to this process. The goroutine that owns the membership
// calls Assigned, Revoke and Lost, one after the other. The other methods may be called at any time.
type Consumer struct {
	o ConsumerOptions

	mu         sync.Mutex // guards what follows
	all        map[record.Partition]*runner
	terms      map[record.Partition]*runningTerm // of the present generation, and those being handed over
	next       map[record.Partition]Assigned     // terms that begin when the present term of their partition has ended
	assignment assignment
	gen        *usedLease // Nil means that this process is in no generation.
	ending     bool       // all terms are to end
	ctx        context.Context
	commits    *committer
	stop       context.CancelFunc
	wait       sync.WaitGroup // the committer's goroutine
	shown      []*runner      // of the present generation; between generations, of the last one
	ended      Instant        // when the last generation ended. Zero means that there is a generation now.
	// collections are the changed options, by topic.
	collections map[string]*timeseries.Options

	leases atomic.Pointer[[]*usedLease] // of the terms. Nil means that this process is in no generation.
}

// NewConsumer returns a consumer without partitions.
func NewConsumer(o ConsumerOptions) *Consumer {
	return &Consumer{
		o: o, all: map[record.Partition]*runner{}, terms: map[record.Partition]*runningTerm{}, next: map[record.Partition]Assigned{},
		collections: map[string]*timeseries.Options{},
	}
}

// Assigned begins a generation and returns. It follows a generation that was revoked or lost, or it replaces the present one.
// The terms of partitions that stay go on. Terms of other partitions are handed over while the lease of the former generation
// holds. Workers without a partition drop what they hold. The argument consecutive means that the generation directly follows
// the last one of this process.
func (c *Consumer) Assigned(gen Generation, assignments []Assignment, consecutive bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gen == nil {
		c.commits = newCommitter(c.o)
		c.ctx, c.stop = context.WithCancel(context.Background())
		c.wait.Go(func() { c.commits.run(c.ctx) })
	}
	c.gen, c.ended = &usedLease{Generation: gen}, 0
	stay := c.assignment.follow(assignments, consecutive)
	for partition, t := range c.terms {
		if stay[partition] && !t.leaving.Load() {
			t.follow(c.gen)
			continue
		}
		if !t.leaving.Swap(true) {
			t.handOver(false)
		}
	}
	clear(c.next)
	for _, a := range assignments {
		switch t := c.terms[a.Partition]; {
		case t == nil:
			c.begin(a.Partition, a.Assigned)
		case t.leaving.Load():
			c.next[a.Partition] = a.Assigned
		}
	}
	c.dropOthers()
	c.changed()
}

// begin starts a term.
func (c *Consumer) begin(partition record.Partition, a Assigned) {
	r := c.runner(partition)
	r.kick = c.commits.kick
	c.o.Metrics.Assigned(partition)
	t, ctx := newRunningTerm(r, c.gen), c.ctx
	c.terms[partition] = t
	go func() { // ended by Revoke or Lost, which wait for t.ended
		r.run(ctx, t, a)
		c.handedOver(partition, t)
	}()
}

// handedOver removes a term that has ended. It begins the next term of the partition, unless all terms are to end.
func (c *Consumer) handedOver(partition record.Partition, t *runningTerm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.terms[partition] != t {
		return
	}
	delete(c.terms, partition)
	if c.ending { // the shown partitions stay the same
		c.share()
		return
	}
	if a, ok := c.next[partition]; ok {
		delete(c.next, partition)
		c.begin(partition, a)
	} else if s := t.runner.status.Load(); s != nil && s.Unreleased {
		t.runner.worker.log.Warn("the partition was not released: the lease has expired; the next owner waits for " +
			"KAFKA_LEASE + 2 × MONGODB_WRITE_TIMEOUT, and reads the uncommitted records again")
	}
	c.dropOthers()
	c.changed()
}

// changed updates the shown partitions, and tells the senders and the committer which terms there are.
func (c *Consumer) changed() {
	c.shown = nil
	for _, t := range c.terms {
		c.shown = append(c.shown, t.runner)
	}
	slices.SortFunc(c.shown, func(a, b *runner) int { return a.worker.o.Partition.Compare(b.worker.o.Partition) })
	c.share()
}

// share tells the senders and the committer which terms there are.
func (c *Consumer) share() {
	leases := []*usedLease{}
	for _, t := range c.terms {
		if gen := t.gen.Load(); !slices.Contains(leases, gen) {
			leases = append(leases, gen)
		}
	}
	c.leases.Store(&leases)
	c.commits.follow(c.gen, slices.Collect(maps.Values(c.terms)))
}

// Held reports whether the writes that workers have sent may still arrive. Each worker sends under the lease of its own
// generation. No lease may have lapsed, because writes of different partitions share connections. There are several leases
// while partitions that went elsewhere are handed over.
func (c *Consumer) Held() bool {
	leases := c.leases.Load()
	return leases != nil && !slices.ContainsFunc(*leases, (*usedLease).lapsed)
}

// runner returns the runner of a partition, and makes it at the first call.
func (c *Consumer) runner(key record.Partition) *runner {
	r, ok := c.all[key]
	if !ok {
		r = &runner{
			executor: executor{worker: c.o.NewWorker(key), ports: c.o.Ports, deadLetters: c.o.Ports.DeadLetters(key.Topic), budget: c.o.Budget},
			clock:    c.o.Clock, asks: make(chan func(*Worker)),
		}
		r.collection.Store(c.collections[key.Topic])
		c.all[key] = r
	}
	return r
}

// dropOthers frees the memory of partitions that this process no longer owns. Their workers stay, because they remember the
// unknown writes of this process.
func (c *Consumer) dropOthers() {
	for key, r := range c.all {
		if _, owned := c.assignment.topics[key]; !owned && c.terms[key] == nil {
			r.forget()
			c.o.Metrics.revoked(key)
		}
	}
}

// Revoke hands all partitions over: flush, commit, release. It returns when that is done. When ctx ends, it abandons the rest
// and returns. In both cases nothing is sent after it returns. The argument last means that the process ends.
func (c *Consumer) Revoke(ctx context.Context, last bool) {
	for _, t := range c.lastTerms() {
		t.handOver(last)
	}
	for _, t := range c.lastTerms() {
		select {
		case <-t.ended:
		case <-ctx.Done():
		}
	}
	c.Lost()
}

// lastTerms returns the present terms, and lets no other term begin after them.
func (c *Consumer) lastTerms() []*runningTerm {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	return slices.Collect(maps.Values(c.terms))
}

// Lost ends the generation at once and cancels the actions under way. It returns when nothing is sent any more.
func (c *Consumer) Lost() {
	terms := c.lastTerms()
	c.stop()
	for _, t := range terms {
		<-t.ended
	}
	c.wait.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen, c.ended = nil, c.o.Clock()
	c.ending = false
	clear(c.terms)
	clear(c.next)
	c.leases.Store(nil)
}

// SetCollection makes the workers of a topic follow changed options of its collection, including workers between two terms.
// Each worker applies them by itself. Options that would make buckets smaller stop it.
func (c *Consumer) SetCollection(topic string, o timeseries.Options) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.collections[topic] = &o
	for key, r := range c.all {
		if key.Topic == topic {
			r.collection.Store(&o)
		}
	}
}

// AskCompaction makes the workers of a topic compact all present segments.
func (c *Consumer) AskCompaction(topic string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, r := range c.all {
		if key.Topic == topic {
			r.compact.Store(true)
		}
	}
}

// askPatience bounds how long Metas waits for one partition. The answer takes no time, but the partition may be between two
// terms.
const askPatience = time.Second

// Metas returns the metas of up to most series in memory, about equally many of each partition.
func (c *Consumer) Metas(most int) []bson.RawValue {
	c.mu.Lock()
	runners := slices.Clone(c.shown)
	if c.ended > 0 {
		runners = nil // no runner answers between generations
	}
	c.mu.Unlock()
	var metas []bson.RawValue
	for i, r := range runners {
		share := (most - len(metas)) / (len(runners) - i)
		answer := make(chan []bson.RawValue, 1)
		select {
		case r.asks <- func(w *Worker) { answer <- w.metas(share) }:
			metas = append(metas, <-answer...)
		case <-time.After(askPatience):
		}
	}
	return metas
}

// Statuses describes the partitions of the present generation, as of their last event. While the group joins the next
// generation, it describes the partitions of the last one, because most of them come back.
func (c *Consumer) Statuses() []*Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	var statuses []*Status
	if c.ended > 0 && c.o.Clock()-c.ended > c.o.Between {
		return nil
	}
	for _, r := range c.shown {
		if s := r.status.Load(); s != nil {
			statuses = append(statuses, s)
		}
	}
	return statuses
}

// assignment is the set of partitions that the group has given to this process. It decides what a new generation changes about
// them. The simulation uses it, too.
type assignment struct {
	topics map[record.Partition][16]byte // of the last generation, with their topic ids
}

// follow takes the assignments of a new generation and marks each that is consecutive. It returns the partitions whose term
// goes on, because no other process can have owned them in between. The argument consecutive means that this process was in the
// generation just before, and knows what that generation assigned.
func (r *assignment) follow(assignments []Assignment, consecutive bool) (stay map[record.Partition]bool) {
	stay = map[record.Partition]bool{}
	topics := make(map[record.Partition][16]byte, len(assignments))
	for i := range assignments {
		a := &assignments[i]
		former, again := r.topics[a.Partition]
		a.Consecutive = consecutive && again
		topics[a.Partition], stay[a.Partition] = a.TopicID, a.Consecutive && former == a.TopicID
	}
	r.topics = topics
	return stay
}
