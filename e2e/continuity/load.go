package continuity

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/events"
)

// tick is the time between two moments at which due records are written.
const tick = 10 * time.Millisecond

// load writes measurements of all series in turn at a steady rate, each with the present time.
type load struct {
	options Options
	client  *kgo.Client
	book    *events.Book
	fail    context.CancelCauseFunc // fails the scenario
	// acknowledged is called for each record that Kafka has acknowledged.
	acknowledged func(partition int32, offset int64, made time.Time)
	cancel       context.CancelFunc
	done         sync.WaitGroup
	stopped      bool
}

// startLoad writes to the topic until it is stopped.
func startLoad(ctx context.Context, o Options, topic string, fail context.CancelCauseFunc, acknowledged func(int32, int64, time.Time)) (*load, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(o.Servers.Brokers, ",")...), kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		return nil, fmt.Errorf("making a producer: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &load{options: o, client: client, book: events.NewBook(), fail: fail, acknowledged: acknowledged, cancel: cancel}
	l.done.Go(func() { l.run(ctx) })
	return l, nil
}

// run writes until the context ends. After a delay it catches up.
func (l *load) run(ctx context.Context) {
	begun := time.Now()
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for sent := 0; ; {
		now := time.Now()
		for due := int(now.Sub(begun).Seconds() * float64(l.options.Rate)); sent < due && ctx.Err() == nil; sent++ {
			l.send(context.WithoutCancel(ctx), sent, now)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// send writes measurement number n.
func (l *load) send(ctx context.Context, n int, now time.Time) {
	series := n % l.options.Series
	e := l.book.Add(events.Of(events.Reading{
		Time: now.UnixMilli(), Meta: fmt.Sprintf("sensor-%d", series),
		Fields: bson.D{{Key: "serial", Value: int32(n)}, {Key: "temperature", Value: float64(n%400) / 10}},
	}))
	record := &kgo.Record{Partition: int32(series % l.options.Partitions), Key: e.Key, Value: e.Value}
	l.client.Produce(ctx, record, func(r *kgo.Record, err error) {
		if err != nil {
			l.fail(fmt.Errorf("writing a record: %w", err))
			return
		}
		l.acknowledged(r.Partition, r.Offset, now)
	})
}

// stop ends the load once Kafka has acknowledged all of it. It may be called again.
func (l *load) stop(ctx context.Context) error {
	if l.stopped {
		return nil
	}
	l.stopped = true
	l.cancel()
	l.done.Wait()
	defer l.client.Close()
	if err := l.client.Flush(ctx); err != nil {
		return fmt.Errorf("writing the last records: %w", err)
	}
	return nil
}
