package check

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/dlq"
	"waterwheel/internal/kafka"
	"waterwheel/internal/words"
)

// letters checks the dead-letter topics.
func (l *look) letters(ctx context.Context) {
	if l.Letters == nil {
		l.Warn("dead letters", "set DLQ_TOPIC", "DLQ_TOPIC is empty: a bad record stops its partition")
		return
	}
	topics, err := l.Kafka.Topics(ctx, l.Letters.Topics()...)
	if err != nil {
		l.Failed("dead letters", fmt.Errorf("reading metadata of the dead-letter topics: %w", err))
		return
	}
	for _, topic := range topics {
		subject := "dead letters " + topic.Name
		switch {
		case kafka.Classify(topic.Err) == kafka.LookAtMetadata:
			l.lettersToCome(ctx, subject, topic.Name)
		case kafka.Classify(topic.Err) == kafka.StopPartition:
			l.Wrong(subject, "grant this user WRITE on the topic, and CREATE if DLQ_CREATE=true should create the topic", "this user may not see the topic")
		case !topic.Rights.Allow(kafka.Write):
			l.Wrong(subject, "grant this user WRITE on the topic", "this user can see the topic but may not write to it")
		case !topic.Rights.Allow(kafka.Read):
			l.OK(subject, "%s; this user can write dead letters but not read them: grant READ on the topic for the commands dlq and verify", words.Count(len(topic.Partitions), "partition"))
		default:
			l.letterTopic(ctx, subject, topic.Name)
		}
	}
}

// lettersToCome checks whether a missing dead-letter topic will be created.
func (l *look) lettersToCome(ctx context.Context, subject, topic string) {
	if !l.Letters.Create {
		l.Wrong(subject, "create the topic, or set DLQ_CREATE=true", "the topic does not exist")
		return
	}
	err := kafka.Patiently(ctx, func() error { return l.Kafka.TryCreate(ctx, topic, l.Letters.Partitions, l.Letters.Replication) })
	switch {
	case err == nil:
		l.OK(subject, "the topic does not exist yet: init and run create it")
	case errors.Is(err, kafkago.TopicAuthorizationFailed), errors.Is(err, kafkago.ClusterAuthorizationFailed):
		l.Wrong(subject, "grant this user CREATE and WRITE on the topic; or create the topic, and set DLQ_CREATE=false",
			"the topic does not exist, and this user may not create it (DLQ_CREATE)")
	default:
		l.Failed(subject, fmt.Errorf("the topic does not exist, and cannot be created: %w", err))
	}
}

// letterTopic checks a dead-letter topic that can be written and read.
func (l *look) letterTopic(ctx context.Context, subject, topic string) {
	spans, err := dlq.Spans(ctx, l.Kafka, []string{topic})
	if err != nil {
		l.Failed(subject, err)
		return
	}
	l.OK(subject, "%s, %s; \"waterwheel dlq stats\" counts the dead letters", words.Count(len(spans), "partition"), words.Count(dlq.Offsets(spans), "offset"))
	t, ok := l.configured(ctx, subject, topic)
	if !ok {
		return
	}
	l.durability(subject, t)
	l.retention(subject, t.Values)
	if strings.Contains(t.Values["cleanup.policy"], "compact") {
		l.Wrong(subject, "set cleanup.policy=delete", "the topic is compacted: dead letters whose records have the same key are lost")
	}
	if size, err := strconv.Atoi(t.Values["max.message.bytes"]); err == nil && size < l.longest {
		l.Warn(subject, "set max.message.bytes of the dead-letter topic higher than max.message.bytes of the source topics",
			"max.message.bytes=%d is less than the %d of the source topics: long dead letters are truncated and cannot be redriven", size, l.longest)
	}
}

// retention checks how long a dead-letter topic keeps letters.
func (l *look) retention(subject string, values map[string]string) {
	kept, ok := milliseconds(values["retention.ms"])
	switch {
	case !ok:
	case kept < 0:
		l.Note(subject, "retention.ms=-1: Kafka never deletes dead letters because of their age")
	case values["message.timestamp.type"] != "LogAppendTime":
		l.Warn(subject, "set message.timestamp.type=LogAppendTime", "dead letters have the timestamps of their records, so retention.ms=%s deletes dead letters of old records immediately", values["retention.ms"])
	default:
		l.OK(subject, "dead letters are kept for %s", words.Span(kept))
	}
}
