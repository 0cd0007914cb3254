package live

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"waterwheel/e2e/bench"
)

// tick is the time between two moments at which due records are written.
const tick = 5 * time.Millisecond

// producer writes records of all series in turn at a fixed rate, with the present time. Each series has a record every 1/rate
// seconds, and the series are spread evenly.
type producer struct {
	client  *kgo.Client
	maker   *bench.Maker
	load    bench.Load
	total   float64 // records a second
	written atomic.Int64
	failed  func(error)
	running sync.WaitGroup
}

// run writes until the context ends. After a delay it catches up, so that a slow moment is no gap.
func (p *producer) run(ctx context.Context) {
	begun := time.Now()
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for sent := 0; ; {
		now := time.Now()
		for due := int(now.Sub(begun).Seconds() * p.total); sent < due && ctx.Err() == nil; sent++ {
			series := p.maker.Series(sent)
			p.send(ctx, p.maker.Partition(series), p.maker.AppendAt(nil, series, sent, now))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// send writes one record.
func (p *producer) send(ctx context.Context, partition int32, value []byte) {
	p.client.Produce(ctx, &kgo.Record{Partition: partition, Value: value}, func(_ *kgo.Record, err error) {
		switch {
		case err == nil:
			p.written.Add(1)
		case ctx.Err() == nil:
			p.failed(fmt.Errorf("writing a record: %w", err))
		}
	})
}
