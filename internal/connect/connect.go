package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/collection"
	"waterwheel/internal/kafka"
	"waterwheel/internal/mongodb"
	"waterwheel/pipeline"
	"waterwheel/sink"
)

// firstLook is how long the first try to reach MongoDB may take. Each further try takes twice as long, up to longestLook. The
// driver keeps looking for a missing server for the whole time, and only then returns the reason.
const (
	firstLook   = 2 * time.Second
	longestLook = time.Minute
)

// closingTimeout bounds closing the connections to MongoDB. The context of Close may end earlier.
const closingTimeout = 2 * time.Second

// Connections are the connections to Kafka and MongoDB, after their set-up.
type Connections struct {
	Kafka *kafka.Client
	// Schemas is the schema registry. Nil means that there is none.
	Schemas     Schemas
	DeadLetters *dlq.Producer // Nil means that DLQ_TOPIC is empty.
	Database    *mongodb.Database
	// Config are the settings, with the topics that are read: those named in KAFKA_TOPICS, and those that matched its patterns at
	// Open.
	Config config.Config
	// Consumer reports whether anything may be written. Nil means that nothing may be written yet.
	Consumer *atomic.Pointer[pipeline.Consumer]

	metrics *sink.Metrics

	mu     sync.Mutex
	stores map[string]*sink.Store // by topic
	// rollups has the rollups by topic.
	rollups map[string]*sink.Rollups
	// nested has the collections of nested documents by the names of time series.
	nested map[string]mongodb.Collection
}

// New returns connections that are not open yet.
func New() *Connections {
	return &Connections{stores: map[string]*sink.Store{}, rollups: map[string]*sink.Rollups{}, nested: map[string]mongodb.Collection{}, Consumer: &atomic.Pointer[pipeline.Consumer]{}}
}

// Store returns the time series of a topic. Nil means that it is not set up.
func (n *Connections) Store(topic string) *sink.Store {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stores[topic]
}

// Rollups returns the rollups of the time series of each topic. A time series need not have levels, but it may get some from
// another consumer.
func (n *Connections) Rollups() map[string]*sink.Rollups {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.rollups)
}

// Nested returns the collection of ROLLUP_NESTED for a time series. Nil means that there is none.
func (n *Connections) Nested(series string) mongodb.Collection {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nested[series]
}

// Open connects to Kafka and MongoDB, and creates missing collections, indexes and dead-letter topics. A topic that does not
// exist is a mistake in the settings rather than an outage. Open waits for both servers at once, as p allows. So a mistake with
// one server is reported even if the other does not answer. The caller must close the connections even after an error, because
// some may be open.
func (n *Connections) Open(ctx context.Context, c config.Config, p *Patience, reg prometheus.Registerer) error {
	if _, _, err := NewDecoder(c); err != nil { // workers create theirs later, but an error is reported now
		return err
	}
	var err error
	if n.Schemas, err = Registry(c, reg); err != nil {
		return err
	}
	n.Config = c
	both, opening := errgroup.WithContext(ctx)
	both.Go(func() error { return n.openKafka(opening, c, p, reg) })
	both.Go(func() error { return n.openDatabase(opening, c, p, reg) })
	if err := both.Wait(); err != nil {
		return err
	}
	err = n.setUp(ctx, c, p)
	if err != nil && !mongodb.LacksRight(err) {
		return err // waiting for Kafka would be pointless, and its error would hide the cause
	}
	// Even if a right is missing in MongoDB, create the dead-letter topics.
	return errors.Join(err, n.openDeadLetters(ctx, c, p))
}

// openKafka connects to Kafka, and checks that the topics exist.
func (n *Connections) openKafka(ctx context.Context, c config.Config, p *Patience, reg prometheus.Registerer) error {
	return p.opens(ctx, kafkaWait(c, pipeline.Kafka), func(ctx context.Context) (err error) {
		if n.Kafka == nil {
			of := prometheus.NewRegistry()
			if n.Kafka, err = kafka.Open(ctx, KafkaOptions(c, p.Log), of); err != nil {
				return mayPass(err)
			}
			reg.MustRegister(of)
		}
		named := c.Kafka.Named()
		err = checkTopics(ctx, func() ([]kafka.Topic, error) { return n.Kafka.Topics(ctx, named...) })
		if err != nil || !c.Kafka.HasPatterns() {
			return mayPass(err)
		}
		return n.match(ctx, c, Precedence{}, p)
	})
}

// kafkaWait describes a wait for a part of Kafka.
func kafkaWait(c config.Config, of pipeline.Dependency) wait {
	return wait{of: of, at: strings.Join(c.Kafka.Brokers, ","), wayOut: "start Kafka, or correct KAFKA_BROKERS; waterwheel check tests the connection"}
}

// mayPass marks errors of Kafka that may pass by themselves.
func mayPass(err error) error {
	if kafka.Classify(err) == kafka.Retry {
		return &notYetError{err}
	}
	return err
}

// newTopicTries is how often an unknown topic is requested, because it may have been created a moment ago. All tries take about
// two seconds.
const newTopicTries = 7

// checkTopics returns what is wrong with the topics that look finds.
func checkTopics(ctx context.Context, look func() ([]kafka.Topic, error)) error {
	for try := 1; ; try++ {
		topics, err := look()
		if err != nil {
			return fmt.Errorf("reading metadata of the topics: %w", err)
		}
		unknown := slices.ContainsFunc(topics, func(t kafka.Topic) bool { return kafka.Classify(t.Err) == kafka.LookAtMetadata })
		if !unknown || try == newTopicTries {
			return errors.Join(unreadable(topics)...)
		}
		if !kafka.Pause(ctx) {
			return context.Cause(ctx)
		}
	}
}

// unreadable returns an error for each topic that does not exist or may not be read.
func unreadable(topics []kafka.Topic) (errs []error) {
	for _, topic := range topics {
		switch {
		case topic.Err != nil && kafka.Classify(topic.Err) != kafka.Retry:
			errs = append(errs, fmt.Errorf("reading metadata of a topic in KAFKA_TOPICS: %w", topic.Err))
		case topic.Err == nil && !topic.Rights.Allow(kafka.Read):
			errs = append(errs, kafka.Mistake(fmt.Errorf("this user can see topic %q of KAFKA_TOPICS but may not read it: grant READ on the topic", topic.Name)))
		}
	}
	return errs
}

// answerTimeout is how long a read waits for MongoDB's answer at first. What a partition needs to know takes moments.
const answerTimeout = 20 * time.Second

// openDatabase connects to MongoDB.
func (n *Connections) openDatabase(ctx context.Context, c config.Config, p *Patience, reg prometheus.Registerer) (err error) {
	of := prometheus.NewRegistry()
	n.metrics = sink.NewMetrics(of)
	o := DatabaseOptions(c, p.Log)
	o.Lease, o.Stopped, o.AnswerTimeout = n.held, n.metrics.Stopped, answerTimeout
	if n.Database, err = OpenDatabase(ctx, c, o, p); err == nil {
		reg.MustRegister(of)
	}
	return err
}

// OpenDatabase connects to MongoDB, and waits for it as p allows.
func OpenDatabase(ctx context.Context, c config.Config, o mongodb.Options, p *Patience) (d *mongodb.Database, err error) {
	look := firstLook
	err = p.opens(ctx, databaseWait(c), func(ctx context.Context) (err error) {
		if p.Opening {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, look)
			defer cancel()
			look = min(2*look, longestLook)
		}
		d, err = mongodb.Open(ctx, o)
		return outage(err)
	})
	return d, err
}

// held reports whether buckets and claims may be written now.
func (n *Connections) held() bool {
	consumer := n.Consumer.Load()
	return consumer != nil && consumer.Held()
}

func databaseWait(c config.Config) wait {
	return wait{of: pipeline.MongoDB, at: c.MongoDB.URI.Hosts(), wayOut: "start MongoDB, or correct MONGODB_URI; waterwheel check tests the connection"}
}

// outage marks errors of MongoDB that may pass by themselves.
func outage(err error) error {
	if _, ok := errors.AsType[*mongodb.OutageError](err); ok {
		return &notYetError{err}
	}
	return err
}

// Close closes the open connections. It returns when ctx ends, at the latest.
func (n *Connections) Close(ctx context.Context) {
	if n.DeadLetters != nil {
		n.DeadLetters.Close()
	}
	if n.Kafka != nil {
		n.Kafka.Close()
	}
	if n.Database != nil {
		closeWithin(ctx, n.Database)
	}
}

// CloseDatabase closes connections to MongoDB. It returns after closingTimeout, at the latest.
func CloseDatabase(d *mongodb.Database) { closeWithin(context.Background(), d) }

func closeWithin(ctx context.Context, d *mongodb.Database) {
	ctx, cancel := context.WithTimeout(ctx, closingTimeout)
	defer cancel()
	_ = d.Close(ctx) // everything that matters was acknowledged before
}

// SeriesOf returns the names of the time series of topics, each once. If topics is empty, it returns those of all topics.
func SeriesOf(c config.Config, topics []string) []string {
	if len(topics) == 0 {
		topics = c.Kafka.Topics
	}
	var names []string
	for _, topic := range topics {
		names = append(names, c.SeriesFor(topic))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// MakeMetaIndexes creates the missing indexes of META_INDEXES, and calls made for each. If one cannot be created, it still
// creates the others. Building an index of a large collection takes long, which blocks only the caller.
func (n *Connections) MakeMetaIndexes(ctx context.Context, c config.Config, log *slog.Logger, made func(series, path, index string)) error {
	var failed []error
	all := SeriesOf(c, nil)
	for _, level := range c.Rollup.Levels {
		for _, of := range SeriesOf(c, nil) {
			all = append(all, level.SeriesName(of))
		}
	}
	for _, series := range all {
		of := collection.Of(n.Database, series)
		missing, err := of.MissingMetaIndexes(ctx, c.MongoDB.MetaIndexes)
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
		for _, path := range missing {
			log.Debug("creating an index for META_INDEXES", "collection", series, "on", path)
			index, is, err := of.CreateMetaIndex(ctx, path)
			if is {
				made(series, path, index.Name)
			}
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// scanRecord is more than the size of any record, because a record that is sent elsewhere must be whole.
const scanRecord = 1 << 30

// OpenTopicLog connects to Kafka for reading topics from outside any group. It also reads records of open and aborted
// transactions, because letters are written without transactions.
func OpenTopicLog(ctx context.Context, c config.Config, log *slog.Logger, topics []string) (*kafka.Scanner, error) {
	o := KafkaOptions(c, log)
	o.Topics, o.Isolation, o.Decoding.RecordBytes = topics, kafka.ReadUncommitted, scanRecord
	return kafka.OpenScanner(ctx, o)
}
