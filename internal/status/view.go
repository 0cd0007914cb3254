package status

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/mongodb"
	"waterwheel/pipeline"
)

const (
	pingInterval = 2 * time.Second
	pingTimeout  = 2 * time.Second
	lookInterval = 2 * time.Second
	// patience is how long something may fail before the consumer is not ready: a moved leader is no outage.
	patience = 5 * time.Second
)

// Options are what a View shows beside the consumer's parts.
type Options struct {
	Version, Group string
	// MemoryLimit is the process's, in bytes; Budget accounts for the part that the partitions share.
	MemoryLimit int64
	Budget      *pipeline.Budget
	SeriesMax   int64         // more series are warned of. Zero means that no number is.
	MaxCount    int32         // of measurements in a bucket
	LogProgress time.Duration // between two lines of progress
	// FlushInterval is how often measurements are written: a partition is late when it is several of them behind.
	FlushInterval time.Duration
	Settings      []Setting // for the page, secrets masked
	Metrics       *pipeline.Metrics
	// Outages is told whether MongoDB answers.
	Outages *pipeline.Outages
	// Losses are where logs did not have an offset. Nil means that nobody remembers.
	Losses *pipeline.Losses
	Log    *slog.Logger
	// Held is how long Log holds back a warning that comes again.
	Held time.Duration
}

// View is what pages and metrics show of the running consumer. It is safe for concurrent use.
type View struct {
	o        Options
	parts    atomic.Pointer[Parts]  // nil: not connected yet
	database atomic.Pointer[outage] // nil: MongoDB answers
	waits    waits                  // until then
	letters  recentLetters
	looks    *looks
	hour     *hour
	outages  *prometheus.CounterVec
	// overSeries counts the looks, one for each line of progress, that found more series than SeriesMax.
	overSeries prometheus.Counter
}

// Parts exist once both ends are connected.
type Parts struct {
	Client   *kafka.Client
	Group    *group.Group
	Consumer *pipeline.Consumer
	Database Pinger
	// MostVaried names the fields of meta in memory that have the most different values.
	MostVaried func() string
}

// Pinger asks MongoDB for a sign of life.
type Pinger interface {
	Ping(ctx context.Context) error
}

// outage is something that does not answer.
type outage struct {
	since time.Time
	err   error
}

// New returns a View that says that the consumer is not connected yet.
func New(o Options) *View {
	v := &View{
		o: o, letters: recentLetters{apart: o.Held + time.Second, untold: map[string]*untoldLetters{}}, looks: newLooks(kafka.Now, o.Log), hour: newHour(o.FlushInterval, time.Now()),
		outages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waterwheel_outage_seconds_total", Help: "Time in which a server did not do its part, as far as this consumer noticed.",
		}, []string{"dependency"}),
		overSeries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waterwheel_series_max_exceeded_total", Help: "Looks, once a minute, that found more series in memory than SERIES_MAX.",
		}),
	}
	for of := range pipeline.Dependencies {
		v.outages.WithLabelValues(of.String())
	}
	return v
}

// Watch shows the parts. Until the context ends it asks MongoDB for a sign of life and Kafka for what the workers do not, and
// writes lines of progress and of letters.
func (v *View) Watch(ctx context.Context, p Parts) {
	v.parts.Store(&p)
	var together sync.WaitGroup
	defer together.Wait()
	together.Go(func() {
		every(ctx, pingInterval, func() {
			v.ping(ctx)
			v.countOutages()
			v.letters.report(v.o.Log, time.Now())
		})
	})
	logs := kafkaLogs{p.Client, v.o.Group}
	together.Go(func() {
		every(ctx, lookInterval, func() { v.looks.refresh(ctx, logs, p.Consumer.Statuses()) })
	})
	together.Go(func() { every(ctx, sampleInterval, v.sample) })
	last := report{at: time.Now()}
	every(ctx, v.o.LogProgress, func() { last = v.progress(last) })
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
func (v *View) statuses(now time.Time) []*pipeline.Status {
	p := v.parts.Load()
	if p == nil {
		return nil
	}
	return v.looks.completed(p.Consumer.Statuses(), now)
}

func (v *View) ping(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := v.parts.Load().Database.Ping(within)
	before := v.database.Load()
	switch {
	case ctx.Err() != nil:
		return // the process ends, which says nothing about MongoDB
	case err == nil && before != nil:
		v.o.Outages.Answered(pipeline.MongoDB, pipeline.Prober)
		fallthrough
	case err == nil:
		v.database.Store(nil)
		return
	case before == nil:
		before = &outage{since: time.Now()}
	}
	if out, ok := errors.AsType[*mongodb.OutageError](err); ok {
		err = out.Err // that it is asked for a sign of life is said by the sentence
	}
	v.database.Store(&outage{since: before.since, err: err})
	v.o.Outages.Failed(pipeline.MongoDB, pipeline.Prober, pipeline.Trouble{
		Since: kafka.Now() - time.Since(before.since), Doing: "pinging", Cause: err.Error(),
	})
}

// failing says which servers fail now.
func (v *View) failing(statuses []*pipeline.Status) [pipeline.Dependencies]bool {
	failing := [pipeline.Dependencies]bool{pipeline.MongoDB: v.database.Load() != nil}
	for _, s := range statuses {
		for of, trouble := range s.Troubles {
			failing[of] = failing[of] || trouble != nil
		}
	}
	return failing
}

// sample adds to the hour how the consumer does now.
func (v *View) sample() {
	s := seen{at: time.Now(), done: v.o.Metrics.Totals(), generation: -1}
	s.statuses = v.statuses(s.at)
	s.failing = v.failing(s.statuses)
	if g := v.parts.Load().Group.Status().Generation; g != nil {
		s.generation = g.ID
	}
	v.hour.note(s)
}

// countOutages adds the time since the last look to the servers that fail now.
func (v *View) countOutages() {
	for of, fails := range v.failing(v.parts.Load().Consumer.Statuses()) {
		if fails {
			v.outages.WithLabelValues(pipeline.Dependency(of).String()).Add(pingInterval.Seconds())
		}
	}
}
