package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/kafka"
	"waterwheel/pipeline"
	"waterwheel/sink"
)

// setupPatience is how long setting MongoDB up is tried again where nothing else is waited for: an election takes about ten seconds.
const setupPatience = 30 * time.Second

// closingTimeout bounds closing connections at the end.
const closingTimeout = 2 * time.Second

// connections are both ends, connected and set up.
type connections struct {
	kafka    *kafka.Client
	letters  *dlq.Producer // nil: DLQ_TOPIC is empty
	database *sink.Database
	stores   map[string]*sink.Store // by topic
	wait     *patience
	// consumer is asked whether anything may be written; nil: nothing may be yet.
	consumer *atomic.Pointer[pipeline.Consumer]
}

// connect opens both ends and makes what is missing: collections, indexes, dead-letter topics. It waits for servers that do not
// answer as wait says. A topic that does not exist is a mistake in the settings rather than an outage.
func connect(ctx context.Context, c config.Config, log *slog.Logger, reg prometheus.Registerer, wait *patience) (_ *connections, err error) {
	n := &connections{stores: map[string]*sink.Store{}, wait: wait, consumer: &atomic.Pointer[pipeline.Consumer]{}}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if err = n.openKafka(ctx, c, log, reg); err != nil {
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

// Names of the servers.
const (
	kafkaServer   = "Kafka"
	mongoDBServer = "MongoDB"
)

func (n *connections) openKafka(ctx context.Context, c config.Config, log *slog.Logger, reg prometheus.Registerer) error {
	unreached := func(err error) bool { return kafka.Classify(err) == kafka.Retry }
	return n.wait.until(ctx, kafkaServer, unreached, func(ctx context.Context) (err error) {
		return attempt(reg, func(reg prometheus.Registerer) error {
			n.kafka, err = kafka.Open(ctx, kafkaOptions(c, log), reg)
			return err
		})
	})
}

// attempt registers the metrics of what is opened once that went well: it may be tried again.
func attempt(reg prometheus.Registerer, open func(prometheus.Registerer) error) error {
	own := prometheus.NewRegistry()
	if err := open(own); err != nil {
		return err
	}
	return reg.Register(own)
}

// unanswered tells of an error whether a broker did not answer, or asks to be asked again.
func unanswered(err error) bool { return is[*kafka.Error](err) && kafka.Classify(err) == kafka.Retry }

func (n *connections) checkTopics(ctx context.Context, names []string) error {
	var topics []kafka.Topic
	err := n.wait.until(ctx, kafkaServer, unanswered, func(ctx context.Context) (err error) {
		if topics, err = n.kafka.Topics(ctx, names...); err != nil {
			err = fmt.Errorf("looking at the topics: %w", err)
		}
		return err
	})
	if err != nil {
		return err
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
	o.Lease = func() bool {
		consumer := n.consumer.Load()
		return consumer != nil && consumer.Held()
	}
	err = n.wait.until(ctx, mongoDBServer, is[*sink.UnreachableError], func(ctx context.Context) error {
		return attempt(reg, func(reg prometheus.Registerer) (err error) {
			o.Registerer = reg
			n.database, err = sink.Open(ctx, o)
			return err
		})
	})
	if err != nil {
		return err
	}
	wait := n.wait
	if wait == nil {
		wait = &patience{since: time.Now(), limit: setupPatience, log: log, show: func(string, time.Time, error) {}}
	}
	for _, topic := range c.Kafka.Topics {
		err := wait.until(ctx, mongoDBServer, is[*sink.OutageError], func(ctx context.Context) (err error) {
			n.stores[topic], err = n.database.Setup(ctx, c.MongoDB.SeriesFor(topic), definition, c.Bucket.MaxCount)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *connections) openLetters(ctx context.Context, c config.Config) error {
	if c.DLQ.Topic == "" {
		return nil
	}
	n.letters = dlq.New(n.kafka, letterOptions(c))
	return n.wait.until(ctx, kafkaServer, unanswered, n.letters.Setup)
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
