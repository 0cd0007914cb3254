package main

import (
	"context"
	cryptorand "crypto/rand"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"waterwheel/config"
	"waterwheel/internal/check"
	"waterwheel/internal/claim"
	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/record"
	"waterwheel/internal/status"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
	"waterwheel/sink"
)

func (p *program) runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   runName,
		Short: "Read and write until a signal comes (the default)",
		Long: "Joins the consumer group and carries measurements from Kafka to MongoDB until SIGINT or SIGTERM. Then it stops\n" +
			"reading, writes what it holds, commits and leaves the group, within SHUTDOWN_TIMEOUT. Whatever it cannot\n" +
			"write by then is named in the log and will be read again. A second signal ends it at once, with exit code 1.",
		Args: noArguments,
		RunE: p.start(p.settings, p.run),
	}
}

// runName is the name of the command that is a service; the others are for people.
const runName = "run"

// process is what a running consumer has from its start, before it is connected.
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

// run carries measurements until the context ends, then hands everything over in order. A second signal ends it without that.
func run(ctx context.Context, c config.Config, log *slog.Logger) error {
	debug.SetMemoryLimit(int64(c.Memory.Limit))
	p := newProcess(c, log)

	// The pages answer from the start, and until everything is handed over. Pages that cannot be served end the consumer.
	closing, endClosing := closingContext(ctx, c.Service.ShutdownTimeout)
	defer endClosing()
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	all, working := errgroup.WithContext(ctx)
	all.Go(func() error { return p.view.Pages(c.Service.HTTPAddr, p.registry).Run(serving, closing) })
	all.Go(func() error { return status.Profiles(c.Service.PprofAddr, log).Run(serving, closing) })
	all.Go(func() error {
		if err := notifyManager(serving, ctx, os.LookupEnv, p.view.Readiness); err != nil {
			log.Warn("service manager not notified", "err", err)
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
	second := make(chan os.Signal, 1)
	signal.Notify(second, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(second)
	select {
	case err := <-ended:
		return err
	case <-second: // the process ends with whatever is still under way
		return p.view.Hurried()
	}
}

func newProcess(c config.Config, log *slog.Logger) *process {
	p := &process{
		config: c, log: log, registry: prometheus.NewRegistry(), budget: pipeline.NewBudget(budgetOf(c)),
		outages: pipeline.NewOutages(log, kafka.Now), losses: &pipeline.Losses{},
	}
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registerBuildInfo(p.registry)
	p.metrics = pipeline.NewMetrics(p.registry)
	p.view = status.New(status.Options{
		Version: version, Group: c.Kafka.GroupID, MemoryLimit: int64(c.Memory.Limit), Budget: p.budget, SeriesMax: c.Memory.SeriesMax,
		MaxCount: c.Bucket.MaxCount, Metrics: p.metrics, Outages: p.outages, Losses: p.losses, LogProgress: c.Service.LogProgress, Log: log, Held: repeatAfter,
		FlushInterval: c.Flush.Interval, Settings: settingsShown(c),
	})
	p.registry.MustRegister(p.view)
	return p
}

// settingsShown are the settings for the status page: those that are not empty.
func settingsShown(c config.Config) (shown []status.Setting) {
	for _, s := range c.Settings() {
		if s.Value != "" {
			shown = append(shown, status.Setting(s))
		}
	}
	return shown
}

// work connects, joins the group, and works until the context ends; closing bounds how long closing the connections takes then.
func (p *process) work(ctx, closing context.Context) error {
	p.log.Info("starting", "version", version, "group", p.config.Kafka.GroupID, "topics", strings.Join(p.config.Kafka.Topics, ","))
	n, err := connect(ctx, p.config, p.patience(), p.registry)
	defer n.close(closing)
	if err != nil && ctx.Err() != nil {
		p.log.Info("stopped before it had connected")
		return nil // as asked
	}
	if err != nil {
		return err
	}
	consumer := pipeline.NewConsumer(p.consumer(n))
	n.consumer.Store(consumer)
	member := &member{consumer: consumer, log: p.log, stopping: func() bool { return ctx.Err() != nil }}
	membership := group.New(n.kafka, groupOptions(p.config, p.log), member, p.registry)

	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var watchers sync.WaitGroup
	watchers.Go(func() {
		p.view.Watch(watching, status.Parts{
			Client: n.kafka, Group: membership, Consumer: consumer, Database: n.database,
			MostVaried: func() string { return check.MostVaried(consumer.Metas(sampledSeries)) },
		})
	})
	for topic, store := range n.stores {
		name := p.config.MongoDB.SeriesFor(topic)
		watch := collectionWatch{
			store: store, log: p.log,
			covers:  func(ctx context.Context, o timeseries.Options) (bool, error) { return n.database.Covers(ctx, name, o) },
			apply:   func(o timeseries.Options) { consumer.SetCollection(topic, o) },
			compact: func() { consumer.AskCompaction(topic) },
			mend:    func(ctx context.Context) (bool, error) { return n.database.MendView(ctx, name) },
		}
		watchers.Go(func() { watch.run(watching, collectionInterval) })
	}
	watchers.Go(func() {
		made := func(series, path, index string) {
			p.log.Info("made an index for META_INDEXES", "collection", series, "on", path, "index", index)
		}
		if err := n.makeMetaIndexes(watching, p.config, p.log, made); err != nil && watching.Err() == nil {
			p.log.Warn("an index of META_INDEXES cannot be made: measurements are stored all the same; queries on parts of meta will scan the collection",
				"err", err, "way_out", "waterwheel init makes it when the cause is gone; waterwheel collection indexes lists what there is")
		}
	})
	err = membership.Run(ctx)
	stopWatching()
	watchers.Wait()
	p.view.Stopped()
	return err
}

// patience is that of the start, from now on.
func (p *process) patience() *patience {
	with := patience{log: p.log, opening: true, bound: "START_TIMEOUT", show: p.view.Waiting}
	return with.started(p.config.Service.StartTimeout)
}

// consumer are the consumer's options.
func (p *process) consumer(n *connections) pipeline.ConsumerOptions {
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
			client: n.kafka, stores: n.stores, letters: letterTopic{n.letters, p.view.Written}, group: c.Kafka.GroupID,
			owner: owner, open: map[record.Partition]*sink.Partition{},
		},
		Budget: p.budget, Clock: kafka.Now, CommitInterval: c.Flush.CommitInterval, Lease: c.Kafka.Lease, Between: c.Kafka.RebalanceTimeout,
		Metrics: p.metrics,
	}
}

// worker are the options of the worker of a partition.
func (p *process) worker(n *connections, of record.Partition) pipeline.Options {
	c := p.config
	decoder, _, err := newDecoder(c)
	if err != nil {
		panic("waterwheel: options that connect has checked: " + err.Error())
	}
	store, grace := n.stores[of.Topic], graceOf(c)
	buckets := bucketing(c, store.Collection, store.SetsInTextOrder)
	if store.Segments {
		buckets.DenseFrom, buckets.SegmentRows = pipeline.DefaultDenseFrom, c.Flush.SegmentRows
		for _, path := range c.MongoDB.MetaIndexes {
			buckets.SegmentOrder = append(buckets.SegmentOrder, strings.TrimPrefix(path, c.MongoDB.MetaField+"."))
		}
	}
	return pipeline.Options{
		Partition: of, Group: c.Kafka.GroupID, ClusterID: n.kafka.ClusterID(),
		Namespace: namespace(c, of.Topic), Bucketing: buckets, Decoder: decoder,
		OutOfRange: claim.OutOfRange(c.Kafka.OutOfRange), StopOnBad: n.letters == nil,
		LongestLetter: max(int(c.Event.MaxBytes), pipeline.DefaultLetterBuffer), // a record that could be stored some day goes whole
		FlushInterval: c.Flush.Interval, FlushBytes: int64(c.Flush.Bytes), FlushCount: c.Flush.Count,
		Wait: c.Kafka.Lease + grace, Grace: grace, Warm: true, NewToken: newToken,
		Segments: store.HasSegments, CompactInterval: c.Flush.CompactInterval, CompactDelay: c.Flush.CompactDelay,
		CompactMargin: min(pipeline.DefaultCompactMargin, c.Flush.CompactDelay/4), SegmentRetention: c.Flush.SegmentRetention,
		CompactBytes: min(pipeline.DefaultCompactBytes, budgetOf(c)/compactShare), SegmentMeasurements: int64(c.Flush.SegmentMeasurements),
		Random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), Log: p.log, Metrics: p.metrics, Outages: p.outages,
		Losses: p.losses,
	}
}

// sampledSeries is how many series a warning about too many of them looks at.
const sampledSeries = 5000

// graceOf is how long a write may still be executed after it was sent: once the write timeout on the way, once by maxTimeMS.
func graceOf(c config.Config) time.Duration { return 2 * c.MongoDB.WriteTimeout }

func newToken() (t claim.Token) {
	_, _ = cryptorand.Read(t[:]) // never fails
	return t
}
