package pipeline

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"waterwheel/record"
	"waterwheel/timeseries"
)

// tickInterval is how often a worker looks at the clock. It bounds how late a flush or a retry may be.
const tickInterval = 50 * time.Millisecond

// runner feeds one worker and carries out its actions, each in a goroutine of its own. The goroutine of run is the only
// one that touches the worker.
type runner struct {
	worker  *Worker
	ports   Ports
	letters Letters
	clock   func() Instant
	budget  *Budget
	kick    func() // asks for a commit soon

	log   Log
	store Store

	events chan Event
	asks   chan func(*Worker) // questions of other goroutines, for as long as the process lives
	revoke chan bool          // true: the process' last hand-over
	ended  chan struct{}
	acting sync.WaitGroup

	want   atomic.Pointer[record.Commit] // nil: nothing may be committed
	urgent atomic.Bool                   // the next commit must not wait for a change of offset
	status atomic.Pointer[Status]

	collection atomic.Pointer[timeseries.Options] // as it was last changed; nil: it was not
	applied    *timeseries.Options                // the one that the worker was told
}

// run is one tenure: it returns when the partition was handed over, or ctx is done and everything under way has stopped.
func (r *runner) run(ctx context.Context, gen Generation, first Assigned) {
	defer close(r.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer r.leave()
	defer cancel()
	fetching, stopFetching := context.WithCancel(ctx)
	defer stopFetching()
	t := &tenancy{runner: r, gen: gen, writing: ctx, fetching: fetching}
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	t.applyCollection()
	handedOver := t.handle(first)
	for !handedOver {
		select {
		case e := <-r.events:
			handedOver = t.handle(e)
		case ask := <-r.asks:
			ask(r.worker)
		case <-tick.C:
			t.applyCollection()
			handedOver = t.handle(Ticked{})
		case shutdown := <-r.revoke:
			stopFetching()
			handedOver = t.handle(Revoked{Shutdown: shutdown})
		case <-ctx.Done():
			r.acting.Wait()
			t.handle(Abandoned{})
			return
		}
	}
}

// leave waits for everything under way. What was fetched nobody takes any more.
func (r *runner) leave() {
	r.acting.Wait()
	r.log, r.store = nil, nil
	r.budget.Settle(r.worker, 0)
	r.budget.Found(r.worker, 0)
}

// forget drops what the worker holds in memory. Only between tenures.
func (r *runner) forget() {
	r.worker.Handle(Moment{Now: r.clock()}, Dropped{})
	r.budget.Leave(r.worker)
	r.want.Store(nil)
	r.status.Store(nil)
}

// post hands an event to the tenure, if it has not ended.
func (r *runner) post(e Event) {
	select {
	case r.events <- e:
	case <-r.ended:
	}
}

// tenancy is a runner in one generation.
type tenancy struct {
	*runner
	gen               Generation
	writing, fetching context.Context // fetching ends first, when the partition is revoked
}

// handle gives an event to the worker, carries out what it wants, and publishes what others may see of it.
func (t *tenancy) handle(e Event) (handedOver bool) {
	m := Moment{Now: t.clock(), Held: t.gen.Held()}
	m.Target, m.Full = t.budget.Report(t.worker, t.worker.Bytes())
	actions := t.worker.Handle(m, e)
	t.publish(m) // first, so that a commit that is asked for now finds what to commit
	switch e := e.(type) {
	case Fetched:
		t.budget.Settle(t.worker, e.Batch.Left)
	case RecordRead:
		t.budget.Settle(t.worker, e.Batch.Left)
	case BucketsFound:
		t.budget.Found(t.worker, 0)
	}
	for _, action := range actions {
		if _, ok := action.(HandedOver); ok {
			handedOver = true
			continue
		}
		t.do(action)
	}
	return handedOver
}

// applyCollection tells the worker when the options of the collection have changed.
func (t *tenancy) applyCollection() {
	if o := t.collection.Load(); o != t.applied {
		t.applied = o
		t.handle(CollectionChanged{Options: *o})
	}
}

func (t *tenancy) publish(m Moment) {
	t.budget.Use(t.worker, t.worker.Bytes())
	t.status.Store(t.worker.Status(m.Now))
	want, ok := t.worker.Want()
	if !ok {
		t.want.Store(nil)
		return
	}
	if old := t.want.Load(); old == nil || *old != want {
		t.want.Store(&want)
	}
}

// do starts an action; its event follows.
func (t *tenancy) do(action Action) {
	switch a := action.(type) {
	case Open:
		t.log, t.store = t.ports.Open(a.Source)
	case CommitNow:
		t.urgent.Store(true)
		t.kick()
	case Fetch:
		t.start(func() Event {
			batch, err := t.fetch(t.fetching, a.Offset)
			return Fetched{batch, err}
		})
	case ReadRecord:
		t.start(func() Event {
			batch, err := t.fetch(t.writing, a.Offset)
			return RecordRead{batch, err}
		})
	default:
		t.start(func() Event { return t.perform(t.writing, action) })
	}
}

// fetch waits for records, and then for the memory to take them in; what it brought counts until the worker has taken it.
func (t *tenancy) fetch(ctx context.Context, offset int64) (record.Batch, error) {
	held, err := t.log.Await(ctx, offset, t.budget.Share())
	t.budget.Fetched(t.worker, held)
	if err != nil {
		return record.Batch{}, err
	}
	bytes, err := t.budget.Reserve(ctx, t.worker)
	if err != nil {
		return record.Batch{}, err
	}
	batch, err := t.log.Take(offset, bytes)
	t.budget.Fetched(t.worker, batch.Bytes+batch.Left)
	return batch, err
}

// start runs an action beside the worker and posts its event, unless the tenure is over.
func (t *tenancy) start(perform func() Event) {
	t.acting.Go(func() {
		event := perform()
		select {
		case t.events <- event:
		case <-t.writing.Done():
		}
	})
}

// perform carries out one action.
func (t *tenancy) perform(ctx context.Context, action Action) Event {
	switch a := action.(type) {
	case ReadClaim:
		return t.readClaim(ctx)
	case NoteWaited:
		return WaitedNoted{t.store.NoteWaited(ctx, a.Claim, a.Waited)}
	case SendClaim:
		won, err := t.store.Claim(ctx, a.Seen, a.Claim)
		return Claimed{won, err}
	case LoadStored:
		stored, err := t.store.Stored(ctx, a.Start, a.End)
		return StoredLoaded{stored, err}
	case AskBounds:
		bounds, err := t.log.Bounds(ctx)
		return BoundsAsked{bounds, err}
	case AskTopic:
		id, err := t.ports.TopicID(ctx, t.worker.o.Partition.Topic)
		return TopicAsked{id, err}
	case SendWrites:
		return WritesSent{t.store.Send(ctx, a.Writes)}
	case ResolveWrites:
		found, err := t.store.Resolve(ctx, a.Writes)
		return WritesResolved{found, err}
	case AskPositions:
		stored, err := t.store.Positions(ctx, a.Write)
		return PositionsAsked{stored, err}
	case FindBuckets:
		answers, err := t.store.Find(ctx, a.Lookups)
		t.budget.Found(t.worker, answerBytes(answers))
		return BucketsFound{answers, err}
	case ProduceLetters:
		written, err := t.letters.Produce(ctx, a.Letters)
		return LettersProduced{written, err}
	case SendRelease:
		return Released{t.store.Release(ctx)}
	}
	panic("pipeline: an action without a way to carry it out")
}

// readClaim asks MongoDB and Kafka in turn; an error counts as that of the server asked.
func (t *tenancy) readClaim(ctx context.Context) ClaimRead {
	seen, err := t.store.Read(ctx)
	if err != nil {
		return ClaimRead{Of: MongoDB, Err: err}
	}
	partitions, err := t.log.Partitions(ctx)
	if err != nil {
		return ClaimRead{Of: Kafka, Err: err}
	}
	first, err := t.store.FirstPartitions(ctx, partitions)
	if err != nil {
		return ClaimRead{Of: MongoDB, Err: err}
	}
	bounds, err := t.log.Bounds(ctx)
	return ClaimRead{Seen: seen, FirstPartitions: first, Bounds: bounds, Of: Kafka, Err: err}
}
