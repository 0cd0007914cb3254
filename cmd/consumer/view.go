package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/config"
	"waterwheel/kafka"
	"waterwheel/pipeline"
	"waterwheel/sink"
)

const (
	pingInterval = 2 * time.Second
	pingTimeout  = 2 * time.Second
	lookInterval = 2 * time.Second
	// patience is how long something may fail before the consumer is not ready: a moved leader is no outage.
	patience = 5 * time.Second
)

// view is what pages and metrics show of the running consumer: snapshots of its parts, put together when asked for.
type view struct {
	group     string
	limit     int64
	seriesMax int64
	maxCount  int32 // BUCKET_MAX_COUNT
	budget    *pipeline.Budget
	letters   *recentLetters
	parts     atomic.Pointer[parts]
	database  atomic.Pointer[outage] // nil: MongoDB answers
	down      *pipeline.Outages
	looks     *looks
	reports   progressReport
	outages   *prometheus.CounterVec
	// overSeries counts the looks, once a minute, that found more series than seriesMax.
	overSeries prometheus.Counter
}

// parts exist once both ends are connected.
type parts struct {
	group    *kafka.Group
	consumer *pipeline.Consumer
	database prober
	metrics  *pipeline.Metrics
	kafka    logLooker
}

// prober asks MongoDB for a sign of life.
type prober interface {
	Ping(ctx context.Context) error
}

// outage is something that does not answer.
type outage struct {
	since time.Time
	err   error
}

func newView(c config.Config, log *slog.Logger) *view {
	limit := int64(c.Memory.Limit)
	outages := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "waterwheel_outage_seconds_total", Help: "Time in which a server did not do its part, as far as this consumer noticed.",
	}, []string{"of"})
	for _, of := range []pipeline.Dependency{pipeline.MongoDB, pipeline.Kafka, pipeline.DeadLetters} {
		outages.WithLabelValues(of.String())
	}
	overSeries := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "waterwheel_series_max_exceeded_total", Help: "Looks, once a minute, that found more series in memory than SERIES_MAX.",
	})
	return &view{
		overSeries: overSeries, group: c.Kafka.GroupID, limit: limit, seriesMax: c.Memory.SeriesMax, maxCount: c.Bucket.MaxCount,
		budget: pipeline.NewBudget(limit / 100 * budgetPercent), letters: &recentLetters{}, outages: outages,
		down: pipeline.NewOutages(log, kafka.Now), looks: newLooks(kafka.Now),
		reports: progressReport{every: c.Service.LogProgress, last: time.Now()},
	}
}

func (v *view) attach(p *parts) { v.parts.Store(p) }

// watch asks MongoDB for a sign of life and Kafka for what the workers do not, and writes lines of progress and of letters,
// until the context ends.
func (v *view) watch(ctx context.Context, log *slog.Logger) {
	var together sync.WaitGroup
	defer together.Wait()
	together.Go(func() {
		every(ctx, pingInterval, func() {
			v.ping(ctx)
			v.countOutages()
			v.letters.report(log, time.Now())
		})
	})
	together.Go(func() {
		every(ctx, lookInterval, func() {
			p := v.parts.Load()
			v.looks.refresh(ctx, p.kafka, p.consumer.Statuses())
		})
	})
	every(ctx, v.reports.every, func() { v.progress(log) })
}

// every does something again and again until the context ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}

// statuses are the partitions as of now: every sign of them is taken from here.
func (v *view) statuses(now time.Time) []*pipeline.Status {
	p := v.parts.Load()
	if p == nil {
		return nil
	}
	return v.looks.completed(p.consumer.Statuses(), now)
}

func (v *view) ping(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := v.parts.Load().database.Ping(within)
	before := v.database.Load()
	switch {
	case ctx.Err() != nil:
		return // the process ends, which says nothing about MongoDB
	case err == nil && before != nil:
		v.down.Answered(pipeline.MongoDB, pipeline.Prober)
		fallthrough
	case err == nil:
		v.database.Store(nil)
		return
	case before == nil:
		before = &outage{since: time.Now()}
	}
	if out := (*sink.OutageError)(nil); errors.As(err, &out) {
		err = out.Err // that it is asked for a sign of life is said by the sentence
	}
	v.database.Store(&outage{since: before.since, err: err})
	v.down.Failed(pipeline.MongoDB, pipeline.Prober, pipeline.Trouble{
		Since: kafka.Now() - time.Since(before.since), Doing: "asking for a sign of life", Cause: err.Error(),
	})
}

// countOutages adds the time since the last look to the servers that fail now.
func (v *view) countOutages() {
	failing := map[pipeline.Dependency]bool{pipeline.MongoDB: v.database.Load() != nil}
	for _, s := range v.parts.Load().consumer.Statuses() {
		for of, trouble := range s.Troubles {
			failing[pipeline.Dependency(of)] = failing[pipeline.Dependency(of)] || trouble != nil
		}
	}
	for of, fails := range failing {
		if fails {
			v.outages.WithLabelValues(of.String()).Add(pingInterval.Seconds())
		}
	}
}
