package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"waterwheel/e2e/check"
	"waterwheel/e2e/embedded"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// These are the demo's names. maxEventBytes is small, so that an oversized event is cheap to make.
const (
	topicName     = "measurements"
	databaseName  = "demo"
	groupName     = "waterwheel-demo"
	partitions    = 3
	maxEventBytes = 32 << 10
)

// stage holds everything that runs during the demo.
type stage struct {
	out      *screen
	kafka    *embedded.Kafka
	mongo    *embedded.Mongo
	reader   *check.Kafka
	dir      string // holds the consumer's binary, unless one is given, and its settings
	binary   string
	settings harness.Settings
	consumer *harness.Consumer // the consumer that runs, or the last one
	server   *harness.Consumer // the serve command, with -keep
	killed   time.Time         // when the first consumer was killed
	book     *events.Book
	// These measurements were recognised as already stored, after the crash and after the reset.
	recognised, readTwice int
}

// open starts the servers, and builds the consumer if none is given. After an error nothing is left running.
func open(ctx context.Context, out *screen, consumer string) (*stage, error) {
	s := &stage{out: out, binary: consumer, book: events.NewBook()}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stage) start(ctx context.Context) (err error) {
	if s.kafka, err = embedded.StartKafka(kfake.SeedTopics(partitions, topicName), kfake.GroupMinSessionTimeout(time.Second)); err != nil {
		return err
	}
	if s.mongo, err = embedded.StartMongo(); err != nil {
		return err
	}
	if s.reader, err = check.DialKafka(s.kafka.Brokers()); err != nil {
		return err
	}
	s.out.step(green, "✓", "embedded Kafka at %s and %s", s.kafka.Brokers(), s.mongo)
	if s.dir, err = os.MkdirTemp("", "waterwheel-demo-"); err != nil {
		return fmt.Errorf("making a folder for the consumer: %w", err)
	}
	if s.binary == "" {
		s.out.progress("building the consumer …")
		if s.binary, err = harness.Build(ctx, s.dir, false); err != nil {
			return err
		}
		s.out.step(green, "✓", "consumer built")
	}
	s.settings = harness.Settings{
		"KAFKA_BROKERS":  s.kafka.Brokers(),
		"KAFKA_TOPICS":   topicName,
		"KAFKA_GROUP_ID": groupName,
		// These are shorter than the defaults, so that the take-over after the crash happens within the demo.
		"KAFKA_SESSION_TIMEOUT":    "3s",
		"KAFKA_HEARTBEAT_INTERVAL": "500ms",
		"KAFKA_REBALANCE_TIMEOUT":  "6s",
		"KAFKA_LEASE":              "2s",
		"COMMIT_INTERVAL":          "500ms",
		"FLUSH_INTERVAL":           "2s",
		"EVENT_MAX_BYTES":          fmt.Sprint(maxEventBytes),
		"MONGODB_URI":              s.mongo.URI(),
		"MONGODB_DATABASE":         databaseName,
		"MONGODB_WRITE_TIMEOUT":    "2s",
		"LOG_FORMAT":               "text",
		// These make totals by minute, hour and day at once.
		"ROLLUP_LEVELS":   "1m,1h,1d",
		"ROLLUP_INTERVAL": "1s",
		"ROLLUP_SHARE":    "1",
	}
	return nil
}

// close ends all processes and servers, and deletes the demo's files.
func (s *stage) close() error {
	var problems []error
	for _, process := range []*harness.Consumer{s.consumer, s.server} {
		if process != nil {
			process.Kill()
		}
	}
	if s.reader != nil {
		s.reader.Close()
	}
	if s.kafka != nil {
		s.kafka.Close()
	}
	if s.mongo != nil {
		problems = append(problems, s.mongo.Close())
	}
	if s.dir != "" {
		problems = append(problems, os.RemoveAll(s.dir))
	}
	return errors.Join(problems...)
}

// startConsumer starts the real program and waits until it is ready.
func (s *stage) startConsumer(ctx context.Context) error {
	c, err := harness.Start(s.binary, s.settings)
	if err != nil {
		return err
	}
	s.consumer = c
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return c.AwaitReady(ctx)
}
