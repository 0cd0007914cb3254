package main

import (
	"context"
	cryptorand "crypto/rand"
	"fmt"
	"io"
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
	"golang.org/x/sync/errgroup"

	"waterwheel/claim"
	"waterwheel/config"
	"waterwheel/kafka"
	"waterwheel/measurement"
	"waterwheel/pipeline"
	"waterwheel/record"
	"waterwheel/timeseries"
)

// run carries measurements until the context ends, then hands everything over in order.
func run(ctx context.Context, c config.Config, log *slog.Logger) error {
	hurried, stopHurrying := hurriedBySignal(ctx)
	defer stopHurrying()
	debug.SetMemoryLimit(int64(c.Memory.Limit))
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registerBuildInfo(registry)
	view := newView(c, log)
	registry.MustRegister(view, view.outages, view.overSeries)

	// The pages answer from the start, and until everything is handed over. Pages that cannot be served end the consumer.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return newPages(c.Service.HTTPAddr, view.status, registry, log).Run(serving) })
	g.Go(func() error { return newProfiles(c.Service.PprofAddr, log).Run(serving) })
	g.Go(func() error {
		defer stopServing()
		return consume(ctx, c, log, registry, view)
	})
	ended := make(chan error, 1)
	go func() { ended <- g.Wait() }() // after a second signal the process ends without it
	select {
	case err := <-ended:
		return err
	case <-hurried:
		return view.hurried()
	}
}

// hurriedBySignal is closed when the process is asked to end while it does already. stop gives the signals back.
func hurriedBySignal(ctx context.Context) (hurried <-chan struct{}, stop func()) {
	left := 2
	if ctx.Err() != nil {
		left = 1
	}
	signals, second, done := make(chan os.Signal, left), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for range left {
			select {
			case <-signals:
			case <-done:
				return
			}
		}
		close(second)
	}()
	return second, func() { signal.Stop(signals); close(done) }
}

// consume connects, joins the group, and works until the context ends.
func consume(ctx context.Context, c config.Config, log *slog.Logger, reg prometheus.Registerer, view *view) error {
	log.Info("starting", "version", version, "group", c.Kafka.GroupID, "topics", strings.Join(c.Kafka.Topics, ","))
	n, err := connect(ctx, c, log, reg)
	if err != nil && ctx.Err() != nil {
		log.Info("stopped before it was connected")
		return nil // as asked
	}
	if err != nil {
		return err
	}
	defer n.close()
	metrics := pipeline.NewMetrics(reg, c.Kafka.Topics)
	consumer, err := newConsumer(c, log, metrics, n, view)
	if err != nil {
		return err
	}
	member := &member{ctx: ctx, consumer: consumer, lease: n.lease, log: log}
	group := kafka.NewGroup(n.kafka, c.Service.ShutdownTimeout, member, reg)
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	view.attach(&parts{group: group, consumer: consumer, database: n.database, metrics: metrics, kafka: kafkaLogs{n.kafka, c.Kafka.GroupID}})
	var watchers sync.WaitGroup
	watchers.Go(func() { view.watch(watching, log) })
	for topic, store := range n.stores {
		apply := func(o timeseries.Options) { consumer.SetCollection(topic, o) }
		go watchCollection(watching, collectionInterval, store, apply, log)
	}
	err = group.Run(ctx)
	stopWatching()
	watchers.Wait()
	view.stopped(log)
	return err
}

// newConsumer makes the consumer with the workers' options.
func newConsumer(c config.Config, log *slog.Logger, metrics *pipeline.Metrics, n *connections, view *view) (*pipeline.Consumer, error) {
	owner, err := os.Hostname()
	if err != nil {
		owner = "unknown"
	}
	if _, err := measurement.New(decoding(c, n.collection)); err != nil {
		return nil, err
	}
	return pipeline.NewConsumer(pipeline.ConsumerOptions{
		NewWorker: func(p record.Partition) *pipeline.Worker {
			o := workerOptions(c, n, p, log, metrics)
			o.Outages = view.down
			return pipeline.NewWorker(o)
		},
		Ports: &ports{
			client: n.kafka, stores: n.stores, letters: letterTopic{n.letters, view.letters}, group: c.Kafka.GroupID,
			isolation: sourceOptions(c, log).Isolation, owner: owner, start: startOf(c, n.kafka), open: openPartitions{},
		},
		Budget: view.budget, Clock: kafka.Now, CommitInterval: c.Flush.CommitInterval, Lease: c.Kafka.Lease, Between: c.Kafka.RebalanceTimeout, Metrics: metrics,
	}), nil
}

func workerOptions(c config.Config, n *connections, p record.Partition, log *slog.Logger, metrics *pipeline.Metrics) pipeline.Options {
	decoder, err := measurement.New(decoding(c, n.collection))
	if err != nil {
		panic("consumer: options that were checked at the start: " + err.Error())
	}
	grace := graceOf(c)
	return pipeline.Options{
		Partition: p, Group: c.Kafka.GroupID, ClusterID: n.kafka.ClusterID(),
		Namespace: n.database.Name() + "." + c.MongoDB.SeriesFor(p.Topic), Bucketing: bucketing(c, n.stores[p.Topic]), Decoder: decoder,
		OutOfRange: claim.OutOfRange(c.Kafka.OutOfRange), StopOnBad: n.letters == nil,
		LongestLetter: max(int(c.Event.MaxBytes), pipeline.DefaultLetterbox), // a record that could be stored some day goes whole
		FlushInterval: c.Flush.Interval, FlushBytes: int64(c.Flush.Bytes), FlushCount: c.Flush.Count,
		Wait: c.Kafka.Lease + grace, Grace: grace, Warm: true, NewToken: newToken,
		Random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), Log: log, Metrics: metrics,
	}
}

// graceOf is how long a write may still be executed after it was sent: once the write timeout on the way, once by maxTimeMS.
func graceOf(c config.Config) time.Duration { return 2 * c.MongoDB.WriteTimeout }

func newToken() (t claim.Token) {
	_, _ = cryptorand.Read(t[:]) // never fails
	return t
}

// startOf tells where KAFKA_START points to in a partition.
func startOf(c config.Config, client *kafka.Client) startFunc {
	return func(ctx context.Context, topic string, partition int32, b record.Bounds) (int64, error) {
		switch c.Kafka.Start.Policy {
		case "latest":
			return b.End, nil
		case "time":
			return client.OffsetAt(ctx, topic, partition, c.Kafka.Start.Time.UnixMilli())
		}
		return b.First, nil
	}
}

// initialize makes what run needs, and says so.
func initialize(ctx context.Context, c config.Config, log *slog.Logger, out io.Writer) error {
	n, err := connect(ctx, c, log, prometheus.NewRegistry())
	if err != nil {
		return err
	}
	defer n.close()
	for _, topic := range c.Kafka.Topics {
		fmt.Fprintf(out, "topic %s: collections %s.%s.buckets, .partitions and .options are ready\n", topic, n.database.Name(), c.MongoDB.SeriesFor(topic))
	}
	if n.letters != nil {
		o := letterOptions(c)
		kept := "until somebody deletes them"
		if o.Retention > 0 {
			kept = "for " + o.Retention.String()
		}
		fmt.Fprintf(out, "dead-letter topics are ready: %s; those made now keep letters %s (DLQ_RETENTION)\n", strings.Join(o.Topics(), ", "), kept)
	}
	return nil
}
