package chaos

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// maxEventBytes is the EVENT_MAX_BYTES of a run. It is small, so that oversized events are cheap to make.
const maxEventBytes = 64 << 10

// load is a running producer.
type load struct {
	book     *events.Book // used only by the producing goroutine until stop
	begin    time.Time
	produced atomic.Int64
	failed   chan error
	pause    sync.Mutex // held while nothing may be produced
	cancel   context.CancelFunc
	done     chan struct{}
}

// startLoad produces events at about the rate of the options until the load is stopped.
func (r *run) startLoad(ctx context.Context) *load {
	o := r.options
	ctx, cancel := context.WithCancel(ctx)
	l := &load{book: events.NewBook(), begin: time.Now(), failed: make(chan error, 1), cancel: cancel, done: make(chan struct{})}
	generator := events.NewGenerator(events.Options{
		Series: o.Series, Start: time.Now().Add(-4 * time.Hour).Truncate(time.Second), Step: 5 * time.Second,
		MaxBytes: maxEventBytes, Seed: o.Seed, NoArrayMetas: o.ShardKey != "",
	})
	next := generator.Next
	if o.Naive {
		next = func() events.Event { return goodEvent(generator) }
	}
	go func() {
		defer close(l.done)
		if err := l.produce(ctx, next, o.Rate, harness.NewProducer(r.cluster.Address(), r.topic)); err != nil {
			l.failed <- err
		}
	}()
	return l
}

// goodEvent returns the next event whose parts must all be stored.
func goodEvent(g *events.Generator) events.Event {
	for {
		e := g.Next()
		if n := e.Fate.Valid(); n > 0 && n == len(e.Fate.Parts) {
			return e
		}
	}
}

// produce sends due events. After a standstill of the cluster it catches up by at most one second's worth at once.
func (l *load) produce(ctx context.Context, next func() events.Event, rate int, producer *harness.Producer) error {
	defer producer.Close()
	for ctx.Err() == nil {
		due := int(time.Since(l.begin).Seconds()*float64(rate)) - int(l.produced.Load())
		batch := make([]events.Event, max(0, min(due, rate)))
		for i := range batch {
			batch[i] = l.book.Add(next())
		}
		if err := l.send(context.WithoutCancel(ctx), producer, batch); err != nil {
			return fmt.Errorf("the load: %w", err)
		}
		l.produced.Add(int64(len(batch)))
		sleep(ctx, 50*time.Millisecond)
	}
	return nil
}

// send sends a batch, and repeats it when it fails. Records that arrive twice are valid both times. A producer gives up when all
// brokers are down.
func (l *load) send(ctx context.Context, producer *harness.Producer, batch []events.Event) error {
	l.pause.Lock()
	defer l.pause.Unlock()
	for end := time.Now().Add(3 * time.Minute); ; sleep(ctx, time.Second) {
		err := producer.Send(ctx, batch...)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// stop ends the load after its last batch is acknowledged.
func (l *load) stop() error {
	l.cancel()
	<-l.done
	select {
	case err := <-l.failed:
		return err
	default:
		return nil
	}
}
