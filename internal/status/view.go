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
	// patience is how long something may fail before the consumer is not ready. A change of leader is no outage.
	patience = 5 * time.Second
)

// Options are the inputs of a View besides the consumer's parts.
type Options struct {
	Version, Group string
	// MemoryLimit is the limit of the process, in bytes. Budget accounts for the part that the partitions share.
	MemoryLimit int64
	Budget      *pipeline.Budget
	SeriesMax   int64         // the number of series above which the log warns. Zero means no warning.
	MaxCount    int32         // maximum number of measurements in a bucket
	LogProgress time.Duration // the time between two progress lines
	// FlushInterval is how often measurements are written. A partition is late when it is several intervals behind.
	FlushInterval time.Duration
	Settings      []Setting // for the page, secrets masked
	Metrics       *pipeline.Metrics
	// Outages is informed whether MongoDB answers.
	Outages *pipeline.Outages
	// Losses are the places where a log did not have a requested offset. Nil means that they are not recorded.
	Losses *pipeline.Losses
	Log    *slog.Logger
	// Held is how long Log suppresses a repeated warning.
	Held time.Duration
}

// View is what pages and metrics show of the running consumer. It is safe for concurrent use.
type View struct {
	o        Options
	parts    atomic.Pointer[Parts]  // Nil means not connected yet.
	database atomic.Pointer[outage] // Nil means that MongoDB answers.
	waits    waits                  // used until the parts are connected
	letters  recentLetters
	members  members
	looks    *looks
	hour     *hour
	outages  *prometheus.CounterVec
	// overSeries counts the checks, one for each progress line, that found more series than SeriesMax.
	overSeries prometheus.Counter
}

// Parts are the parts of the consumer. They exist once Kafka and MongoDB are connected.
type Parts struct {
	Client   *kafka.Client
	Group    *group.Group
	Consumer *pipeline.Consumer
	Database Pinger
	// MostVaried names the fields of meta that have the most distinct values in memory.
	MostVaried func() string
	// Topics returns the last look for topics that match the patterns of KAFKA_TOPICS. Nil means that there are no looks.
	Topics func() *Topics
}

// Pinger pings MongoDB.
type Pinger interface {
	Ping(ctx context.Context) error
}

// outage is a server that does not answer.
type outage struct {
	since time.Time
	err   error
}

// New returns a View that reports that the consumer is not connected yet.
func New(o Options) *View {
	v := &View{
		o: o, letters: recentLetters{apart: o.Held + time.Second, untold: map[string]*untoldLetters{}}, looks: newLooks(kafka.Now, o.Log), hour: newHour(o.FlushInterval, time.Now()),
		outages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waterwheel_outage_seconds_total", Help: "Time in which a dependency failed, as observed by this consumer.",
		}, []string{"dependency"}),
		overSeries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waterwheel_series_max_exceeded_total", Help: "Checks, once a minute, that found more series in memory than SERIES_MAX.",
		}),
	}
	for of := range pipeline.Dependencies {
		v.outages.WithLabelValues(of.String())
	}
	return v
}

// Watch shows the parts. Until the context ends it pings MongoDB, asks Kafka about partitions that their workers do not read, and
// logs lines about progress and letters.
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

// every calls do at regular intervals until the context ends.
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

// statuses returns the state of the partitions now. Everything that is shown of partitions comes from it.
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
		err = out.Err // the sentence already says that this was a ping
	}
	v.database.Store(&outage{since: before.since, err: err})
	v.o.Outages.Failed(pipeline.MongoDB, pipeline.Prober, pipeline.Trouble{
		Since: kafka.Now() - time.Since(before.since), Doing: "pinging", Cause: err.Error(),
	})
}

// failing returns which servers fail now.
func (v *View) failing(statuses []*pipeline.Status) [pipeline.Dependencies]bool {
	failing := [pipeline.Dependencies]bool{pipeline.MongoDB: v.database.Load() != nil}
	if look := v.parts.Load().Topics; look != nil {
		failing[pipeline.Kafka] = look().failing()
	}
	for _, s := range statuses {
		for of, trouble := range s.Troubles {
			failing[of] = failing[of] || trouble != nil
		}
	}
	return failing
}

// sample adds the present state of the consumer to the hour.
func (v *View) sample() {
	s := seen{at: time.Now(), done: v.o.Metrics.Totals(), generation: -1}
	s.statuses = v.statuses(s.at)
	s.failing = v.failing(s.statuses)
	if g := v.parts.Load().Group.Status().Generation; g != nil {
		s.generation = g.ID
	}
	v.hour.note(s)
}

// countOutages adds the time since the last check to the servers that fail now.
func (v *View) countOutages() {
	for of, fails := range v.failing(v.parts.Load().Consumer.Statuses()) {
		if fails {
			v.outages.WithLabelValues(pipeline.Dependency(of).String()).Add(pingInterval.Seconds())
		}
	}
}
