package pipeline

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/record"
	"waterwheel/timeseries"
)

// ConsumerOptions set a Consumer up. All are required.
type ConsumerOptions struct {
	// NewWorker makes the worker of a partition when it is assigned for the first time.
	NewWorker func(record.Partition) *Worker
	Ports     Ports
	Budget    *Budget
	Clock     func() Instant
	// CommitInterval is between two commits; Lease is how long one of them entitles to write; Between is how long the
	// partitions are shown between two generations, when the next one does not come.
	CommitInterval, Lease, Between time.Duration
	Metrics                        *Metrics
}

// Assignment is a partition that a generation brings.
type Assignment struct {
	record.Partition
	Assigned
}

// Consumer runs the workers of the partitions that the group assigns to this process. Its methods Assigned, Revoke and
// Lost are called one after the other, by the goroutine that owns the membership; the others may be called at any time.
type Consumer struct {
	o   ConsumerOptions
	mu  sync.Mutex // guards all, now, ended and collections
	all map[record.Partition]*runner
	now []*runner // of the present generation, or after it of the last one
	// ended is when the last generation did, 0 while there is one.
	ended Instant
	stop  context.CancelFunc
	wait  sync.WaitGroup // the committer's goroutine
	last  map[record.Partition]bool
	// collections are the options that have changed, by topic.
	collections map[string]*timeseries.Options
}

// NewConsumer returns a consumer without partitions.
func NewConsumer(o ConsumerOptions) *Consumer {
	return &Consumer{o: o, all: map[record.Partition]*runner{}, stop: func() {}, collections: map[string]*timeseries.Options{}}
}

// Assigned starts the workers of a new generation, and returns. Workers of partitions that went elsewhere are dropped.
// Consecutive: it is the generation just after the one before.
func (c *Consumer) Assigned(gen Generation, assignments []Assignment, consecutive bool) {
	ctx, cancel := context.WithCancel(context.Background())
	commits := newCommitter(gen, c.o)
	owned := map[record.Partition]bool{}
	for _, a := range assignments {
		key := a.Partition
		owned[key] = true
		r := c.runner(key)
		r.kick = commits.kick
		r.events, r.revoke, r.ended = make(chan Event), make(chan bool, 1), make(chan struct{})
		commits.add(r)
	}
	c.dropOthers(owned)
	for i, r := range commits.runners {
		a := assignments[i].Assigned
		a.Consecutive = consecutive && c.last[assignments[i].Partition]
		go r.run(ctx, gen, a) // ended by Revoke or Lost, which wait for r.ended
	}
	c.wait.Go(func() { commits.run(ctx) })
	c.mu.Lock()
	c.now, c.ended, c.stop, c.last = commits.runners, 0, cancel, owned
	c.mu.Unlock()
}

// runner returns the runner of a partition, made when it is asked for the first time.
func (c *Consumer) runner(key record.Partition) *runner {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.all[key]
	if !ok {
		r = &runner{
			hands: hands{worker: c.o.NewWorker(key), ports: c.o.Ports, letters: c.o.Ports.Letters(key.Topic), budget: c.o.Budget},
			clock: c.o.Clock, asks: make(chan func(*Worker)),
		}
		r.collection.Store(c.collections[key.Topic])
		c.all[key] = r
	}
	return r
}

// dropOthers frees the memory of partitions that are not ours any more. Their workers stay: they remember which writes of
// this process are unknown.
func (c *Consumer) dropOthers(owned map[record.Partition]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, r := range c.all {
		if !owned[key] {
			r.forget()
			c.o.Metrics.forget(key)
		}
	}
}

// Revoke hands all partitions over: flush, commit, release. It returns when that is done, or ctx is; then what is left is
// abandoned. In both cases nothing is sent any more when it returns. Last: the process ends.
func (c *Consumer) Revoke(ctx context.Context, last bool) {
	for _, r := range c.now {
		r.revoke <- last
	}
	for _, r := range c.now {
		select {
		case <-r.ended:
		case <-ctx.Done():
		}
	}
	c.Lost()
}

// Lost ends the generation at once: what is under way is cancelled. It returns when nothing is sent any more.
func (c *Consumer) Lost() {
	c.stop()
	for _, r := range c.now {
		<-r.ended
	}
	c.wait.Wait()
	c.mu.Lock()
	c.ended = c.o.Clock()
	c.mu.Unlock()
}

// SetCollection makes the workers of a topic follow changed options of its collection, also those between two tenures. Each
// worker applies them by itself; options that would make buckets smaller stop it.
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

// askPatience bounds how long one partition is asked; its answer takes no time, but it may be between two tenures.
const askPatience = time.Second

// Metas returns the identities of up to most of the series in memory, about equally many of each partition.
func (c *Consumer) Metas(most int) []bson.RawValue {
	c.mu.Lock()
	runners := slices.Clone(c.now)
	if c.ended > 0 {
		runners = nil // nobody answers
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

// Statuses describes the partitions of the present generation, as of their last event. While the group joins the next one
// they are those of the last: most of them come back.
func (c *Consumer) Statuses() []*Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	var statuses []*Status
	if c.ended > 0 && c.o.Clock()-c.ended > c.o.Between {
		return nil
	}
	for _, r := range c.now {
		if s := r.status.Load(); s != nil {
			statuses = append(statuses, s)
		}
	}
	return statuses
}
