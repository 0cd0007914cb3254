package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/kafka"
	"waterwheel/pipeline"
	"waterwheel/sink"
)

// How long setting MongoDB up is tried again, and about the time between two tries. An election takes about ten seconds.
const (
	setupPatience = 30 * time.Second
	setupPause    = 500 * time.Millisecond
)

// closingTimeout bounds closing connections at the end.
const closingTimeout = 2 * time.Second

// connections are both ends, connected and set up.
type connections struct {
	kafka    *kafka.Client
	letters  *dlq.Producer // nil: DLQ_TOPIC is empty
	database *sink.Database
	stores   map[string]*sink.Store // by topic
	// consumer is asked whether anything may be written; nil: nothing may be yet.
	consumer *atomic.Pointer[pipeline.Consumer]
}

// connect opens both ends and makes what is missing: collections, indexes, dead-letter topics. A topic that does not exist
// is a mistake in the settings rather than an outage.
func connect(ctx context.Context, c config.Config, log *slog.Logger, reg prometheus.Registerer) (_ *connections, err error) {
	n := &connections{stores: map[string]*sink.Store{}, consumer: &atomic.Pointer[pipeline.Consumer]{}}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if n.kafka, err = kafka.Open(ctx, kafkaOptions(c, log), reg); err != nil {
		return nil, err
	}
	if err = n.checkTopics(ctx, c.Kafka.Topics); err != nil {
		return nil, err
	}
	if err = n.openDatabase(ctx, c, log, reg); err != nil {
		return nil, err
	}
	return n, n.openLetters(ctx, c)
}

func (n *connections) checkTopics(ctx context.Context, names []string) error {
	topics, err := n.kafka.Topics(ctx, names...)
	if err != nil {
		return fmt.Errorf("looking at the topics: %w", err)
	}
	return errors.Join(unreadable(topics)...)
}

// unreadable says of topics that do not exist, or that this user may not see, what to do about each.
func unreadable(topics []kafka.Topic) (errs []error) {
	for _, topic := range topics {
		switch {
		case topic.Err != nil && kafka.Classify(topic.Err) != kafka.Retry:
			errs = append(errs, fmt.Errorf("looking at a topic of KAFKA_TOPICS: %w", topic.Err))
		case topic.Err == nil && !topic.Rights.Allow(kafka.Read):
			errs = append(errs, fmt.Errorf("topic %q of KAFKA_TOPICS may be seen and not read: grant this user READ on it", topic.Name))
		}
	}
	return errs
}

func (n *connections) openDatabase(ctx context.Context, c config.Config, log *slog.Logger, reg prometheus.Registerer) error {
	_, definition, err := newDecoder(c) // workers make theirs later: what is wrong with it is said now
	if err != nil {
		return err
	}
	o := sinkOptions(c, log)
	o.Registerer = reg
	o.Lease = func() bool {
		consumer := n.consumer.Load()
		return consumer != nil && consumer.Held()
	}
	if n.database, err = sink.Open(ctx, o); err != nil {
		return err
	}
	for _, topic := range c.Kafka.Topics {
		name := c.MongoDB.SeriesFor(topic)
		setup := func() (err error) {
			n.stores[topic], err = n.database.Setup(ctx, name, definition, c.Bucket.MaxCount)
			return err
		}
		if err := persist(ctx, log.With("collection", name), setup); err != nil {
			return err
		}
	}
	return nil
}

// persist sets something up in MongoDB, again and again while that fails for what passes by itself: an election takes longer
// than one try.
func persist(ctx context.Context, log *slog.Logger, setup func() error) error {
	for begin, tries := time.Now(), 1; ; tries++ {
		err := setup()
		out := (*sink.OutageError)(nil)
		if err == nil || !errors.As(err, &out) || ctx.Err() != nil {
			return err
		}
		if time.Since(begin) >= setupPatience {
			return fmt.Errorf("tried again for %v: %w", setupPatience, err)
		}
		log.Warn("MongoDB cannot be set up yet, trying again", "times", tries, "for", time.Since(begin).Round(time.Millisecond), "err", err)
		select {
		case <-time.After(setupPause/2 + rand.N(setupPause)):
		case <-ctx.Done():
		}
	}
}

func (n *connections) openLetters(ctx context.Context, c config.Config) error {
	if c.DLQ.Topic == "" {
		return nil
	}
	n.letters = dlq.New(n.kafka, letterOptions(c))
	return n.letters.Setup(ctx)
}

// close closes what is open.
func (n *connections) close() {
	if n.letters != nil {
		n.letters.Close()
	}
	if n.database != nil {
		closeDatabase(n.database)
	}
	if n.kafka != nil {
		n.kafka.Close()
	}
}

func closeDatabase(d *sink.Database) {
	ctx, cancel := context.WithTimeout(context.Background(), closingTimeout)
	defer cancel()
	_ = d.Close(ctx) // all that matters was acknowledged before
}
