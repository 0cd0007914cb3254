package dlq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
)

// grantWrite ends each error about a missing right.
const grantWrite = "grant this user WRITE on the dead-letter topic"

// advised adds to an error about a missing right what to do about it.
func advised(err error) error {
	if errors.Is(err, kafkago.TopicAuthorizationFailed) || errors.Is(err, kafkago.ClusterAuthorizationFailed) {
		return fmt.Errorf("%w; %s, and CREATE if waterwheel should create the topic (DLQ_CREATE=true)", err, grantWrite)
	}
	return err
}

// Setup finds the dead-letter topics, and creates missing ones if the options allow it. It may be called again after an error.
// kafka.Classify reports whether that can help.
func (p *Producer) Setup(ctx context.Context) error { return p.setUp(ctx, p.options.Topics()...) }

func (p *Producer) setUp(ctx context.Context, names ...string) error {
	missing, err := p.client.Missing(ctx, names...)
	switch {
	case err != nil:
	case len(missing) == 0:
	case !p.options.Create:
		return kafka.Mistake(fmt.Errorf("dead-letter topics do not exist: %s (create them, or set DLQ_CREATE=true)", strings.Join(missing, ", ")))
	default:
		err = p.create(ctx, missing)
	}
	if err != nil {
		return advised(err)
	}
	topics, err := p.client.Topics(ctx, names...)
	if err != nil {
		return fmt.Errorf("reading metadata of the dead-letter topics: %w", err)
	}
	var errs []error
	for _, t := range topics {
		if t.Err == nil && !t.Rights.Allow(kafka.Write) {
			errs = append(errs, kafka.Mistake(fmt.Errorf("this user can see dead-letter topic %q but may not write to it: %s", t.Name, grantWrite)))
		}
	}
	return errors.Join(errs...)
}

// create creates topics that keep letters for a time after their writing (LogAppendTime). By default Kafka would use the times of
// the records, and would delete letters of old records at once.
func (p *Producer) create(ctx context.Context, names []string) error {
	retention := int64(-1)
	if p.options.Retention > 0 {
		retention = p.options.Retention.Milliseconds()
	}
	topics := make([]kafka.NewTopic, len(names))
	for i, name := range names {
		topics[i] = kafka.NewTopic{
			Name: name, Partitions: p.options.Partitions, Replication: p.options.Replication,
			Configuration: map[string]string{
				"cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime", "retention.ms": strconv.FormatInt(retention, 10),
			},
		}
	}
	if err := p.writer.Create(ctx, topics...); err != nil {
		return fmt.Errorf("creating the dead-letter topics: %w", err)
	}
	return nil
}
