package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/kafka"
	"waterwheel/kafka/recordbatch"
	"waterwheel/record"
)

const (
	// scanRecord is more than any record has: what is sent somewhere else must be whole.
	scanRecord = 1 << 30
	// scanPause is the time between two tries.
	scanPause = 250 * time.Millisecond
)

// topicLog is dlq.Log in Kafka. It reads what transactions leave uncommitted too: letters are written without.
type topicLog struct{ *kafka.Scanner }

// openTopicLog connects to Kafka for reading topics from outside any group.
func openTopicLog(ctx context.Context, c config.Config, log *slog.Logger, topics []string) (*topicLog, error) {
	o := kafkaOptions(c, log)
	o.Topics, o.Isolation, o.Decoding.RecordBytes = topics, kafka.ReadUncommitted, scanRecord
	scanner, err := kafka.OpenScanner(ctx, o)
	if err != nil {
		return nil, err
	}
	return &topicLog{scanner}, nil
}

// Partitions implements dlq.Log.
func (l *topicLog) Partitions(ctx context.Context, topic string) ([]int32, error) {
	found, err := l.Topic(ctx, topic)
	list := make([]int32, len(found.Partitions))
	for i, p := range found.Partitions {
		list[i] = p.ID
	}
	return list, err
}

// Bounds implements dlq.Log.
func (l *topicLog) Bounds(ctx context.Context, topic string, partition int32) (first, end int64, err error) {
	return l.Scanner.Bounds(ctx, record.Partition{Topic: topic, Number: partition})
}

// Read implements dlq.Log.
func (l *topicLog) Read(ctx context.Context, topic string, partition int32, from, to int64, each func(*dlq.Record) error) error {
	_, err := l.Scan(ctx, record.Partition{Topic: topic, Number: partition}, from, to, func(r *record.Record) error {
		headers, err := recordbatch.ParseHeaders(r.Headers)
		if err != nil {
			return fmt.Errorf("reading the headers of the record at offset %d: %w", r.Offset, err)
		}
		out := dlq.Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value, Headers: slices.Grow([]dlq.Header(nil), len(headers)+1)}
		for _, h := range headers {
			out.Headers = append(out.Headers, dlq.Header{Key: h.Key, Value: h.Value})
		}
		if err := each(&out); !errors.Is(err, dlq.ErrStop) {
			return err
		}
		return kafka.ErrStop
	})
	return err
}
