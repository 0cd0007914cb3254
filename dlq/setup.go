package dlq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

// The topics are looked up so often at the start, with a pause: each goes to any broker, and one may be hanging up.
const (
	lookUps     = 5
	lookUpPause = 300 * time.Millisecond
)

// Setup finds the dead-letter topics and creates those that are missing, if the options allow it. It may be called again
// after an error.
func (p *Producer) Setup(ctx context.Context) error {
	missing, err := p.missing(ctx)
	if err != nil || len(missing) == 0 {
		return err
	}
	if !p.options.Create {
		return fmt.Errorf("dead-letter topics do not exist: %s (create them, or set DLQ_CREATE=true)", strings.Join(missing, ", "))
	}
	return p.create(ctx, missing)
}

// missing lists the dead-letter topics that do not exist.
func (p *Producer) missing(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	names := p.options.Topics()
	var metadata *kafka.MetadataResponse
	var err error
	for range lookUps {
		if metadata, err = p.client.Metadata(ctx, &kafka.MetadataRequest{Topics: names}); err == nil || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookUpPause):
		}
	}
	if err != nil {
		return nil, fmt.Errorf("looking up the dead-letter topics %s: %w", strings.Join(names, ", "), err)
	}
	var missing []string
	for _, t := range metadata.Topics {
		switch {
		case errors.Is(t.Error, kafka.UnknownTopicOrPartition):
			missing = append(missing, t.Name)
		case errors.Is(t.Error, kafka.LeaderNotAvailable): // it exists; letters wait for the leader
		case t.Error != nil:
			return nil, fmt.Errorf("looking up dead-letter topic %q: %w", t.Name, t.Error)
		}
	}
	return missing, nil
}

// create makes topics that keep letters for a time after they were written. By the times of their records, which they would
// have otherwise, Kafka would delete letters of old records at once.
func (p *Producer) create(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*p.options.Timeout)
	defer cancel()
	request := &kafka.CreateTopicsRequest{}
	for _, name := range names {
		request.Topics = append(request.Topics, kafka.TopicConfig{
			Topic:             name,
			NumPartitions:     p.options.Partitions,
			ReplicationFactor: p.options.Replication,
			ConfigEntries: []kafka.ConfigEntry{
				{ConfigName: "cleanup.policy", ConfigValue: "delete"},
				{ConfigName: "message.timestamp.type", ConfigValue: "LogAppendTime"},
				{ConfigName: "retention.ms", ConfigValue: p.options.retention()},
			},
		})
	}
	response, err := p.client.CreateTopics(ctx, request)
	if err != nil {
		return fmt.Errorf("creating the dead-letter topics %s: %w", strings.Join(names, ", "), err)
	}
	for _, name := range names {
		// Another consumer of the group may have been first.
		if err := response.Errors[name]; err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
			return fmt.Errorf("creating dead-letter topic %q: %w", name, err)
		}
	}
	return nil
}

// retention is the setting of a created topic.
func (o *Options) retention() string {
	if o.Retention <= 0 {
		return "-1"
	}
	return strconv.FormatInt(o.Retention.Milliseconds(), 10)
}
