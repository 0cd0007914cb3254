package main

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"waterwheel/config"
	"waterwheel/internal/check"
	"waterwheel/internal/claim"
	"waterwheel/internal/cli"
	"waterwheel/internal/collection"
	"waterwheel/internal/connect"
	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/keeper"
	"waterwheel/internal/record"
	"waterwheel/internal/status"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
	"waterwheel/sink"
)

// process holds what a running consumer has from its start, before it is connected.
type process struct {
	config   config.Config
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *pipeline.Metrics
	budget   *pipeline.Budget
	outages  *pipeline.Outages
	losses   *pipeline.Losses
	view     *status.View
}

// run carries measurements until the context ends, and then hands everything over in order. A second signal ends it without that.
// If the cause is cli.ErrRotated, run is called again at once.
func run(ctx context.Context, c config.Config, log *slog.Logger) error {
	debug.SetMemoryLimit(int64(c.Memory.Limit))
	p := newProcess(c, log)

	// The pages answer from the start until everything is handed over. If they cannot be served, the consumer ends.
	closing, endClosing := closingContext(ctx, c.Service.ShutdownTimeout)
	defer endClosing()
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	all, working := errgroup.WithContext(ctx)
	all.Go(func() error { return p.view.Pages(c.Service.HTTPAddr, p.registry).Run(serving, closing) })
	all.Go(func() error { return status.Profiles(c.Service.PprofAddr, log).Run(serving, closing) })
	all.Go(func() error {
		if err := notifyManager(serving, ctx, os.LookupEnv, p.view.Readiness); err != nil {
			log.Warn("cannot report the consumer's state to the service manager (systemd)", "err", err)
		}
		return nil
	})
	all.Go(func() error {
		defer stopServing()
		return p.work(working, closing)
	})
	ended := make(chan error, 1)
	go func() { ended <- all.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		log.Info("stopping", "why", context.Cause(ctx), "within", c.Service.ShutdownTimeout)
	}
	if beginsAgain(ctx) { // then the next signal counts as the first one
		return <-ended
	}
	second := make(chan os.Signal, 1)
	signal.Notify(second, stopSignals()...)
	defer signal.Stop(second)
	select {
	case err := <-ended:
		return err
	case <-second: // the process ends although work is still under way
		return p.view.Hurried()
	}
}

func newProcess(c config.Config, log *slog.Logger) *process {
	p := &process{
		config: c, log: log, registry: prometheus.NewRegistry(), budget: pipeline.NewBudget(connect.Budget(c)),
		outages: pipeline.NewOutages(log, kafka.Now), losses: &pipeline.Losses{},
	}
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registerBuildInfo(p.registry)
	p.metrics = pipeline.NewMetrics(p.registry)
	p.view = status.New(status.Options{
		Version: version, Group: c.Kafka.GroupID, MemoryLimit: int64(c.Memory.Limit), Budget: p.budget, SeriesMax: c.Memory.SeriesMax,
		MaxCount: c.Bucket.MaxCount, Metrics: p.metrics, Outages: p.outages, Losses: p.losses, LogProgress: c.Service.LogProgress, Log: log, Held: cli.RepeatAfter,
		FlushInterval: c.Flush.Interval, Settings: settingsShown(c),
	})
	p.registry.MustRegister(p.view)
	return p
}

// settingsShown returns the settings for the status page, without empty ones.
func settingsShown(c config.Config) (shown []status.Setting) {
	for _, s := range c.Settings() {
		if s.Value != "" {
			shown = append(shown, status.Setting(s))
		}
	}
	return shown
}

// work connects, joins the group, and works until the context ends. closing bounds how long it may take to close the connections
// after that.
func (p *process) work(ctx, closing context.Context) error {
	p.log.Info("starting", "version", version, "group", p.config.Kafka.GroupID, "topics", strings.Join(p.config.Kafka.Topics, ","))
	n := connect.New()
	defer n.Close(closing)
	err := n.Open(ctx, p.config, p.patience(), p.registry)
	if err != nil && ctx.Err() != nil {
		p.log.Info("stopped before Kafka and MongoDB were connected")
		return nil // as asked
	}
	if err != nil {
		return err
	}
	if p.config.Kafka.HasPatterns() {
		p.log.Info("topics that match KAFKA_TOPICS", "topics", strings.Join(n.Config.Kafka.Topics, ","))
	}
	consumer := pipeline.NewConsumer(p.consumer(n))
	n.Consumer.Store(consumer)
	working, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	member := &member{consumer: consumer, log: p.log, stopping: func() bool { return working.Err() != nil }}
	membership := group.New(n.Kafka, connect.GroupOptions(n.Config, p.log), member, p.registry)

	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	topics := &topicWatch{log: p.log, topics: n.Config.Kafka.Topics, add: n.Add, missing: n.Kafka.Missing, deleted: newTopicsDeleted(p.registry)}
	topics.note(nil)
	var watchers sync.WaitGroup
	watchers.Go(func() {
		p.view.Watch(watching, status.Parts{
			Client: n.Kafka, Group: membership, Consumer: consumer, Database: n.Database,
			MostVaried: func() string { return check.MostVaried(consumer.Metas(sampledSeries)) }, Topics: topics.state.Load,
		})
	})
	cared := map[string]context.CancelFunc{}
	care := func(all, added []string) { // starts the watchers of the collections of added topics, and ends those of topics that are gone
		for topic, end := range cared {
			if !slices.Contains(all, topic) {
				end()
				delete(cared, topic)
			}
		}
		for _, topic := range added {
			if cared[topic] != nil {
				continue
			}
			caring, end := context.WithCancel(watching)
			cared[topic] = end
			watch := p.collectionWatch(n, consumer, topic)
			watch.missing = func(ctx context.Context) {
				err := n.RefuseEmpty(ctx, topic)
				if lost, ok := errors.AsType[*claim.LostContentError](err); ok {
					leave(lost)
				}
				p.log.Debug("the collection of a topic is not set up", "topic", topic, "err", err)
			}
			watchers.Go(func() { watch.run(caring, collectionInterval) })
		}
		watchers.Go(func() { p.makeMetaIndexes(watching, n, added) })
	}
	care(n.Config.Kafka.Topics, n.Config.Kafka.Topics)
	if p.config.Kafka.HasPatterns() {
		topics.look = func(ctx context.Context, order connect.Precedence) (config.Config, map[string]error, error) {
			return connect.Match(ctx, n.Kafka, p.config, order, p.log)
		}
		topics.read = func(topics, added []string) {
			n.Kafka.Route(topics)
			care(topics, added)
			membership.Subscribe(topics)
		}
		watchers.Go(func() { topics.run(watching, topicsInterval) })
	}
	watchers.Go(func() { keeper.New(p.keeping(n, consumer)).Run(watching) }) // the levels are those that time series have
	err = membership.Run(working)
	if lost, ok := errors.AsType[*claim.LostContentError](context.Cause(working)); ok {
		err = lost
	}
	stopWatching()
	watchers.Wait()
	p.view.Stopped()
	return err
}

// collectionWatch returns the watch of the options of a topic's collection.
func (p *process) collectionWatch(n *connect.Connections, consumer *pipeline.Consumer, topic string) collectionWatch {
	series := collection.Of(n.Database, p.config.SeriesFor(topic))
	return collectionWatch{
		store: n.Store(topic), log: p.log,
		covers:  series.Covers,
		apply:   func(o timeseries.Options) { consumer.SetCollection(topic, o) },
		compact: func() { consumer.AskCompaction(topic) },
		mend:    series.MendView,
	}
}

// makeMetaIndexes creates the missing indexes of META_INDEXES for the collections of some topics.
func (p *process) makeMetaIndexes(ctx context.Context, n *connect.Connections, topics []string) {
	made := func(series, path, index string) {
		p.log.Info("index created for META_INDEXES", "collection", series, "on", path, "index", index)
	}
	c := p.config
	c.Kafka.Topics = topics
	if err := n.MakeMetaIndexes(ctx, c, p.log, made); err != nil && ctx.Err() == nil {
		p.log.Warn("an index of META_INDEXES cannot be created: measurements are still stored, but queries on parts of meta will scan the collection",
			"err", err, "way_out", "remove the cause, then run waterwheel init to create the index; waterwheel collection indexes lists the existing indexes")
	}
}

// keeping returns the options of the keeper of rollups.
func (p *process) keeping(n *connect.Connections, consumer *pipeline.Consumer) keeper.Options {
	c := p.config
	return keeper.Options{
		Rollups: n.Rollups, Interval: c.Rollup.Interval, Share: float64(c.Rollup.Share),
		Partitions: func() []keeper.Partition {
			return owned(consumer.Statuses(), n.Kafka.ClusterID(), c.Kafka.GroupID, time.Now())
		},
		Nested: func(series string) *keeper.Nested {
			documents := n.Nested(series)
			if documents == nil {
				return nil
			}
			return &keeper.Nested{Documents: documents, Aggregations: c.Rollup.Nested.Aggregations}
		},
		Metrics: keeper.NewMetrics(p.registry), Log: p.log,
	}
}

// patience returns the patience of the start, which begins now.
func (p *process) patience() *connect.Patience {
	with := connect.Patience{Log: p.log, Opening: true, Bound: "START_TIMEOUT", Show: p.view.Waiting}
	return with.Started(p.config.Service.StartTimeout)
}

// consumer returns the consumer's options.
func (p *process) consumer(n *connect.Connections) pipeline.ConsumerOptions {
	c := p.config
	owner, err := os.Hostname()
	if err != nil {
		owner = "unknown"
	}
	return pipeline.ConsumerOptions{
		NewWorker: func(of record.Partition) *pipeline.Worker {
			return pipeline.NewWorker(p.worker(n, of))
		},
		Ports: &ports{
			client: n.Kafka, store: n.Store, deadLetters: deadLetterTopic{n.DeadLetters, p.view.Written}, schemas: n.Schemas, group: c.Kafka.GroupID,
			owner: owner, open: map[record.Partition]*sink.Partition{},
		},
		Budget: p.budget, Clock: kafka.Now, CommitInterval: c.Flush.CommitInterval, Lease: c.Kafka.Lease, Between: c.Kafka.RebalanceTimeout,
		Metrics: p.metrics,
	}
}

// worker returns the options of the worker of a partition.
func (p *process) worker(n *connect.Connections, of record.Partition) pipeline.Options {
	c := p.config.ForTopic(of.Topic)
	decoder, _, err := connect.NewDecoder(c)
	if err != nil {
		panic("waterwheel: options that connect has checked: " + err.Error())
	}
	store, writeGrace := n.Store(of.Topic), connect.WriteGrace(c)
	buckets := connect.Bucketing(c, store.Options, store.SetsInTextOrder)
	if store.Segments {
		buckets.DenseFrom, buckets.SegmentRows = pipeline.DefaultDenseFrom, c.Flush.SegmentRows
		for _, path := range c.MongoDB.MetaIndexes {
			buckets.SegmentOrder = append(buckets.SegmentOrder, strings.TrimPrefix(path, c.MongoDB.MetaField+"."))
		}
	}
	return pipeline.Options{
		Partition: of, Group: c.Kafka.GroupID, ClusterID: n.Kafka.ClusterID(),
		Namespace: connect.Namespace(c, of.Topic), Bucketing: buckets, Decoder: decoder,
		OutOfRange: claim.OutOfRange(c.Kafka.OutOfRange), StopOnBad: c.DLQ.Topic == "", SchemaUnknownWait: max(c.Registry.UnknownWait, 1), Portion: connect.Portion(c),
		LongestDeadLetter: max(int(c.Event.MaxBytes), pipeline.DefaultDeadLetterBuffer), // a record that might be stored some day is kept whole
		FlushInterval:     c.Flush.Interval, FlushBytes: int64(c.Flush.Bytes), FlushCount: c.Flush.Count,
		Sharded: n.Database.Server().Sharded, Wait: c.Kafka.Lease + writeGrace, WriteGrace: writeGrace, Warm: true, NewToken: newToken,
		Segments: store.HasSegments, CompactInterval: c.Flush.CompactInterval, CompactDelay: c.Flush.CompactDelay,
		CompactMargin: min(pipeline.DefaultCompactMargin, c.Flush.CompactDelay/4), SegmentRetention: c.Flush.SegmentRetention,
		CompactBytes: min(pipeline.DefaultCompactBytes, connect.Budget(c)/compactShare), SegmentMeasurements: int64(c.Flush.SegmentMeasurements),
		Random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), Log: p.log, Metrics: p.metrics, Outages: p.outages,
		Losses: p.losses,
	}
}

// compactShare divides the memory budget. One share is for the segments of one compaction, which take about ten times as much in
// memory.
const compactShare = 64

// sampledSeries is how many series are examined for a warning about too many of them.
const sampledSeries = 5000

func newToken() (t claim.Token) {
	_, _ = cryptorand.Read(t[:]) // never fails
	return t
}

// registerBuildInfo adds waterwheel_build_info, which is always 1.
func registerBuildInfo(reg prometheus.Registerer) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "waterwheel_build_info",
		Help:        "Always 1. The labels describe the running program.",
		ConstLabels: prometheus.Labels{"version": version, "revision": cli.Revision(), "goversion": runtime.Version()},
	}, func() float64 { return 1 }))
}
